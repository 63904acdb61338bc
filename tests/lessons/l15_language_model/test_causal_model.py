"""The model that guesses the next word: causal, with and without a cache, and how it writes."""

import pytest
import torch

from mha_course import masks
from mha_course.errors import ShapeError
from mha_course.lessons.l15_language_model.causal_model import CausalLanguageModel, generate

B, C, H, D_FF, L, V = 2, 24, 4, 10, 3, 17


def causal_model(device="cpu", seed=4):
    torch.manual_seed(seed)
    sizes = {"d_model": C, "num_heads": H, "d_ff": D_FF, "num_layers": L}
    return CausalLanguageModel(V, 11, **sizes).double().to(device)


def words(*shape, device="cpu", seed=5):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed)).to(device)


def test_a_causal_model_makes_no_mask(device):
    """A mask would keep the flash kernel away: the block is told that it is causal."""
    model, ids = causal_model(device), words(B, 7, device=device)
    given = []
    for block in model.blocks:
        block.attention.register_forward_pre_hook(
            lambda module, args, kwargs: given.append(kwargs), with_kwargs=True
        )
    logits = model(ids)
    assert [(kwargs["mask"], kwargs["is_causal"]) for kwargs in given] == [(None, True)] * L
    want = model.to_words(model.encoder(model.embed(ids), masks.causal_mask(7, device=device)))
    assert torch.allclose(logits, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cuts", [[7], [1] * 7, [3, 1, 3], [2, 5]], ids=str)
def test_logits_with_a_cache_are_those_without(cuts, device):
    model, ids = causal_model(device), words(B, 7, device=device)
    caches = model.new_caches()
    assert [cache.length for cache in caches] == [0] * L
    pieces = [model(piece, caches) for piece in ids.split(cuts, dim=1)]
    assert torch.allclose(torch.cat(pieces, dim=1), model(ids), rtol=0, atol=1e-12)
    assert [cache.length for cache in caches] == [7] * L


def test_generating_with_a_cache_writes_the_same(device):
    for seed in range(5):
        model, ids = causal_model(device, seed), words(B, 3, device=device, seed=seed)
        cached, plain = (generate(model, ids, 8, cached=way) for way in (True, False))
        assert torch.equal(cached, plain)
        assert torch.equal(cached[:, :3], ids)
        assert torch.equal(cached[:, 3:], model(cached[:, :-1])[:, 2:].argmax(-1))
        assert cached.shape == (B, 11)


def test_generating_draws_by_the_model_and_the_temperature():
    model, ids = causal_model(), words(1, 3).expand(4000, 3)

    def draw(temperature):
        dice = torch.Generator().manual_seed(0)
        return generate(model, ids, 1, temperature=temperature, generator=dice)[:, -1]

    drawn = draw(2.0)
    assert torch.equal(drawn, draw(2.0))
    want = (model(ids[:1])[0, -1] / 2).softmax(-1)
    assert (torch.bincount(drawn, minlength=V) / 4000 - want).abs().max() < 0.03
    assert (torch.bincount(draw(0.5), minlength=V) / 4000 - want).abs().max() > 0.03


@pytest.mark.parametrize("cached", [True, False])
def test_a_text_that_grows_too_long_is_refused(cached):
    with pytest.raises(ShapeError, match="CausalLanguageModel: the sentence has") as caught:
        generate(causal_model(), words(B, 9), 4, cached=cached)
    assert "expected S <= 11, got S=12" in str(caught.value)
