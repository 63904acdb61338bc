"""Lesson 14: pictures, patches against PyTorch's convolution, the model, the overlays."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.errors import ShapeError
from mha_course.lessons.l14_vision import overlays, shapes, vision
from mha_course.lessons.l14_vision.overlays import attention_overlay, image_grid, patches


def drawn(count=400, seed=3):
    return shapes.draw(count, torch.Generator().manual_seed(seed))


# Pictures


def test_answers_are_true_and_pixels_have_the_colours():
    pictures = drawn()
    assert all(map(torch.equal, pictures, drawn()))
    assert torch.equal(pictures.same == 1, pictures.colours[:, 0] == pictures.colours[:, 2])
    assert not pictures.same[pictures.colours[:, 0] == pictures.colours[:, 1]].any()
    assert 0 <= pictures.images.min() < pictures.images.max() <= 1
    palette = torch.tensor(list(shapes.COLOURS.values()))
    for side, number in itertools.product((0, 2), range(20)):
        part = slice(shapes.STARTS[side], shapes.STARTS[side] + shapes.PART)
        inside = pictures.shapes[number, :, part]
        assert inside.sum() > 25
        mean = pictures.images[number, :, :, part][:, inside].mean(-1)
        assert (palette - mean).abs().sum(-1).argmin() == pictures.colours[number, side]
        words = pictures.describe(number).split(", ")[side].split()
        colour, kind = pictures.colours[number, side], pictures.kinds[number, side]
        assert words[1:] == [list(shapes.COLOURS)[colour], shapes.KINDS[kind]]
    assert len(drawn(7).images) == 7


def test_a_pair_holds_the_same_patches_and_both_answers():
    """A model that ignores positions is right for exactly one picture of each pair."""
    pictures = drawn()
    assert (pictures.same[::2] + pictures.same[1::2] == 1).all()
    assert 0.4 < pictures.same[::2].float().mean() < 0.6
    for one, other in vision.patchify(pictures.images, vision.PATCH).unflatten(0, (-1, 2))[:50]:
        assert sorted(one.tolist()) == sorted(other.tolist())
    for count in torch.bincount(pictures.colours[pictures.same == 1, 0], minlength=4):
        assert 30 < count < 70  # one shape says nothing about the answer


def test_shape_patches_are_those_that_a_pooled_mask_says():
    pictures = drawn()
    want = F.max_pool2d(pictures.shapes[:, None].float(), vision.PATCH).flatten(1) > 0
    assert torch.equal(vision.shape_patches(pictures), want)
    both = want.unflatten(1, vision.GRID)
    assert not both[:, :, 2:5].any()  # neither the gap nor the middle shape
    assert both[:, :, :2].flatten(1).any(1).all()
    assert both[:, :, 5:].flatten(1).any(1).all()


# Patches and the model


def test_the_model_is_a_convolution_a_token_and_an_encoder():
    model = vision.new_model(0).double()
    images = torch.rand(2, 3, 20, 28, dtype=torch.float64)
    kernel = model.patch_embedding.weight.unflatten(1, (3, 4, 4))
    patches = F.conv2d(images - 0.5, kernel, model.patch_embedding.bias, stride=4)
    patches = patches.flatten(2).mT
    x = torch.cat((model.class_token.expand(2, 1, 32), patches), 1) + model.position_embedding
    assert torch.equal(vision.unpatchify(vision.patchify(images, 4), 4, columns=7), images)
    want = model.head(model.encoder(x)[:, 0])
    assert want.shape == (2, 2)
    assert torch.allclose(model(images), want, rtol=0, atol=1e-12)
    weights = model.attention_weights(images)
    assert weights.shape == (2, 2, 4, 36, 36)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 2, 4, 36, dtype=torch.float64))
    with pytest.raises(ShapeError, match="images of one size"):
        model(images[..., 1:])


def test_a_hidden_patch_is_not_felt():
    model, images = vision.new_model(0), drawn(2).images
    changed = images.clone()
    changed[:, :, 8:12, 8:12] = 0  # patch 16
    seen = torch.ones(1, 1, 1, 36, dtype=torch.bool)
    assert not torch.allclose(model(images), model(changed))
    seen[..., 17] = False
    assert torch.allclose(model(images, seen), model(changed, seen), atol=1e-6)


def telling(seen):
    """Answer 1 where the mask, (B, 1, 1, S), says what it should, (B, S)."""
    model = nn.Identity()  # which has no parameters
    model.forward = lambda images, mask: F.one_hot((mask[:, 0, 0] == seen).all(-1).long(), 2)
    return model


def test_hidden_patches_are_hidden_behind_a_class_token_that_stays():
    pictures = drawn(40)
    hidden = torch.rand(40, 35, generator=torch.Generator().manual_seed(0)) < 0.3
    seen = torch.cat((torch.ones(40, 1, dtype=torch.bool), ~hidden), dim=1)
    right = pictures._replace(same=torch.ones(40, dtype=torch.long))
    assert vision.accuracy_without(telling(seen), right, hidden) == 1
    assert vision.accuracy_without(telling(seen), right, hidden.flip(1)) == 0
    model = vision.new_model(0)
    told = model(pictures.images).argmax(-1)
    assert vision.accuracy_without(model, pictures._replace(same=told), hidden & False) == 1


def test_votes_are_a_mean_of_single_patches():
    model, images = vision.new_model(0, vision.PatchVotes), drawn(2).images
    patches = vision.patchify(images - 0.5, 4)
    alone = [
        model.vote(model.patch_embedding(patches[:, n]) + model.position_embedding[n])
        for n in range(35)
    ]
    assert torch.allclose(model(images), torch.stack(alone).mean(0), atol=1e-6)


# What is learned and measured


class Looking(nn.Module):
    """Give the class token these weights on patches, in two layers of three heads."""

    def __init__(self, looks):
        super().__init__()
        self.looks = looks  # (B, N)

    def attention_weights(self, images):
        rows = F.pad(0.8 * self.looks, (1, 0), value=0.2)[:, None]  # (B, 1, S)
        return rows.expand(len(images), 36, 36)[None, :, None].expand(2, -1, 3, -1, -1)


def test_shares_are_those_of_known_weights():
    pictures = drawn()
    on = vision.shape_patches(pictures).float()
    evenly = torch.full_like(on, 1 / 35)
    assert torch.allclose(
        vision.share_on_shapes(Looking(evenly), pictures), on.mean().expand(2, 3), atol=1e-5
    )


def test_looks_by_colour_find_the_colour_that_is_looked_at():
    pictures = drawn()
    on = vision.shape_patches(pictures).unflatten(1, vision.GRID).float()
    cyan = (pictures.colours == 2).float()
    on[:, :, :2] *= cyan[:, 0, None, None]
    on[:, :, 5:] *= cyan[:, 2, None, None]
    looks = on.flatten(1) / on.flatten(1).sum(-1, keepdim=True).clamp(min=1)
    found = vision.weights_by_colour(Looking(looks), pictures)
    assert found.shape == (2, 3, 4)
    assert (found[..., 2] > 0.3).all()
    assert not found[..., [0, 1, 3]].any()


# Overlays


def test_a_spotlight_dims_by_the_weights():
    image = torch.rand(3, 20, 28)
    weights = torch.zeros(35)
    weights[[9, 16]] = torch.tensor([0.6, 0.3])
    first, lit, *_ = attention_overlay(image, {"head 0": weights}, (5, 7), query=9).axes
    shown, pixels = (ax.images[0].get_array().data for ax in (lit, first))
    assert shown[4:8, 8:12] == pytest.approx(pixels[4:8, 8:12])
    dim = overlays.DARK + (1 - overlays.DARK) / 2
    assert shown[8:12, 8:12] == pytest.approx(dim * pixels[8:12, 8:12])
    assert shown[0, 0] == pytest.approx(overlays.DARK * pixels[0, 0])
    assert (lit.patches[0].get_x(), lit.patches[0].get_y()) == (7.5, 3.5)


def test_pieces_are_drawn_in_order():
    image = torch.rand(3, 8, 12)
    grid, line = patches(image, 4).axes
    want = vision.patchify(image[None], 4)[0].unflatten(1, (3, 4, 4)).permute(0, 2, 3, 1).numpy()
    for ax in (grid, line):
        assert np.stack([piece.get_array().data for piece in ax.images]) == pytest.approx(want)
    assert [text.get_text() for text in grid.texts] == list("012345")
    assert len(image_grid({"one": image, "other": image}).axes) == 2
