"""Which output depends on which token, against gradients."""

import pytest
import torch
from rewriting import refused
from torch import nn
from torch.nn import functional as F

from mha_course import attention, masks
from mha_course.experiments import leakage

B, T, S, C, H = 2, 5, 7, 24, 4


def tokens(batch=B, length=S, seed=0):
    return torch.randn(batch, length, C, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def mha():
    torch.manual_seed(0)
    return attention.MultiHeadAttention(C, H)


def test_token_dependence_is_the_mask_of_one_layer(mha):
    mask, x, before = masks.causal_mask(S), tokens(), torch.get_rng_state()
    assert torch.equal(leakage.token_dependence(lambda x: mha(x, mask=mask), x), mask)
    assert leakage.token_dependence(mha, x).all()
    leak_of_one_sentence = torch.stack((mask, torch.ones_like(mask)))[:, None]
    assert leakage.token_dependence(lambda x: mha(x, mask=leak_of_one_sentence), x).all()
    assert torch.equal(x, tokens())
    assert torch.equal(before, torch.get_rng_state())


def test_token_dependence_agrees_with_gradients():
    """Autograd is the authority: an output that depends on a token has a gradient there."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(C, H, 32, batch_first=True, dropout=0.0)
    window = masks.causal_mask(S).triu(-2)
    hidden = ~window  # True = ignore, as this module means it

    def fn(x):
        return layer(layer(x, src_mask=hidden), src_mask=hidden)

    # (S, S, C)
    gradients = torch.autograd.functional.jacobian(lambda x: fn(x)[0, :, 0], tokens(1))[:, 0]
    found = leakage.token_dependence(fn, tokens(1))
    assert torch.equal(found, gradients.abs().sum(-1) > 0)
    assert torch.equal(found, masks.causal_mask(S).triu(-4))  # two windows reach twice as far


def test_token_dependence_is_not_square_where_queries_are_others():
    memory, query = tokens(1), tokens(1, T, seed=1)
    mask = masks.causal_mask_for_cache(T, S)
    found = leakage.token_dependence(
        lambda x: F.scaled_dot_product_attention(query, x, x, mask), memory
    )
    assert torch.equal(found, mask)


def test_token_dependence_sees_what_the_weights_hide(mha):
    def late(x):
        steps = mha.steps(x)
        return attention.merge_heads(steps.weights.tril() @ steps.v)

    assert leakage.token_dependence(late, tokens()).all()


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: F.dropout(x, 0.5), "token_dependence: fn must return the same twice. expected "
                                      "no randomness, got two outputs that differ, fix: fn.eval(), "
                                      "if it is a module with dropout"),
        (lambda x: x / 0, "token_dependence: the output of fn must be finite. expected finite "
                          "numbers, got NaN or infinity in 336 places"),
        (lambda x: x[0], "token_dependence: the output of fn must have 3 axes. expected (B, T, "
                         "C), got (7, 24), fix: the output of fn.unsqueeze(0), a batch of one"),
    ],
)  # fmt: skip
def test_token_dependence_says_what_it_cannot_use(fn, message):
    refused(lambda: leakage.token_dependence(fn, tokens()), message)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_token_dependence_takes_any_float_on_any_device(device, dtype):
    found = leakage.token_dependence(lambda x: x.cumsum(1), tokens().to(device, dtype))
    assert torch.equal(found, masks.causal_mask(S))
