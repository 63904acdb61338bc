"""Images as sequences: patches, a small vision transformer, and what its class token attends to.

Axes: B images, height and width in pixels, patch the side of a patch, N patches in rows and
columns, L layers, H heads, S = N + 1 tokens, C = d_model width; also answers and colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.errors import require, require_device
from mha_course.lessons.l14_vision import shapes
from mha_course.models import Encoder, EncoderBlock, seeded, train

PATCH = 4
STEPS, RATE = 500, 5e-3  # of training
GRID = shapes.HEIGHT // PATCH, shapes.WIDTH // PATCH
# subtracted from every pixel to centre numbers around 0, as a Linear's initialisation assumes
_GREY = 0.5


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images (B, 3, height, width) into patches, row by row, each (channel, row, column)."""
    sizes = (-1, patch_size)
    grid = images.unflatten(3, sizes).unflatten(2, sizes)  # (B, 3, rows, patch, columns, patch)
    patches = grid.permute(0, 2, 4, 1, 3, 5)  # (B, rows, columns, 3, patch, patch)
    return patches.flatten(3).flatten(1, 2)  # (B, N, 3*patch*patch)


def unpatchify(patches: Tensor, patch_size: int, columns: int) -> Tensor:
    """Undo patchify: patches (B, N, 3·patch·patch) to images (B, 3, height, width)."""
    split = patches.unflatten(2, (3, patch_size, patch_size)).unflatten(1, (-1, columns))
    grid = split.permute(0, 3, 1, 4, 2, 5)  # (B, 3, rows, patch, columns, patch)
    return grid.flatten(4).flatten(2, 3)  # (B, 3, rows*patch, columns*patch)


def add_class_token(patches: Tensor, class_token: Tensor) -> Tensor:
    """Put the same token (C,) before each image's patches, (B, N, C) -> (B, N + 1, C)."""
    first = class_token.expand(patches.size(0), 1, -1)  # (B, 1, C)
    return torch.cat((first, patches), dim=1)  # (B, N+1, C)


class VisionTransformer(nn.Module):
    """Read an image as a sequence of patches after a class token, and answer from the class token.

    Raises: ShapeError for images not of the size of those in ``shapes``.
    Reference: Dosovitskiy et al. 2021, An Image is Worth 16x16 Words, section 3.1.
    """

    def __init__(self) -> None:
        super().__init__()
        d_model = 32
        self.patch_embedding = nn.Linear(3 * PATCH**2, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(d_model))
        self.position_embedding = nn.Parameter(0.02 * torch.randn(GRID[0] * GRID[1] + 1, d_model))
        self.encoder = Encoder(d_model, num_heads=4, d_ff=64, num_layers=2)
        self.head = nn.Linear(d_model, len(shapes.ANSWERS))

    @property
    def blocks(self) -> list[EncoderBlock]:
        """The encoder's blocks, first to last."""
        return self.encoder.blocks

    def embed(self, images: Tensor) -> Tensor:
        """Map images (B, 3, height, width) to tokens with positions added, (B, S, C)."""
        rule = "positions are learned for images of one size"
        fits = images.dim() == 4 and images.shape[1:] == (3, shapes.HEIGHT, shapes.WIDTH)
        expected = f"(B, 3, {shapes.HEIGHT}, {shapes.WIDTH})"
        got = str(tuple(images.shape))
        require(fits, "VisionTransformer", rule, expected=expected, got=got)
        weight = self.patch_embedding.weight
        require_device("VisionTransformer", "images", images, weight.device, "the model")
        patches = self.patch_embedding(patchify(images - _GREY, PATCH))  # (B, N, C)
        return add_class_token(patches, self.class_token) + self.position_embedding  # (B, N+1, C)

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map images (B, 3, height, width) to logits (B, answers), with a mask as in the
        encoder."""
        x = self.encoder(self.embed(images), mask)  # (B, N+1, C)
        return self.head(x[:, 0])

    def attention_weights(self, images: Tensor) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S)."""
        return self.encoder.attention_weights(self.embed(images))


