"""The attention of the bug hunt: what an edit replaces, and that plain modules are broken so."""

import ast
import inspect
import math
import textwrap

import pytest
import torch

from mha_course.attention import MultiHeadAttention
from mha_course.experiments.faulty_attention import (
    MADE,
    PAIRS,
    PLAIN,
    CausalAttention,
    PlainAttention,
    compiled,
    diff,
    edits_of,
    methods,
)
from mha_course.masks import causal_mask
from mha_course.variants import to_torch

EDITS = [
    *((CausalAttention, edit) for edits in MADE.values() for edit in edits),
    *((PlainAttention, edit) for edit in PLAIN.values()),
]


@pytest.mark.parametrize(("reference", "edit"), EDITS, ids=str)
def test_what_an_edit_replaces_occurs_once_in_its_method_and_the_module_compiles(reference, edit):
    source, edited = edit.of(reference)
    assert source.count(edit.right.replace("\n", "\n        ")) == 1
    assert ast.dump(ast.parse(textwrap.dedent(source))) != ast.dump(
        ast.parse(textwrap.dedent(edited))
    )
    broken = compiled(reference, edit)
    code = getattr(broken, edit.method).__code__
    assert (broken.__name__, code.co_qualname) == ("Attention", f"Attention.{edit.method}")
    assert inspect.getsource(code) == edited


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_two_mistakes_replace_two_methods(names):
    assert len({*methods(*names)}) == 2


def test_a_diff_has_the_right_line_and_the_wrong_one():
    assert diff(CausalAttention, *edits_of("scale-no-root", "dropout-at-eval")) == (
        "  def score(self, q: Tensor, k: Tensor) -> Tensor:\n"
        "-     return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, S)\n"
        "+     return q @ k.transpose(-2, -1) / q.size(-1)  # (B, H, T, S)\n"
        "  def attend(self, scores: Tensor, visible: Tensor) -> Tensor:\n"
        "      weights = masked_softmax(scores, visible)  # (B, H, T, S)\n"
        "-     return F.dropout(weights, 0.1, self.training)\n"
        "+     return F.dropout(weights, 0.1)"
    )


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
    found, wanted, _, _ = beside_torch(compiled(PlainAttention), mask)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mistake", PLAIN)
def test_a_broken_module_is_broken_as_its_mistake_says(mistake, mask):
    broken = compiled(PlainAttention, PLAIN[mistake])
    found, wanted, module, x = beside_torch(broken, mask)
    assert torch.allclose(
        found, by_hand(module, x, mask, mistake), rtol=0, atol=1e-12, equal_nan=True
    )
    agrees = torch.allclose(found, wanted, rtol=0, atol=1e-3)
    assert agrees == (mistake == "mask-after-softmax" and mask is None)
