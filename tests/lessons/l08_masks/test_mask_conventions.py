"""What lesson 8 shows: who reads a mask how, which output feels which token, and pictures
of masks.
"""

import re

import pytest
import torch
from matplotlib.colors import to_hex
from rewriting import refused
from torch import nn
from torch.nn import functional as F

from mha_course import attention, masks, plots
from mha_course.errors import ShapeError
from mha_course.experiments import leakage
from mha_course.lessons.l08_masks import mask_conventions

B, T, S, C, H = 2, 5, 7, 24, 4


def tokens(batch=B, length=S, seed=0):
    return torch.randn(batch, length, C, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def mha():
    torch.manual_seed(0)
    return attention.MultiHeadAttention(C, H)


# Which output feels which token


def test_token_dependence_is_the_mask_of_one_layer(mha):
    mask, x, before = masks.causal_mask(S), tokens(), torch.get_rng_state()
    assert torch.equal(leakage.token_dependence(lambda x: mha(x, mask=mask), x), mask)
    assert leakage.token_dependence(mha, x).all()
    leak_of_one_sentence = torch.stack((mask, torch.ones_like(mask)))[:, None]
    assert leakage.token_dependence(lambda x: mha(x, mask=leak_of_one_sentence), x).all()
    assert torch.equal(x, tokens())
    assert torch.equal(before, torch.get_rng_state())


def test_token_dependence_agrees_with_gradients():
    """Autograd is the authority: an output that feels a token has a gradient there."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(C, H, 32, batch_first=True, dropout=0.0)
    window = masks.causal_mask(S).triu(-2)
    hidden = ~window  # True = ignore, as this module means it

    def fn(x):
        return layer(layer(x, src_mask=hidden), src_mask=hidden)

    gradients = torch.autograd.functional.jacobian(lambda x: fn(x)[0, :, 0], tokens(1))[
        :, 0
    ]  # (S, S, C)
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
        (lambda x: F.dropout(x, 0.5), "token_dependence: fn must give the same twice. expected no "
                                      "randomness, got two outputs that differ, fix: fn.eval(), "
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


# Who reads a mask how

REAL = torch.tensor([True, False, True, True, False, False, True])
NAMES = [f"word {n}" for n in range(S)]


def readings():
    return {
        reading.reader: reading for reading in mask_conventions.mask_readings(REAL, NAMES).readings
    }


def test_the_table_says_the_same_as_text_and_as_html():
    found = mask_conventions.mask_readings(
        torch.tensor([True, True, False]), ["the", "<b>", "<pad>"]
    )
    text, html = repr(found), found._repr_html_()
    assert (html.count("✔"), html.count("✘")) == (text.count("✔"), text.count("✘")) == (7, 3)
    assert "<b>" in text
    assert not {"<b>", "<pad>"} & set(re.findall("<.*?>", html))


@pytest.mark.parametrize(
    "mask", [torch.ones(3).bool(), torch.zeros(3).bool(), torch.tensor([1, 0, 1])]
)
def test_a_mask_that_hides_all_or_nothing_tells_nothing(mask):
    with pytest.raises(ShapeError, match="mask_readings: mask must hide some keys, not all"):
        mask_conventions.mask_readings(mask, ["a", "b", "c"])


# Pictures of masks


def cells(ax):
    """Return what a picture shows, row by row: the colours, and a dot for a hatched cell."""
    found = {}
    for patch in ax.patches:
        s, t = patch.get_xy()
        found[t, s] = "." if patch.get_hatch() else to_hex(patch.get_facecolor())
    rows, columns = round(ax.get_ylim()[0]), round(ax.get_xlim()[1])
    return [[found[t, s] for s in range(columns)] for t in range(rows)]


def test_a_picture_shows_each_cell_once():
    mask = masks.causal_mask_for_cache(3, 5)
    (ax,) = plots.mask_grids(plots.MaskGrid("new", mask, ["a", "b", "c"], list("vwxyz"))).axes
    assert [[color != "." for color in row] for row in cells(ax)] == mask.tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in ax.get_xticklabels()] == list("vwxyz")
    assert ax.get_title(loc="left") == "new"


def test_leaks_have_a_colour_and_a_sign():
    one_too_far = plots.MaskGrid("one too far", torch.ones(4, 4).tril(1))
    (ax,) = plots.mask_grids(one_too_far, expected=masks.causal_mask(4)).axes
    assert sum(row.count(plots.ACCENT) for row in cells(ax)) == 3
    assert [text.get_text() for text in ax.texts].count("!") == 3


@pytest.mark.parametrize(
    ("shape", "names", "expected", "message"),
    [
        ((2, 4, 4), (), None, "the mask “m” must have 2 axes. expected (T, S), got (2, 4, 4)"),
        ((2, 4), ["a"], None, "the mask “m” has the wrong T. expected (T=1, S), got (T=2, S=4)"),
        ((2, 4), (), torch.ones(4, 4), "the wrong T. expected (T=4, S=4), got (T=2, S=4)"),
    ],
)
def test_what_does_not_fit_is_said(shape, names, expected, message):
    with pytest.raises(ShapeError) as caught:
        plots.mask_grids(plots.MaskGrid("m", torch.ones(shape), names), expected=expected)
    assert message in str(caught.value)
