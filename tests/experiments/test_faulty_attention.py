"""The attention of the bug hunt: which line is marked, what learners see of it, what is copied."""

import inspect
import math

import pytest
import torch

from mha_course.attention import MultiHeadAttention
from mha_course.experiments.faulty_attention import (
    MADE,
    PAIRS,
    SINGLE,
    WHOLE,
    WRONG,
    CausalAttention,
    faulty,
    methods,
    source,
    whole,
)
from mha_course.masks import causal_mask
from mha_course.mistakes import ROWS
from mha_course.variants import to_torch

MARK = "  # the mistake: "


@pytest.mark.parametrize("names", [*((name,) for name in MADE), *PAIRS], ids="+".join)
def test_a_black_box_is_named_without_renaming_its_classes(names):
    box = faulty(*names)
    for name in names:
        for method in methods(name):
            code = vars(box)[method].__code__
            assert vars(box)[method].__qualname__ == code.co_qualname == f"Attention.{method}"
            own = vars(MADE[name])[method]
            assert own.__qualname__ == own.__code__.co_qualname
            assert own.__qualname__ == f"{MADE[name].__name__}.{method}"
            assert own.__code__.co_code == code.co_code


@pytest.mark.parametrize("name", SINGLE)
def test_one_line_is_marked_that_right_attention_lacks_and_learners_do_not_see_the_mark(name):
    (line,) = [line for line in inspect.getsource(SINGLE[name]).splitlines() if MARK in line]
    right = inspect.getsource(getattr(CausalAttention, *methods(name)))
    assert line.split(MARK)[0] not in [other.split("  #")[0] for other in right.splitlines()]
    assert "mistake" not in source(faulty(name))


# Whole modules

B, S, C, H = 2, 5, 24, 4
MASKS = {"no mask": None, "causal": causal_mask(S)}


@pytest.fixture(params=MASKS.values(), ids=MASKS)
def mask(request):
    return request.param


def beside_torch(made, mask, *, heads=H):
    """Return what a class makes of some tokens, and PyTorch's module with its parameters."""
    torch.manual_seed(0)
    reference, x = MultiHeadAttention(C, heads).double(), torch.randn(B, S, C, dtype=torch.float64)
    module = made(C, heads).double()
    module.load_state_dict(reference.state_dict())
    hidden = None if mask is None else ~mask
    return module(x, mask), to_torch(reference)(x, x, x, attn_mask=hidden)[0], module, x


def by_hand(module, x, mask, mistake):
    """Do what a mistake says, by other means than the module: one head of one sentence a time."""
    allowed = torch.ones(S, S, dtype=torch.bool) if mask is None else mask
    q, k, v = (linear(x) for linear in (module.q_proj, module.k_proj, module.v_proj))
    cut = (
        (lambda t: t.flatten(1).reshape(B, H, S, -1))
        if mistake == "view-without-transpose"
        else (lambda t: torch.stack(t.chunk(H, -1), 1))
    )
    q, k, v = cut(q), cut(k), cut(v)
    width = C if mistake == "scale-d-model" else C // H
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(width)
    exponentials = scores.exp() * allowed
    shared = exponentials.sum(1 if mistake == "softmax-over-heads" else -1, keepdim=True)
    if mistake == "mask-after-softmax":
        shared = scores.exp().sum(-1, keepdim=True)
    context = (exponentials / shared) @ v
    if mistake == "merge-without-transpose":
        return module.out_proj(torch.stack([one.flatten().view(S, C) for one in context]))
    return module.out_proj(torch.cat(context.unbind(1), -1))


def test_the_right_module_is_that_of_pytorch(mask):
    found, wanted, _, _ = beside_torch(whole()[1], mask)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mistake", WRONG)
def test_a_broken_module_is_broken_as_its_mistake_says(mistake, mask):
    found, wanted, module, x = beside_torch(whole(*WRONG[mistake])[1], mask)
    assert torch.allclose(
        found, by_hand(module, x, mask, mistake), rtol=0, atol=1e-12, equal_nan=True
    )
    agrees = torch.allclose(found, wanted, rtol=0, atol=1e-3)
    assert agrees == (mistake == "mask-after-softmax" and mask is None)


@pytest.mark.parametrize("mistake", WRONG)
def test_a_broken_module_has_one_other_line(mistake):
    code, _ = whole(*WRONG[mistake])
    pairs = zip(WHOLE.splitlines(), code.splitlines(), strict=True)
    assert sum(right != wrong for right, wrong in pairs) == 1
    assert ROWS[mistake].id == mistake