class PatchVotes(nn.Module):
    """Let every patch vote alone, from its pixels and position; the mean vote counts.

    There is no attention: no patch sees another.
    """

    def __init__(self) -> None:
        super().__init__()
        d_model, d_ff = 48, 96
        self.patch_embedding = nn.Linear(3 * PATCH**2, d_model)
        self.position_embedding = nn.Parameter(0.02 * torch.randn(GRID[0] * GRID[1], d_model))
        inner = nn.Linear(d_model, d_ff)
        outer = nn.Linear(d_ff, len(shapes.ANSWERS))
        self.vote = nn.Sequential(nn.GELU(), inner, nn.GELU(), outer)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (B, 3, height, width) to logits (B, answers)."""
        patches = self.patch_embedding(patchify(images - _GREY, PATCH))  # (B, N, 48)
        votes = self.vote(patches + self.position_embedding)  # (B, N, answers)
        return votes.mean(1)


def new_model(seed: int, kind: type[nn.Module] = VisionTransformer) -> nn.Module:
    """Return an untrained model, the same for the same seed."""
    with seeded(seed):
        return kind()


def training_batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches: images (64, 3, height, width) and right answers (64,)."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        pictures = shapes.draw(64, generator)
        yield pictures.images, pictures.same


def answer_loss(model: nn.Module, images: Tensor, answers: Tensor) -> Tensor:
    """Return the mean cross-entropy of the answers."""
    return F.cross_entropy(model(images), answers)


@torch.no_grad()
def accuracy(model: nn.Module, pictures: shapes.Pictures, mask: Tensor | None = None) -> float:
    """Return the fraction of right answers, 0 to 1; the mask is passed to the model."""
    masks = () if mask is None else (_beside(model, mask),)
    logits = model(_beside(model, pictures.images), *masks)  # (B, answers)
    return float((logits.argmax(-1).cpu() == pictures.same.cpu()).float().mean())


def accuracy_without(model: VisionTransformer, pictures: shapes.Pictures, hidden: Tensor) -> float:
    """Return the fraction of right answers if hidden patches (B, N) are masked as keys in all
    layers."""
    visible = F.pad(~hidden, (1, 0), value=True)  # (B, S), the class token stays
    return accuracy(model, pictures, visible[:, None, None])


def shape_patches(pictures: shapes.Pictures) -> Tensor:
    """Return which patches show part of the left or the right shape, (B, N)."""
    return F.avg_pool2d(pictures.shapes.float(), PATCH).flatten(1) > 0  # (B, N)


@torch.no_grad()
def class_token_weights(model: VisionTransformer, images: Tensor) -> Tensor:
    """Return the class token's weights on the patches, (L, B, H, N)."""
    return model.attention_weights(_beside(model, images))[:, :, :, 0, 1:]  # (L, B, H, N)


def _beside(model: nn.Module, tensor: Tensor) -> Tensor:
    devices = (parameter.device for parameter in model.parameters())
    return tensor.to(next(devices, tensor.device))


@torch.no_grad()
def share_on_shapes(model: VisionTransformer, pictures: shapes.Pictures) -> Tensor:
    """Return the fraction of the class token's weight on patches of the two shapes, (L, H)."""
    weights = class_token_weights(model, pictures.images)  # (L, B, H, N)
    on_shapes = (weights * _beside(model, shape_patches(pictures))[:, None]).sum(-1)  # (L, B, H)
    return (on_shapes / weights.sum(-1)).mean(1)  # (L, H)


def weights_by_colour(model: VisionTransformer, pictures: shapes.Pictures) -> Tensor:
    """Return the class token's mean weight on one shape of each colour, (L, H, colours)."""
    weights = class_token_weights(model, pictures.images)  # (L, B, H, N)
    weights = weights * _beside(model, shape_patches(pictures))[:, None]  # (L, B, H, N)
    by_column = weights.unflatten(-1, GRID).sum(-2)  # (L, B, H, columns)
    width = shapes.PART // PATCH
    left = by_column[..., :width].sum(-1)  # (L, B, H)
    right = by_column[..., -width:].sum(-1)  # (L, B, H)
    sides = torch.stack((left, right), dim=-1)  # (L, B, H, 2)
    outer = pictures.colours[:, ::2]  # (B, 2), the left and the right shape
    chosen = F.one_hot(outer, len(shapes.COLOURS)).to(sides)  # (B, 2, colours)
    return torch.einsum("lbhs,bsc->lhc", sides, chosen) / chosen.sum((0, 1))  # (L, H, colours)


def vision_start(seed: int) -> dict[str, Any]:
    """Train the vision transformer from a seed.

    Returns: the fraction of right answers on new pictures, and for each head of layer 0 the colour
        of shape that gets most of the class token's weight, and how much.
    """
    with seeded(seed):
        model = VisionTransformer()
    pictures = shapes.draw(1000, torch.Generator().manual_seed(99))
    train(model, training_batches(1), answer_loss, steps=STEPS, lr=RATE, progress=False)
    weights, colours = weights_by_colour(model, pictures)[0].max(-1)
    return {
        "accuracy": accuracy(model, pictures),
        "colours": [list(shapes.COLOURS)[number] for number in colours.tolist()],
        "weights": weights.tolist(),
    }
