"""What a trace reports about single operations and whole modules."""

import copy
import functools
import linecache
import math
import operator
import sys
import traceback
import types
import warnings
import weakref

import pytest
import torch
from rewriting import refused
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention

from mha_course import models, variants
from mha_course.attention import MultiHeadAttention, split_heads
from mha_course.tracing import Comparison, recorder, trace
from mha_course.tracing.notes import HEADS_UNKNOWN
from mha_course.tracing.render import STAGES

B, S, C, H, D = 2, 5, 24, 4, 6
SIZES = {"H": H, "C": C}
FUSED = nn.Linear(C, 3 * C, dtype=torch.float64)


@pytest.fixture
def x(draw):
    return draw(B, S, C)


@pytest.fixture
def heads(draw):
    return draw(B, H, S, D)


def last(fn, *args, axes, sizes=None):
    return trace(fn, *args, axes=axes, sizes=SIZES | (sizes or {})).steps[-1]


OF_X = {  # from (B, S, C)
    "and_back": (lambda x: x.reshape(2, 5, 2, 12).reshape(2, 5, 24), "B S C"),
    "permute": (lambda x: x.permute(2, 0, 1), "C B S"),
    "chunk": (lambda x: x.chunk(4, dim=-1)[2], "B S D"),
    "unbind": (lambda x: x.unbind(1)[0], "B C"),
    "iteration": (lambda x: next(iter(x)), "S C"),
    "select": (lambda x: x.select(1, 3), "B C"),
    "index_with_none": (lambda x: x[:, None], "B 1 S C"),
    "index_with_tensor": (lambda x: x[:, torch.tensor([0, 2])], "B ? C"),
    "index_with_mask": (lambda x: x[x > 0], "?"),
    "index_with_mask_of_tokens": (lambda x: x[x[..., 0] > 0], "? C"),
    "every_second_token": (lambda x: x[:, ::2], "B ? C"),
    "stack": (lambda x: torch.stack([x, x, x], dim=2), "B S 3 C"),
    "cat": (lambda x: torch.cat([x, x], dim=-1), "B S 2*C"),
    "cat_along_the_first": (lambda x: torch.cat([x.transpose(0, 1)] * 2), "S B C"),
    "cat_of_tokens": (lambda x: torch.cat([x[:, :2], x[:, 2:]], dim=1), "B S C"),
    "cat_of_unequal_parts": (lambda x: torch.cat([x[..., :1], x[..., 1:]], dim=-1), "B S C"),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 4, -1, -1), "B ? S C"),
    "pad": (lambda x: F.pad(x, (0, 0, 0, 2)), "B ? C"),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, dim=1), "B ? C"),
    "repeat_interleave_of_all": (lambda x: x.repeat_interleave(3), "?"),
    "squeeze": (lambda x: x[:, :1].squeeze(1), "B C"),
    "arithmetic": (lambda x: (1 - x) * x[:, :1] / 2 + x.mean(-1, keepdim=True), "B S C"),
    "softmax": (lambda x: x.softmax(-1), "B S C"),
    "sum": (lambda x: x.sum((0, 2)), "S"),
    "keepdim_by_position": (lambda x: x.mean(2, True), "B S 1"),
    "max": (lambda x: x.max(dim=1).values, "B C"),
    "in_place": (lambda x: x.clone().mul_(2).clamp_(0), "B S C"),
    "setitem": (lambda x: x.clone().__setitem__((0, 0), 1.0), "B S C"),
    "einsum_of_a_list": (lambda x: torch.einsum("bsc,btc->bts", [x, x]), "B T S"),
    "einsum_without_arrow": (
        lambda x: torch.einsum("...c,dc", x, torch.ones(7, 24, dtype=x.dtype)),
        "B S ?",
    ),
    "einsum_of_one": (lambda x: torch.einsum("bsc->bc", x), "B C"),
    "einsum_with_weights": (
        lambda x: torch.einsum("bsc,chd->bshd", x, nn.Parameter(x.new_ones(24, 4, 6))),
        "B S H D",
    ),
    "vector_at_right": (lambda x: x @ x[0, 0], "B S"),
    "bmm_by_keywords": (lambda x: torch.bmm(input=x, mat2=x.transpose(1, 2)), "B T S"),
    "differences": (lambda x: x.diff(dim=1, prepend=x[:, :1]), "B S C"),
    "outer_of_one": (lambda x: torch.outer(x[0, :, 0], x[0, :, 0]), "T S"),
    "index_select": (lambda x: x.index_select(-2, torch.arange(5)), "B ? C"),
    "convolution": (lambda x: F.conv1d(x.mT, x.new_ones(72, 24, 1)), "B ? S"),
    "real_again": (
        lambda x: torch.view_as_real(torch.view_as_complex(x.view(2, 5, 4, 3, 2))).flatten(3),
        "B S H D",
    ),
    "halves": (lambda x: torch.cat(x.view(2, 5, 4, 6).chunk(2, -1)[::-1], -1), "B S H D"),
    "every_second": (lambda x: x.view(2, 5, 4, 6)[..., ::2], "B S H D/2"),
    "an_unknown_operation": (torch.fft.rfft, "? ? ?"),
    "a_view_of_another_dtype": (lambda x: x.view(torch.int64), "B S C"),
    "known_after_meeting": (lambda x: torch.ones(5, 1, dtype=x.dtype) * x, "B S C"),
    # a Linear's output may have any order, three first where sizes leave a choice
    "fused_3HD": (lambda x: FUSED(x).view(2, 5, 3, 4, 6), "B S 3 H D"),
    "fused_chunk": (lambda x: FUSED(x).chunk(3, -1)[1], "B S C"),
}


OF_SEVERAL = {  # from (B, N, C), and from (B, L, C), which is twice as long
    "tokens_after_tokens": (lambda x, y, z: torch.cat([x, y[:, :3]], 1), "B T C", "B S C"),
    "tokens_joined_as_long_as_others": (lambda x, y, z: torch.cat([x, y], 1), "B M C", "B S C"),
    "unknown_after_as_many_tokens": (
        lambda x, y, z: y * torch.cat([x, y], 1).mean(),
        "B ? C",
        "B ? C",
    ),
    "a_stack_is_named_by_its_first": (lambda x, y, z: torch.stack([x, y], 2), "B M C", "B N 2 C"),
    "index_select": (lambda x, y, z: x.index_select(1, y[0, :, 0].long()), "B M C", "B M C"),
    # an empty pattern leaves a tensor to the tracer
    "no_names_are_given": (lambda x, y, z: x @ y[:, :3].mT, "", "B N ?"),
}


@pytest.mark.parametrize(("fn", "axes", "expected"), OF_SEVERAL.values(), ids=OF_SEVERAL)
def test_names_where_tensors_meet(fn, axes, expected, x):
    step = last(fn, x, 0 * x, torch.cat([x, x], 1), axes=["B N C", axes, "B L C"])
    assert step.axes == tuple(expected.split())


OF_SCORES = {  # scores and a row of numbers for each query
    "masked": (lambda scores, row: scores + row, "masked_scores"),
    "scaled_after_masking": (lambda scores, row: (scores + row) / 2, "masked_scores"),
    "larger": (lambda scores, row: scores.max(row), "scores"),
    "divided_by_their_sum": (lambda scores, row: scores / scores.sum(-1, keepdim=True), "weights"),
    "divided_by_a_sum_of_all": (
        lambda scores, row: scores / scores.sum((-1, -2), keepdim=True),
        "scaled_scores",
    ),
    "times_their_sum": (lambda scores, row: scores * scores.sum(-1, keepdim=True), "scaled_scores"),
}


@pytest.mark.parametrize(("fn", "stage"), OF_SCORES.values(), ids=OF_SCORES)
def test_what_arithmetic_makes_of_scores(fn, stage, heads):
    step = last(lambda q, row: fn(q @ q.mT, row), heads, heads[0, 0, :, 0], axes=["B H S D", "S"])
    assert (step.stage, step.warning, step.axes) == (stage, None, ("B", "H", "T", "S"))


@pytest.mark.parametrize(("axes", "stage"), [("B H T S", "weights"), ("B H N D", "")])
def test_a_softmax_over_keys_makes_weights(axes, stage, heads):
    assert last(lambda x: x.softmax(-1), heads, axes=axes).stage == stage


@pytest.mark.parametrize(("fn", "expected"), OF_X.values(), ids=OF_X)
def test_names_follow_the_operations(fn, expected, x):
    step = last(fn, x, axes="B S C")
    assert (step.axes, step.warning) == (tuple(expected.split()), None)


def channels(x):
    q, k = (nn.Conv2d(x.size(1), 4, 1, dtype=x.dtype)(x).flatten(2) for _ in range(2))
    return q.mT * (q.mT @ k).sum(-1, keepdim=True)


def laid_behind_itself(k):
    return torch.cat([torch.zeros_like(k), k], 1)


def cache_of_nine(k):
    cache = k.new_zeros(2, H, 9, D)
    cache[:, :, :S] = k
    return cache


# what is one long goes where it is needed: a shape, its axes, the shape and the axes of a view of
# it
OF_ONES = [
    ((1, 5, 24), "B S C", (5, 24), "B*S C"),
    ((2, 1, 24), "B S C", (2, 4, 6), "B*S H D"),
    ((2, 5, 1, 6), "B S H D", (2, 5, 6), "B S C"),
    ((2, 5, 4, 1), "B S H D", (2, 5, 4), "B S C"),
    ((2, 1, 5, 6), "B H S D", (2, 5, 6), "B*H S D"),
    ((1, 4, 5, 6), "B H S D", (4, 5, 6), "B*H S D"),
    ((1, 1, 5, 6), "B H S D", (1, 5, 6), "B*H S D"),
    ((2, 1, 6), "B H D", (2, 6), "B*H D"),
    ((1, 5, 24), "B S C", (1, 5, 4, 6), "B S H D"),
]
# a function of a tensor of this shape, its axes, further sizes, the axes of the last step
OF_SHAPES = [
    *[(operator.methodcaller("view", new), old, axes, {"H": H} if axes == "B S C" else {}, expected)
      for old, axes, new, expected in OF_ONES],
    (lambda x: x[:, ::2], (2, 1, 24), "B S C", {}, "B S C"),
    # a width of unknown heads, heads that follow from C and D, and calls that leave nothing to name
    (lambda x: FUSED(x).view(2, 5, 3, 24), (2, 5, 24), "B S C", {}, "B S 3 C"),
    (lambda x: x.view(2, 5, 4, 6), (2, 5, 24), "B S C", {"D": 6}, "B S H D"),
    (lambda x: x[:, torch.tensor(1)], (2, 5, 24), "B S C", {}, "B C"),
    (lambda x: x.take_along_dim(torch.tensor([0, 1])), (2, 5, 24), "B S C", {}, "?"),
    (lambda x: x[:, :0].reshape(2, 0, 4, 6), (2, 5, 24), "B S C", {"H": 4}, "? ? ? ?"),
    (lambda x: x.flatten(1, 2), (2, 1, 5, 24), "B 1 S C", {}, "B S C"),
    (lambda q: q.reshape(-1, q.shape[2], q.shape[3]), (1, 4, 1, 6), "B H S D", {}, "B*H S D"),
    (lambda ids: nn.Embedding(10, C)(ids.long() * 0), (2, 5), "B S", {"C": C}, "B S C"),
    # as many heads as numbers in each; halves of four, which a view alone does not tell
    (lambda x: torch.einsum("bsc,chd->bhsd", x, nn.Parameter(x.new_ones(16, 4, 4))), (2, 5, 16),
        "B S C", {"H": 4},
     "B H S D"),
    (lambda q: q.view(2, 4, 5, 2, 2), (2, 4, 5, 4), "B H S D", {"C": 16}, "B H S ? ?"),
    (lambda q: torch.view_as_complex(q.view(2, 4, 5, 2, 2)), (2, 4, 5, 4), "B H S D", {"C": 16},
        "B H S D/2"),
    # what is unknown is no token, a height no head, and channels none where they are as wide
    (lambda x: x * 1, (3, 4, 5), "B ? ?", {}, "B ? ?"),
    (lambda x: torch.randn(6, 7) * 1, (3, 4, 5), "B S ?", {}, "? ?"),
    (nn.Conv2d(3, 5, 1).double(), (2, 3, 8, 8), "N C H W", {}, "B ? Y X"),
    *[(channels, (2, width, 3, 5), "B C Y X", {"H": 4}, "B Y*X ?") for width in (8, 16)],
    (lambda x: x.flatten(1), (2, 24, 3, 5), "B C H W", {"H": 4}, "B C*Y*X"),
    (lambda x: x.flatten(2), (2, 7, 3, 5), "B C H W", {"H": 4}, "B Ch Y*X"),
    (lambda q: torch.view_as_real(torch.view_as_complex(q.view(2, 4, 5, 1, 2))).flatten(3),
        (2, 4, 5, 2), "B H S D",
     {"C": 8}, "B H S D"),
    (lambda q: (mask := torch.tril(torch.ones(q.shape[2], q.shape[2]))).view(1, 1,
        *mask.shape) * (q @ q.mT),
     (2, 4, 1, 6), "B H T D", {}, "B H T S"),
    (lambda q, D_rope=3: q[..., D_rope:] * 1, (2, 4, 5, 6), "B H S D", {"D_rope": 3}, "B H S D/2"),
    (lambda x: x.view(-1, 6, 15, 24).view(-1, 2, 3, 3, 5, 24), (2, 90, 24), "B Y*X C",
        {"Y": 6, "X": 15},
     "B Y/3 3 X/5 5 C"),
    (lambda x: x.flatten(2).softmax(2) @ x.flatten(2).mT, (2, 24, 9, 13), "B C Y X", {}, "B C C"),
    (lambda x: torch.cat([x.new_zeros(2, 1, 24), x], 1)[:, 1:] + x, (2, 5, 24), "B S C", {},
        "B S C"),
    (lambda x: torch.cat([x.new_zeros(2, 1, 24), x], 1) + torch.ones(9, 24)[: x.shape[1] + 1],
        (2, 5, 24), "B S C", {},
     "B S+1 C"),
    (lambda x: torch.cat([x[:, 1:], x.new_zeros(2, 1, 24)], 1) + x, (2, 5, 24), "B S C", {},
        "B S C"),
    (lambda x: nn.Linear(C, 2 * D, dtype=x.dtype)(x).unflatten(-1, (2, D)), (2, 5, 24), "B S C",
        {"H": H}, "B S ? ?"),
    (lambda x: nn.Linear(C, 4 * C, dtype=x.dtype)(x).unflatten(-1, (3, -1)), (2, 5, 24), "B S C",
        {"H": 3}, "B S H ?"),
    (lambda x: nn.Linear(C, D, dtype=x.dtype)(x).chunk(2, -1), (2, 5, 24), "B S C", {"H": 4},
        "B S ?"),
    (lambda q: q @ nn.Parameter(torch.ones(24, 6).double()).mT, (2, 4, 5, 6), "B H S D", {"C": 24},
        "B H S ?"),
    (lambda q: (q @ q.mT)[:, :, -1].softmax(-1), (2, 4, 5, 6), "B H S D", {}, "B H S"),
    (lambda q: torch.cat([q[..., :0], q * 2], -1), (2, 4, 5, 6), "B H S D", {}, "B H S D"),
    (lambda q: torch.cat([torch.zeros(2, H, 9, D), q], 2), (2, 4, 5, 6), "B H T D", {}, "B H S D"),
    (lambda q: torch.zeros(2, H, 9, D).double().index_copy(2, torch.arange(S), q), (2, 4, 5, 6),
        "B H T D", {},
     "B H ? D"),
    *[(lambda x, n=n: laid_behind_itself(FUSED(x)[..., :24].unflatten(-1, (n, -1)).transpose(1,
        2).flatten(0, 1)),
       (2, 5, 24), "B S C", {"H": n}, "B*H S D") for n in (2, 4)],
    # cat and stack count nothing; a part of a cache is written whole
    (lambda q: torch.cat([q, q * 2], -1), (2, 4, 5, 6), "B H S D", SIZES, "B H S ?"),
    (lambda q: torch.stack([q[:, 0] * n for n in range(H)], 1), (2, 4, 5, 6), "B H S D", SIZES,
        "B ? S D"),
    (lambda past: torch.cat([past, past], 1), (2, 5, 6), "B S D", {"H": 2, "C": 12}, "B S D"),
    (cache_of_nine, (2, 4, 5, 6), "B H S D", {}, "B H ? D"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "shape", "axes", "sizes", "expected"), OF_SHAPES)
def test_names_of_shapes_that_are_special(fn, shape, axes, sizes, expected, draw):
    step = trace(fn, draw(*shape), axes=axes, sizes=sizes).steps[-1]
    assert (step.axes, step.warning) == (tuple(expected.split()), None)
    assert step.question is None or step.op == "cat"  # of width beside width


def averaged(q):
    return torch.einsum("bhtd->btd", (q @ q.mT).softmax(-1) @ q)


def pixels(x):
    q = x.flatten(2).transpose(1, 2)
    return (q @ q.transpose(1, 2)).softmax(-1) @ q


X, HEADS, CUT = (
    (2, 5, 24),
    (2, 4, 5, 6),
    "view-without-transpose: this reshape cuts across tokens and ",
)
OF_MISTAKES = [  # a function of a tensor of this shape, its axes, further sizes, what is said last
    (lambda x: x.view(2, 4, 5, 6), X, "B S C", {}, f"{CUT}the width, "),
    (lambda x: x.view(2, 4, 5, 6), X, "B S C", SIZES, f"{CUT}heads"),
    (lambda x: x[..., :12].reshape(2, 2, 5, 6), X, "B S C", SIZES, f"{CUT}the width, "),
    (lambda x: x.view(2, 5, 4, 6)[0, 0].view(6, 4), X, "B S C", SIZES,
     "reshape-across-axes: this reshape cuts across heads and head width: "),
    (lambda x: x.view(2, 5, 4, 6)[:, 0].reshape(4, 2, 6), X, "B S C", SIZES, "fold-order-mixed: "),
    (lambda x: x[:, 0].reshape(3, 16), X, "B S C", SIZES, "merge-batch-mixed: "),
    (lambda x: x[:, :2] + x[:, :2].transpose(0, 1), X, "B S C", {},
        "broadcast-of-different-axes: "),
    (lambda x: x[:, :2, 0] + x[:, :2, 0].mT, X, "B S C", {}, "padding-broadcast-raw: the "
        "mask's axis B lines up with an axis S"),
    (lambda x: x[:, :2, :6].flatten(0, 1) + x.view(2, 5, 4, 6)[0, 0], X, "B S C", SIZES,
     "broadcast-of-different-axes: broadcasting lines up B*S with H"),
    (lambda x: x.view(5, 2, 24), X, "? ? C", {}, ""),
    (lambda t: t.unflatten(2, (4, 3, 6)), (2, 5, 72), "B S 3*C", SIZES, "fused-heads-outermost: "),
    (lambda t: t.unflatten(2, (4, 6, 3)), (2, 5, 72), "B S 3*C", SIZES, "fused-three-innermost: "),
    (lambda t: t.unflatten(2, (3, 6, 4)), (2, 5, 72), "B S 3*C", SIZES, "heads-innermost: "),
    (lambda x: padding_inside(x, x[:, 0, 0].argsort() + 1), (5, 5, 24), "B S C", {},
        "padding-broadcast-raw: "),
    (lambda q: torch.einsum("bhts,bhsd->btd", (q @ q.mT).softmax(-1), q), HEADS, "B H S D", {},
        "heads-averaged: "),
    (averaged, HEADS, "B H S D", {}, "heads-averaged: "),
    # of softmax; without an axis it runs over the columns of a matrix, and over the first of three
    # axes
    (lambda x: F.softmax(x[0] @ x[0].T), X, "B S C", {}, ""),
    (lambda x: F.softmax(x @ x.mT), X, "B S C", {}, "softmax-over-batch: "),
    (lambda x: (x @ x.mT).softmax(1), X, "B S C", {}, "softmax-over-queries: "),
    (lambda q: F.softmax(q @ q.mT), HEADS, "B H S D", {}, "softmax-over-heads: "),
    (lambda x: (nn.Linear(C, C).double()(x) @ x.mT).softmax(-1), X, "B S C", SIZES, ""),
    (pixels, (2, 24, 4, 6), "B C Y X", {}, ""),
    (lambda q: (q @ q.mT).flatten(2).softmax(-1), HEADS, "B H S D", {},
        "softmax-over-everything: "),
    (lambda x: F.scaled_dot_product_attention(x, x, x), (5, 2, 24), "S B C", {},
        "attention-over-batch: "),
    *[(lambda x: F.scaled_dot_product_attention(x, x, x), X, "B S C", sizes, mistake)
      for sizes, mistake in (({"H": 2}, "no-split: "), ({"H": 1}, ""), ({}, ""))],
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize(("fn", "shape", "axes", "sizes", "text"), OF_MISTAKES)
def test_what_is_said_of_mistakes(fn, shape, axes, sizes, text, draw):
    found = trace(fn, draw(*shape), axes=axes, sizes=sizes)
    texts = [*(step.warning for step in found.warnings), *(s.question for s in found.questions)]
    assert [*texts, ""][0].startswith(text)
    assert bool(text) == bool(found.warnings or found.questions)
    assert "H" not in found.steps[-1].axes or "3*C" not in axes


def test_a_wrong_fold_is_told_once(draw):
    found = trace(lambda x: x.transpose(0, 1).flatten(1).unflatten(1, (8, 1)), draw(4, 6, 2),
        axes="B S C",
                  sizes={"H": 1})  # fmt: skip
    assert [step.question is None for step in found.steps] == [True, False, True]


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_the_five_variants_agree_on_every_stage(name, x):
    mha = MultiHeadAttention(C, H, bias=False).double()
    args = (x, x, x) if name == "SplitCombine" else (x,)
    found = trace(variants.VARIANTS[name].from_reference(mha), *args, axes="B S C")
    folded = ("B*H",) if name == "FoldedHeads" else ("B", "H")
    assert found.step("weights").axes == (*folded, "T", "S")
    assert found.step("scores").hidden_copies == 0 or name != "FoldedHeads"
    assert found.step("context").axes[-2:] == ("T", "D")
    assert found.step("out").axes == found.step("merged").axes == ("B", "T", "C")
    assert found.warnings == ()


def test_stages_come_in_their_order(x):
    found = trace(
        MultiHeadAttention(C, H).double(), x, mask=torch.ones(S, S, dtype=torch.bool), axes="B S C"
    )
    assert list(dict.fromkeys(step.stage for step in found.steps if step.stage)) == list(STAGES)


def test_steps_tell_what_happened_to_memory(heads):
    def merge(context):
        swapped = context.transpose(1, 2)
        merged = swapped.reshape(2, 5, 24)
        same = merged.contiguous()
        return swapped.contiguous(), same

    found = trace(merge, heads, axes="B H S D")
    swapped, merged, same, copied = found.steps
    assert [step.storage for step in found.steps] == ["view", "copy", "same", "copy"]
    assert swapped.strides == heads.transpose(1, 2).stride()
    assert (swapped.contiguous, merged.contiguous) == (False, True)
    assert (swapped.memory, merged.memory) == (found.arguments[0].memory, same.memory)
    assert [merged.hidden_copies, copied.hidden_copies] == [1, 0]  # contiguous() was written
    assert merged.bytes == 2 * 5 * 24 * 8
    assert (merged.line, merged.name) == ("merged = swapped.reshape(2, 5, 24)", "merged")
    assert merged.lineno == merge.__code__.co_firstlineno + 2


def test_hidden_copies_of_products(heads):
    found = trace(lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v,
        *[heads.transpose(1, 2).contiguous().
                  transpose(1, 2)] * 3, axes="B H S D")  # fmt: skip
    assert [step.hidden_copies for step in found.steps if step.op == "matmul"] == [2, 1]
    plain = trace(
        lambda q, k: torch.bmm(q, k.mT),
        *[heads.flatten(0, 1)] * 2,
        axes="B*H S D",
        sizes={"H": H, "B": B},
    )
    assert plain.steps[-1].hidden_copies == 0


def test_fused_attention_is_one_honest_row(heads):
    (step,) = trace(F.scaled_dot_product_attention, heads, heads, heads, axes="B H S D").steps
    assert (step.op, step.axes) == ("scaled_dot_product_attention", ("B", "H", "T", "D"))
    assert "cannot be looked into" in step.note
    assert step.flops == 2 * 2 * B * H * S * S * D


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_the_module_of_torch_is_one_honest_row(training, batch_first, x):
    module = nn.MultiheadAttention(C, H, batch_first=batch_first, dtype=x.dtype).train(training)
    order = "B S C" if batch_first else "S B C"
    found = trace(module, *[x if batch_first else x.transpose(0, 1)] * 3, axes=order)
    (row,) = [step for step in found.steps if "multi_head_attention" in step.op]
    assert "not looked into" in row.note
    assert found.steps[-1].axes == tuple(order.replace("S", "T").split())
    assert "not looked into" in str(found)


@pytest.mark.parametrize(("averaged", "expected"), [(True, "B T S"), (False, "B H T S")])
def test_the_weights_of_the_module_of_torch(averaged, expected, x):
    module = nn.MultiheadAttention(C, H, batch_first=True, dtype=x.dtype)

    def attend(x):
        return [tensor.clone() for tensor in module(x, x, x, average_attn_weights=averaged)]

    out, weights = trace(attend, x, axes="B S C").steps[-2:]
    assert (out.axes, out.stage) == (("B", "T", "C"), "out")
    assert (weights.axes, weights.stage) == (tuple(expected.split()), "weights")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_compiled_code_is_run_as_written_and_says_so(x):
    found = trace(torch.compile(lambda x: x.transpose(0, 1) * 2), x, axes="B S C")
    assert [step.op for step in found.steps] == ["transpose", "mul"]
    assert "cannot be seen" in found.notes[0]
    assert found.notes[0] in str(found).replace("\n  ", " ")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_scripted_code_is_shown_without_lines_and_says_so(x):
    found = trace(torch.jit.script(nn.Linear(C, C).double()), x, axes="B S C")
    assert found.steps[-1].axes == ("B", "S", "C")
    assert sum(step.flops for step in found.steps) == 2 * B * S * C * C
    assert "its lines cannot be seen" in found.notes[0]


def test_a_product_by_its_low_name_is_counted_once(x):
    assert last(torch.ops.aten.mm.default, x[0], x[0].T, axes=["S C", "C S"]).flops == 2 * S * S * C


def test_wrapped_tensors_do_not_stop_the_trace(x):
    found = trace(torch.vmap(lambda row: row @ row.T), x, axes="B S C")
    assert found.result.shape == (B, S, S)
    assert "cannot be seen" in found.notes[0]


def test_einops_is_seen_through(x):
    einops = pytest.importorskip("einops")

    def split(x):
        return einops.rearrange(x, "b s (h d) -> b h s d", h=4)

    found = trace(split, x, axes="B S C", sizes={"H": 4})
    assert found.steps[-1].axes == ("B", "H", "S", "D")
    assert found.steps[-1].line.startswith("return einops.rearrange")


def wrong_merge(context):
    swapped = context.transpose(1, 2)
    return swapped.view(2, 5, 24)


def test_what_the_learner_raises_comes_through_with_the_steps(heads):
    with pytest.raises(RuntimeError, match="view size is not compatible") as caught:
        trace(wrong_merge, heads, axes="B H S D")
    error = caught.value
    assert "swapped = transpose" in error.__notes__[0]
    assert "view-on-non-contiguous" in error.__notes__[0]
    assert [step.op for step in error.trace.steps] == ["transpose"]
    assert error.trace.failure.startswith("view-on-non-contiguous: ")
    assert traceback.extract_tb(error.__traceback__)[-1].line == "return swapped.view(2, 5, 24)"


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: nn.Linear(7, 7)(x.flatten(0, 1)),
        lambda x: x @ x,
        lambda x: x @ x[:1].repeat(3, 1, 1).mT,
    ],
)
def test_sizes_that_do_not_fit_are_no_mistake_with_heads(fn, x):
    with pytest.raises(RuntimeError) as caught:
        trace(fn, x, axes="B S C")
    assert (caught.value.trace.warnings, caught.value.trace.failure) == ((), None)


def test_errors_of_any_kind_come_through(x):
    def raises(x):
        _ = x * 2
        raise KeyError("mine") from ValueError("cause")

    with pytest.raises(KeyError, match="mine") as caught:
        trace(raises, x, axes="B S C")
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(caught.value.trace.steps) == 1


BAD = [
    (
        {"axes": "B S"},
        "the pattern of x must name each axis. expected 3 names for (2, 5, 24), got B S",
    ),
    (
        {"axes": ["B S C", "B S"]},
        "axes has more patterns than tensors. expected at most 1 patterns, for x, got 2",
    ),
    (
        {"axes": "B S-C"},
        "a pattern names each axis once. expected names such as \"B S C\", got 'B S-C'",
    ),
    ({"axes": {"y": "B S C"}}, "axes names 'y', which is not a tensor argument. expected x, got y"),
    ({"axes": "B S C", "sizes": {"H": 7}}, "H must divide C. expected C % H == 0, got C=24, H=7"),
    (
        {"axes": "B S C", "sizes": {"H": 0}},
        "sizes['H'] must be a positive int. expected H >= 1, got 0",
    ),
    (
        {"axes": "B T D", "sizes": {"H": "4"}},
        "sizes['H'] must be a positive int. expected H >= 1, got '4'",
    ),
    ({"axes": "B B C"}, "the sizes of B do not agree. expected B=2, got 5"),
    (
        {"axes": "B S H*D"},
        "the size of H cannot be read off. expected H alone or in sizes, got a product, fix: "
        "sizes=dict(H=…)",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_patterns_get_one_clear_message(options, message, x):
    refused(lambda: trace(lambda x: x, x, **options), f"trace: {message}")


def test_patterns_for_several_arguments(x, draw):
    memory = draw(B, 7, C)
    module = MultiHeadAttention(C, H).double()
    for axes in (["B T C", "B S C"], {"query": "B T C", "key": "B S C"}):
        found = trace(module, x, memory, axes=axes)
        assert found.step("scores").axes == ("B", "H", "T", "S")
        assert found.step("out").axes == ("B", "T", "C")
    assert trace(lambda pair: pair[1] * 2, (x, memory), axes=[None, "B S C"]).steps[-1].axes == (
        "B",
        "S",
        "C",
    )


def test_one_tensor_as_query_and_key_has_the_names_of_the_key(x):
    found = trace(MultiHeadAttention(C, H).double(), x, x, x, axes=["B T C", "B S C", "B S C"])
    assert found.step("scores").axes == ("B", "H", "T", "S")
    assert found.steps[0].axes == ("B", "S", "C")


def test_a_keyword_of_the_same_name_goes_in_by_partial(x):
    found = trace(
        functools.partial(lambda x, axes: x.transpose(*axes), axes=(0, 1)), x, axes="B S C"
    )
    assert found.steps[-1].axes == ("S", "B", "C")
    module = MultiHeadAttention(C, H).double()
    assert trace(functools.partial(module, need_weights=False), x, axes="B S C").sizes["H"] == H


hidden = MultiHeadAttention(24, 4)  # a global of the name of an attribute below


def test_a_global_that_is_called_like_an_attribute_declares_nothing(x):
    holder = types.SimpleNamespace(hidden=nn.Identity())
    found = trace(lambda x: holder.hidden(x).view(2, 5, 4, 6), x, axes="B S C")
    assert found.steps[-1].axes == ("B", "S", "?", "?")


class OfAttributes(nn.Module):
    def __init__(self, attributes):
        super().__init__()
        vars(self).update(attributes)

    def forward(self, x):
        return x.view(2, 5, 4, 6)


@pytest.mark.parametrize(
    ("attributes", "heads"),
    [({"num_head": 4}, "H"), ({"cfg": {"n_heads": 4}}, "H"),
     ({"args": types.SimpleNamespace(model={"attention": types.SimpleNamespace(nhead=4)})}, "H"),
     ({"config": types.SimpleNamespace(num_heads=4, vision={"num_heads": 3})}, "H"),
     ({"config": {"text": {"num_heads": 4}, "vision": {"num_heads": 3}}}, "?"), ({"h": 4}, "?"),
     ({"cfg": nn.Module, "n_heads": True}, "?")],
)  # fmt: skip
def test_heads_are_read_from_attributes_and_configs_or_a_note_asks_for_them(attributes, heads, x):
    found = trace(OfAttributes(attributes), x, axes="B S C")
    assert (found.steps[-1].axes[2], HEADS_UNKNOWN in found.notes) == (heads, heads == "?")
    of_call = trace(lambda x, cfg: x.view(2, 5, 4, 6), x, attributes.get("cfg"), axes="B S C")
    assert of_call.steps[-1].axes[2] == ("H" if isinstance(attributes.get("cfg"), dict) else "?")


def test_heads_are_read_from_a_declared_number(x):
    assert trace(split_heads, x, num_heads=4, axes="B S C").steps[-1].axes == ("B", "H", "S", "D")
    assert trace(lambda x: x.view(2, 5, 4, 6), x, axes="B S C").steps[-1].axes == (
        "B",
        "S",
        "?",
        "?",
    )
    odd = trace(lambda x, num_heads: x * 2, x, 7, axes="B S C")  # its own error tells
    assert "H" not in odd.sizes


@pytest.mark.parametrize(("sizes", "inner"), [({}, "d_ff"), ({"F": 44}, "F"), ({"V": 97}, "d_ff")])
def test_a_width_that_the_caller_names_is_not_what_a_module_declares(sizes, inner, x):
    block = models.EncoderBlock(C, H, 44).double()
    wide = next(
        step for step in trace(block, x, axes="B S C", sizes=sizes).steps if step.shape[-1] == 44
    )
    assert wide.axes == ("B", "S", inner)


def test_parameters_are_named_by_their_use(x):
    found = trace(MultiHeadAttention(C, H).double(), x, axes="B S C")
    named = {argument.name: argument.axes for argument in found.arguments}
    assert (named["q_proj.weight"], named["q_proj.bias"]) == (("C", "C"), ("C",))
    assert found.steps[0].inputs[1].axes == ("C", "C")


def test_grouped_heads_have_a_name_if_they_are_given_one(x, draw):
    w = nn.Linear(C, 2 * D, dtype=x.dtype)

    def keys(x):
        few = w(x).view(2, 5, 2, 6).transpose(1, 2)
        return few.repeat_interleave(2, dim=1), few[:, :, None].expand(2, 2, 2, 5, 6).flatten(1, 2)

    found = trace(keys, x, axes="B S C", sizes={"H": 4, "H_kv": 2})
    assert [step.axes for step in found.steps] == [
        ("B", "S", "H_kv*D"), ("B", "S", "H_kv", "D"), ("B", "H_kv", "S", "D"),
        ("B", "H", "S", "D"),
        ("B", "H_kv", "1", "S", "D"), ("B", "H_kv", "H/H_kv", "S", "D"), ("B", "H", "S", "D"),
    ]  # fmt: skip


def test_text_shows_names_memory_warnings_and_notes(x):
    text = str(trace(lambda x: x.view(2, 4, 5, 6), x, axes="B S C", sizes={"H": 4}))
    assert "B 2 · ? 4 · ? 5 · D 6" in text
    assert "⚠ view-without-transpose: " in text
    assert max(map(len, text.splitlines())) <= 88


def test_html_escapes_what_people_write_and_what_turns_text(x):
    line = "    y = x + len('\u202e<b>drawkcab')  # \u05d0\n"
    space, file = {}, "<somebody's>"
    linecache.cache[file] = (0, None, ["def turned(x):\n", line, "    return y\n"], file)
    exec(compile("".join(linecache.cache[file][2]), file, "exec"), space)
    found = trace(space["turned"], x, axes="B S C")
    for shown in (found._repr_html_(), found.compare(found)._repr_html_()):
        assert "\u202e" not in shown
        for tag in ("<b>", "<svg", "<style", "<script", "class=", "aria-"):
            assert tag not in shown
    assert "\\u202e&lt;b&gt;drawkcab" in found._repr_html_()


def test_a_ledger_is_the_table_of_steps_and_shapes(draw):
    """The table that a vision text gives for 16 patches and a class token."""
    traced = trace(variants.PermuteView(48, 4).double(), draw(B, 17, 48), axes="B S C")
    ledger = traced.ledger("x", "q", "scores", "weights", "context", "merged", "out")
    assert str(ledger).splitlines() == [
        "x        (B, S, C)     (2, 17, 48)",
        "q        (B, H, S, D)  (2, 4, 17, 12)",
        "scores   (B, H, T, S)  (2, 4, 17, 17)",
        "weights  (B, H, T, S)  (2, 4, 17, 17)",
        "context  (B, H, T, D)  (2, 4, 17, 12)",
        "merged   (B, T, C)     (2, 17, 48)",
        "out      (B, T, C)     (2, 17, 48)",
    ]
    with pytest.raises(KeyError, match="no step is called 'nothing'"):
        traced.ledger("nothing")


def test_comparing_says_where_traces_part(x):
    mha = MultiHeadAttention(C, H, bias=False).double()
    one, other = (
        variants.VARIANTS[name].from_reference(mha) for name in ("ReturnsWeights", "PermuteView")
    )
    assert trace(one, x, axes="B S C").compare(trace(other, x, axes="B S C")).differs == ()
    folded = variants.FoldedHeads.from_reference(mha)
    parted = trace(one, x, axes="B S C").compare(trace(folded, x, axes="B S C"))
    assert parted.differs[0] == "split"
    assert "B*H 8" in str(parted)


def test_two_traces_say_the_same(x):
    module = MultiHeadAttention(C, H).double()
    first, second = (trace(module, x, axes="B S C") for _ in range(2))
    assert str(first) == str(second)
    assert first._repr_html_() == second._repr_html_()
    assert (
        repr(first)
        == "Trace: 18 steps: 8 new, 8 views, 1 copy, 1 same object; 4 hidden copies; 50,880 FLOPs"
    )


def test_tensors_that_hold_the_same_memory_share_its_number(x):
    found = trace(lambda x: (x.view(10, 24), x[0], x * 1), x, axes="B S C")
    numbers = [step.memory for step in found.steps]
    assert numbers[0] == numbers[1] == found.arguments[0].memory != numbers[2]
    assert (found.steps[1].offset, last(lambda x: x[1], x, axes="B S C").offset) == (0, S * C)


def test_nothing_at_all(x):
    found = trace(lambda x: x, x, axes="B S C")
    assert (found.steps, repr(found)) == ((), "Trace: no steps")
    assert trace(math.sqrt, 4.0).result == 2.0


def chain(x, living):
    made = []
    for _ in range(40):
        y = x * 2
        turned = y.transpose(0, 1)
        x = turned.transpose(0, 1)
        made += [weakref.ref(y), weakref.ref(turned), weakref.ref(x)]
        living.append(sum(one() is not None for one in made))
    return x


def test_no_tensor_is_kept(x):
    """A freed tensor's id and memory are reused, which must not confuse anything."""
    plain, traced = [], []
    chain(x, plain)
    found = trace(chain, x, traced, axes="B S C")
    assert max(traced) <= 2 * max(plain)
    assert [step.name for step in found.steps] == ["y", "turned", "x"] * 40
    assert [step.storage for step in found.steps] == ["new", "view", "view"] * 40
    assert [step.memory for step in found.steps] == [
        number for n in range(1, 41) for number in [n] * 3
    ]


def deep(x, depth):
    return deep(x * 1, depth - 1) if depth else x


def with_others(x, number):
    others = [x[0, 0] * n for n in range(number)]
    return trace(lambda: [x + one for one in others])


def calls_of(run, *arguments):
    """Count the calls of functions, including those in C."""
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run(*arguments)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("run", "number"), [(lambda x, n: trace(deep, x, n), 50), (with_others, 300)]
)
def test_work_grows_with_the_number_of_steps(run, number, x):
    """Nested calls, and unnamed tensors, once took time quadratic in their number."""
    run(x, number)  # what is looked up once
    assert calls_of(run, x, 4 * number) < 5 * calls_of(run, x, number)


@torch.library.custom_op("mine::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


@pytest.mark.parametrize(
    ("fn", "note"),
    [(lambda x: torch.from_numpy(x.numpy() * 2),
        "a tensor went to NumPy"),
     (double, "mine::double: an operator that is not torch's"),
     (torch.neg, "")],
)  # fmt: skip
def test_what_is_not_seen_is_noted(fn, note, x):
    notes = trace(fn, x, axes="B S C").notes
    assert [text.startswith(note) for text in notes] == [True] * bool(note)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_compiled_function_inside_is_noted(x):
    compiled = torch.compile(torch.neg, backend="eager")
    assert trace(lambda x: compiled(x) * 1, x).notes[0].startswith("compiled code")


def test_an_operator_of_the_same_name_is_another(x):
    (step,) = trace(double, x, axes="B S C").steps
    assert (step.op, step.axes, step.storage) == ("mine::double", ("?", "?", "?"), "new")


OF_COPIES = {  # of (B, C, S), which has the strides of (B, S, C)
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (S,)),
    "layer_norm_of_what_lies_in_order": lambda x: F.layer_norm(x.mT, (C,)),
    "conv1d": lambda x: F.conv1d(x, x.new_ones(7, C, 1)),
    "group_norm": lambda x: F.group_norm(x, 4),
    "gelu": F.gelu,
}


@pytest.mark.parametrize("fn", OF_COPIES.values(), ids=OF_COPIES)
def test_copies_inside_kernels_are_those_of_the_profiler(fn, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        fn(x.mT)
    seen = sum(event.count for event in profiled.key_averages() if event.key == "aten::clone")
    assert sum(step.hidden_copies for step in trace(fn, x.mT).steps) == seen


@pytest.mark.parametrize(
    ("fn", "storage"),
    [(copy.deepcopy, "copy"), (torch.Tensor.long, "copy"), (lambda x: x.new_zeros(2), "new"),
     (lambda x: torch.tensor([1.0]), "new"), (lambda x: torch.hstack([x, x]), "copy"),
     (lambda x: x[x > 0], "copy")],
)  # fmt: skip
def test_copies_that_were_asked_for(fn, storage, x):
    step = trace(fn, x).steps[-1]
    assert (step.storage, step.hidden_copies) == (storage, 0)


# What is unusual is asked, and breaks nothing


def joined(x):
    return x.reshape(B, 2, 3 * C)


@pytest.mark.parametrize(
    ("fn", "question"),
    [(nn.MultiheadAttention(C, H), "attention-over-batch"),
     (nn.TransformerEncoderLayer(C, H, 10), "attention-over-batch"),
     (nn.MultiheadAttention(C, H, batch_first=True), ""), (joined, "tokens-joined")],
)  # fmt: skip
def test_questions_are_no_warnings(fn, question, draw):
    x = draw(B, 6, C).float()
    found = trace(fn, *[x] * (3 if isinstance(fn, nn.MultiheadAttention) else 1), axes="B S C")
    assert found.warnings == ()
    assert [step.question.partition(":")[0] for step in found.questions] == [question] * bool(
        question
    )
    assert ("question" in found.summary()) == bool(question)
    for shown in (str(found), found._repr_html_().replace("<strong>", "")):
        assert not question or f"? {question}" in shown


@pytest.mark.parametrize(
    ("axes", "sizes", "expected"),
    [
        ("b n d", {"h": H}, "B n C"),
        ("batch seq embed", {"num_heads": H}, "B seq C"),
        ("N L E", {"H": H}, "B L C"),
        ("B S C", {"H": H}, "B S C"),
        *[
            (letters, {"H": H}, read)
            for letters, read in (("B T D", "B T C"), ("b t d", "B T C"), ("n l e", "B l C"))
        ],
        ("B N E", {"H": H}, "B N C"),
    ],
)
def test_the_letters_of_other_people(axes, sizes, expected, x):
    found = trace(lambda x: x.unflatten(-1, (H, D)), x, axes=axes, sizes=sizes)
    batch, tokens, width = expected.split()
    assert found.arguments[0].axes == (batch, tokens, width)
    assert found.steps[0].axes == (batch, tokens, "H", "D")
    assert found.notes == (() if axes == expected else (f"{axes} was read as {expected}",))


@pytest.mark.parametrize(
    ("axes", "shape", "expected"),
    [
        ("b n h d", (2, 5, 3, 4), "B n H D"),  # of a head, with heads next to it
        ("b n heads d", (2, 5, 3, 4), "B n H D"),
        ("b n d", (2, 5, 12), "B n C"),
        ("h w", (5, 7), "Y X"),  # a picture, with nothing next to it
        ("B C H W", (2, 3, 5, 7), "B C Y X"),
    ],
)
def test_a_letter_is_read_by_those_beside_it(axes, shape, expected):
    found = trace(lambda x: x * 2, torch.ones(shape), axes=axes)
    assert found.arguments[0].axes == tuple(expected.split())


@pytest.mark.parametrize(
    ("axes", "sizes"),
    [*[("B T D", sizes) for sizes in ({}, {"H": 1}, {"H": 5}, {"H": H, "C": C * H},
        {"H": H, "D": C})],
     ({"q": "B T D", "k": "B H S D"}, {})],
)  # fmt: skip
def test_a_width_that_may_be_of_one_head_is_none_of_all(axes, sizes, draw):
    found = trace(lambda q, k: q * 2, draw(B, S, C), draw(B, H, S, C), axes=axes, sizes=sizes)
    assert (found.steps[0].axes, found.notes) == (("B", "T", "D"), ())


@pytest.mark.parametrize(("declared", "read"), [(D, "C"), (C, "D")])
def test_a_declared_head_width_tells_the_whole_width(declared, read, x):
    attention = nn.Module()
    attention.num_heads, attention.head_dim, attention.forward = H, declared, lambda x: x * 2
    assert trace(attention, x, axes="B T D").steps[0].axes == ("B", "T", read)


def test_letters_of_torch_are_read_alike_in_all_patterns(x):
    found = trace(
        lambda x, padding: x * padding[..., None], x, torch.ones(B, S), axes=("N S E", "N S")
    )
    assert [argument.axes for argument in found.arguments] == [("B", "S", "C"), ("B", "S")]


@pytest.mark.parametrize(("order", "said"), [("H*B 1 S", "fold-order-mixed: "), ("B*H 1 S", "")])
def test_what_a_product_is_added_to_is_judged_as_in_a_sum(order, said, draw):
    bias, q, k = draw(B * H, 1, S), draw(B * H, S, D), draw(B * H, S, D, seed=1)
    axes, sizes = {"bias": order, "q": "B*H T D", "k": "B*H S D"}, {"B": B, "H": H}
    for score in (
        lambda bias, q, k: torch.baddbmm(bias, q, k.mT),
        lambda bias, q, k: bias + q @ k.mT,
    ):
        warning = trace(score, bias, q, k, axes=axes, sizes=sizes).steps[-1].warning or ""
        assert warning.startswith(said)
        assert bool(warning) == bool(said)


@pytest.mark.parametrize(
    ("sizes", "read"), [({}, "C"), ({"C": C}, "C"), ({"C": 2 * C}, "E"), ({"E": C}, "E")]
)
def test_an_e_that_stands_last_is_the_width_if_it_can_be(sizes, read, x):
    found = trace(lambda x: x * 2, x, axes="B S E", sizes=sizes)
    assert found.steps[-1].axes == ("B", "S", read)
    assert found.notes == (("B S E was read as B S C",) if read == "C" else ())


def test_what_is_not_known_of_the_width_is_said():
    for sizes, noted in (
        ({"H": H}, True),
        ({}, False),
        ({"H": H, "C": C}, False),
        ({"H": 1}, False),
    ):
        notes = trace(
            lambda x: F.one_hot(x) * 2.0,
            torch.ones(B, S, dtype=torch.long),
            axes="B S",
            sizes=sizes,
        ).notes
        assert any("sizes=dict(C=" in note for note in notes) == noted


def test_weights_beside_an_output_are_not_taken_for_it(x):
    attention = nn.MultiheadAttention(C, H, batch_first=True, dtype=x.dtype)

    def attend(x):
        out, weights = attention(x, x, x)
        doubled = weights * 2
        return out, doubled

    found = trace(attend, x, axes="B S C")
    assert "weights" not in (*found.names(), *found.aliases)
    assert found.step("doubled").axes == ("B", "T", "S")


@pytest.mark.parametrize("width", [D, H])
def test_heads_that_only_order_tells_from_their_width_are_asked_about(width, draw):
    fused = nn.Linear(C, 3 * H * width, dtype=torch.float64)

    def score(x):
        q, k, _ = fused(x).view(B, S, width, 3, H).permute(3, 0, 4, 1, 2)
        return (q @ k.mT).softmax(-1)

    found = trace(score, draw(B, S, C), axes="B S C", sizes={"H": H, "D": width})
    assert found.warnings == ()
    assert [step.question.partition(":")[0] for step in found.questions] == ["heads-innermost"] * (
        width == H
    )


@pytest.mark.parametrize("queries", [1, 3, 7])
def test_is_causal_with_fewer_queries_than_keys(queries, draw):
    q, k = draw(B, H, queries, D), draw(B, H, 7, D)
    found = trace(
        F.scaled_dot_product_attention, q, k, k, is_causal=True,
        axes=("B H T D", "B H S D", "B H S D"),
    )  # fmt: skip
    texts = [step.warning for step in found.warnings]
    assert bool(texts) == (queries < 7)
    assert not texts or texts[0].startswith("causal-top-left: ")
    assert not texts or f"the last query sees only {queries} of 7 keys" in texts[0]
    right = trace(F.scaled_dot_product_attention, q, k, k, axes=("B H T D", "B H S D", "B H S D"))
    assert right.warnings == ()


@pytest.mark.parametrize(
    ("scores", "dim", "advice"),
    [("bihd,bjhd->bijh", 1, "dim=2"), ("bihd,bjhd->bijh", 3, "dim=2"),
     ("bihd,bjhd->bhij", 2, "dim=-1"), ("bihd,bjhd->hbij", 0, "dim=-1")],
)  # fmt: skip
def test_the_advice_names_the_axis_of_the_keys(scores, dim, advice, draw):
    def share(q, k):
        return torch.einsum(scores, q, k).softmax(dim)

    (asked,) = trace(share, *[draw(B, S, H, D)] * 2, axes="B S H D").questions
    assert asked.question.endswith(f"softmax over {advice}.")


def test_weights_that_are_normalised_again_sum_to_one_along_the_keys(draw):
    def compete(slots, x):
        weights = torch.einsum("bid,bjd->bij", slots, x).softmax(1) + 1e-8
        weights = weights / weights.sum(-1, keepdim=True)
        return torch.einsum("bjd,bij->bid", x, weights)

    found = trace(compete, draw(B, 3, C), draw(B, S, C), axes=("B K C", "B S C"))
    assert [step.question.partition(":")[0] for step in found.questions] == ["softmax-over-queries"]


STATISTICS = []


def attend_and_note(x):
    weights = (x @ x.mT).softmax(-1)
    out = weights @ x
    STATISTICS.append(weights.log())
    return out


def test_a_variable_is_what_it_holds(x):
    """Neither what a function did last, nor what a number or a shape was read from."""

    def block(x):
        y = attend_and_note(x)
        count = int((x > 0).sum())
        first, *_ = x.chunk(2, -1)
        x = y + first.repeat(1, 1, 2)
        return x * count

    found = trace(block, x, axes="B S C")
    assert found.step("y") is found.step("out")
    assert (found.step("out").op, found.step("first").op, found.step("x").op) == (
        "matmul",
        "chunk",
        "add",
    )
    assert "count" not in (*found.names(), *found.aliases)


class FrozenError(Exception):
    def __setattr__(self, name, value):
        raise AttributeError(name)


def refuse(x):
    raise FrozenError(str(x.sum()))


def test_nothing_that_runs_is_broken(draw):
    q = draw(2, H, 16, 8).float()
    assert trace(lambda q: copy.deepcopy(q.shape), q).result == q.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not compiled
        fused = last(lambda q: flex_attention(q, q, q), q, axes="B H S D")
        nested = torch.nested.nested_tensor([draw(4, C), draw(6, C)], layout=torch.jagged)
        ragged = trace(lambda x: F.linear(x, torch.ones(3, C, dtype=x.dtype)) * 2, nested)
    assert (fused.op, fused.axes) == ("flex_attention", ("B", "H", "T", "D"))
    assert fused.note.startswith("cannot be looked into")
    assert ragged.notes[0].startswith("nested and sparse tensors")
    chosen = trace(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), q)
    assert chosen.steps[-1].op == "cond"
    assert trace(nn.LazyLinear(3), q).result.shape == (2, H, 16, 3)
    with pytest.raises(FrozenError):
        trace(refuse, q)


def test_a_failure_of_the_tracer_is_a_note(x, monkeypatch):
    monkeypatch.setattr(recorder, "inherit", lambda *_: 1 / 0)
    found = trace(lambda x: x * 2, x, axes="B S C")
    assert torch.equal(found.result, x * 2)
    assert found.steps == ()
    assert found.notes == (
        "the tracer failed at mul (ZeroDivisionError: division by zero), so this step is not shown",
    )


def test_the_path_that_a_trace_leaves_is_noted(x):
    encoder = nn.TransformerEncoderLayer(C, H, 10, batch_first=True, dtype=x.dtype)
    assert trace(encoder.train(), x, axes="B S C").notes == ()
    with torch.no_grad():
        (note,) = trace(encoder.eval(), x, axes="B S C").notes
    assert note.startswith("in evaluation without gradients")


def test_flops_of_a_query_that_is_broadcast(draw):
    q, k = draw(1, 2, 5, 8), draw(3, 2, 7, 8)
    together, one = (
        trace(F.scaled_dot_product_attention, q, *[keys] * 2).steps[-1] for keys in (k, k[:1])
    )
    assert together.flops == 3 * one.flops == 3 * 2 * 2 * (2 * 5 * 7 * 8)


# Sizes that are read from shapes


def causal_inside(x):
    _, T, _ = x.shape
    mask = torch.tril(torch.ones(T, T)).bool()
    scores = x @ x.mT
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def angles_inside(q):
    S, D = q.shape[-2:]
    angles = torch.outer(torch.arange(S, dtype=q.dtype), 1 / 10000 ** (torch.arange(0, D, 2) / D))
    return torch.cat([angles, angles], -1).cos() * q


def padding_inside(x, lengths):
    keep = torch.arange(x.size(1)) < lengths[:, None]
    return (x @ x.mT).masked_fill(~keep, -1e9)


def stored_at_places(q):
    cache = torch.zeros(B, H, 9, D, dtype=q.dtype)
    cache[:, :, torch.arange(S)] = q
    return cache


def stored_head_by_head(q):
    out = torch.zeros(B, H, S, D)
    for head in range(H):
        out[:, head] = q[:, head] * 2
    return out


OF_SIZES = {
    "mask": (causal_inside, "B S C", {"ones": "T S", "masked_fill": "B T S"}),
    "angles": (angles_inside, "B H S D", {"outer": "S D/2", "cat": "S D", "mul": "B H S D"}),
    "slopes": (
        lambda q: q @ q.mT + torch.ones(4)[:, None, None],
        "B H S D",
        {"ones": "H", "getitem": "H 1 1"},
    ),
    "stored_head_by_head": (
        stored_head_by_head,
        "B H S D",
        {"setitem": "B H S D", "zeros": "B H S D"},
    ),
    "stored_at_places": (stored_at_places, "B H S D", {"setitem": "B H ? D"}),
    "filled": (lambda x: x.new_zeros(x.shape), "B S C", {"new_zeros": "B S C"}),
    "of_two_kinds": (lambda x: torch.zeros(x.size(0) + x.size(2)), "B S C", {"zeros": "?"}),
    "twice_as_many": (lambda x: torch.zeros(x.size(1) + x.size(1)), "B N C", {"zeros": "N"}),
    "square": (lambda x: torch.eye(x.size(1)), "B S C", {"eye": "T S"}),
    "cut": (lambda x: torch.zeros(9)[: x.size(1)], "B S C", {"getitem": "S"}),
    "copied": (lambda x: torch.zeros(B, S, C, dtype=x.dtype).copy_(x), "B S C", {"copy_": "B S C"}),
    "squeezed_in_place": (lambda x: x[:, :1].clone().squeeze_(1), "B S C", {"squeeze_": "B C"}),
    "gathered": (lambda x: x.gather(1, torch.zeros(B, 3, C).long()), "B S C", {"gather": "B ? C"}),
    "largest": (lambda x: x.topk(2, dim=1).values, "B S C", {"topk": "B ? C"}),
    "windows": (lambda x: x.unfold(1, 2, 1), "B S C", {"unfold": "B ? C ?"}),
    "windows_apart": (lambda q: q.unfold(3, 2, 2), "B H S D", {"unfold": "B H S D/2 2"}),
    "windows_of_tokens_apart": (
        lambda x: x[:, :4].unfold(1, 2, 2),
        "B S C",
        {"unfold": "B S/2 C 2"},
    ),
}


@pytest.mark.parametrize(("fn", "axes", "expected"), OF_SIZES.values(), ids=OF_SIZES)
def test_a_size_from_a_shape_brings_its_axis(fn, axes, expected, x, heads):
    found = trace(fn, heads if "H" in axes else x, axes=axes, sizes=SIZES)
    last_of = {step.op: step.axes for step in found.steps}
    assert found.warnings == ()
    assert {op: " ".join(last_of[op]) for op in expected} == expected


def test_what_met_axes_of_two_kinds_is_none_of_them(draw):
    fn = functools.partial(lambda ones, x: x * ones[:, None] * ones, torch.ones(4))
    assert trace(fn, draw(2, 4, 4), axes="B Y X").arguments[1].axes == ("?",)


def test_an_argument_and_what_reads_it_have_the_same_names(x):
    found = trace(
        lambda x, mask: (x @ x.mT).masked_fill(mask, 0), x, torch.ones(S, S).bool(), axes=["B S C"]
    )
    assert found.arguments[1].axes == found.steps[-1].inputs[1].axes == ("T", "S")


MLA = {"kv_lora_rank": 8, "q_lora_rank": 10, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4,
    "v_head_dim": 7,
       "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2,
       "moe_intermediate_size": 16}  # fmt: skip
# what is said of a model beside what is said of all, and the share of steps that may have a "?"
PUBLISHED = {
    "gpt2": ({}, 0.04), "bert": ({}, 0.03), "llama": ({}, 0.04), "bloom": ({"n_head": 4}, 0.04),
    "gpt_neox": ({}, 0.3),
    "albert": ({"embedding_size": 13}, 0.12),
    "mixtral": ({"num_key_value_heads": 2, "num_local_experts": 3}, 0.3),
    "gptj": ({"rotary_dim": 4}, 0.25),
    "deepseek_v3": (MLA | {"hidden_size": 32, "intermediate_size": 48}, 0.25),
}  # fmt: skip


def published(name):
    transformers = pytest.importorskip("transformers")
    common = {"vocab_size": 97, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 24}
    common |= {
        "intermediate_size": 44,
        "max_position_embeddings": 33,
        "attn_implementation": "eager",
    }
    config = transformers.AutoConfig.for_model(name, **common | PUBLISHED[name][0])
    with torch.no_grad():
        return trace(
            transformers.AutoModel.from_config(config).eval(),
            torch.randint(0, 90, (2, 7)),
            axes="B S",
        )


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_are_named(name):
    found = published(name)
    unknown = [step for step in found.steps if "?" in step.axes]
    assert found.warnings == found.questions == ()
    assert len(unknown) <= PUBLISHED[name][1] * len(found.steps)
    ends = {step.stage: " ".join(step.axes).replace("B*H", "B H") for step in found.steps}
    expected = {"split": "B H S D", "scores": "B H T S", "weights": "B H T S", "out": "B T C"}
    assert ends | expected == ends


def test_published_models_are_compared_by_what_attention_does():
    """Not by their feed-forward layers, their sums and what comes after the last layer."""
    compared = Comparison({name: published(name) for name in ("gpt2", "bert")})
    ends = {
        part.stage: [steps[-1].axes for steps in part.steps if steps] for part in compared.parts
    }
    assert ends["context"] == [("B", "H", "T", "D")] * 2
    assert ends["projection"] == [("B*S", "3*C"), ("B", "S", "C")]
    others = [
        step for step in compared.traces["bert"].steps if step.op in ("gelu", "layer_norm", "tanh")
    ]
    assert {step.stage for step in others} == {""}


def test_sums_of_keys_and_values_are_no_scores(heads):
    found = trace(lambda k, v: k.mT @ v, heads, heads * 1, axes="B H S D")
    assert {step.stage for step in found.steps} == {""}


@pytest.mark.parametrize(
    ("name", "options", "given", "axes", "expected"),
    [("swin", {"image_size": 32, "embed_dim": 24, "depths": [2], "num_heads": [4],
        "window_size": 4},
      (2, 3, 32, 32), "B C H W",
      {"softmax": "B*Y/4/4*X/4/4 H 4*4 4*4", "add": "B Y/4*X/4 C"}),
     *[(name, {"image_size": 12, "patch_size": 4, "num_hidden_layers": 1, "num_attention_heads": 4,
        "hidden_size": 24},
        (2, 3, 12, 12), "B C H W",
        {"conv2d": "B C Y/4 X/4", "flatten": "B C Y/4*X/4", "cat": "B S C", "softmax": "B H T S"})
       for name in ("vit", "deit")],  # with one and with two tokens that are not patches
     ("distilbert", {"vocab_size": 97, "n_layers": 1, "n_heads": 4, "dim": 24}, (2, 7), "B S",
      {"embedding": "1 S C", "softmax": "B H T S"})],
)  # fmt: skip
def test_widths_that_a_config_declares(name, options, given, axes, expected):
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(
        name, intermediate_size=44, attn_implementation="eager", **options
    )
    tensor = torch.rand(given) if len(given) > 2 else torch.ones(given, dtype=torch.long)
    with torch.no_grad():
        found = trace(transformers.AutoModel.from_config(config).eval(), tensor, axes=axes)
    last_of = {step.op: " ".join(step.axes) for step in found.steps}
    assert {op: last_of[op] for op in expected} == expected
    assert found.warnings == found.questions == ()


# The width of a Linear's output says little


def talking_heads(q):
    weights = (
        nn.Linear(4, 4, dtype=q.dtype)((q @ q.mT).permute(0, 2, 3, 1))
        .permute(0, 3, 1, 2)
        .softmax(-1)
    )
    return weights @ q


def one_head(x):
    q, k, v = (nn.Linear(C, D, dtype=x.dtype)(x) for _ in range(3))
    return (q @ k.mT).softmax(-1) @ v


OF_WIDTHS = {  # from (B, S, C), or heads that are as many as they are wide
    "low rank": (
        lambda x: nn.Linear(D, C, dtype=x.dtype)(nn.Linear(C, D, dtype=x.dtype)(x)),
        "B S C",
        ["B S ?", "B S C"],
    ),
    "experts": (lambda x: nn.Linear(C, D, dtype=x.dtype)(x).softmax(-1), "B S C", ["B S ?"]),
    "one head": (one_head, "B S C", ["B S D"] * 3),
    "classes": (nn.Linear(C, 3 * C, dtype=torch.double), "B S C", ["B S ?"]),
    "hidden": (
        lambda x: nn.Linear(4 * C, C, dtype=x.dtype)(nn.Linear(C, 4 * C, dtype=x.dtype)(x).relu()),
        "B S C",
        ["B S 4*C", "B S C"],
    ),
    "mixing tokens": (lambda x: x + nn.Linear(S, S, dtype=x.dtype)(x.mT).mT, "B S C", ["B C S"]),
    "talking heads": (talking_heads, "B H S D", ["B T S H"]),
}


@pytest.mark.parametrize(("fn", "axes", "expected"), OF_WIDTHS.values(), ids=OF_WIDTHS)
def test_a_width_alone_names_no_head(fn, axes, expected, x, draw):
    given, sizes = (draw(B, 4, S, 4), {"C": 16}) if "H" in axes else (x, SIZES)
    found = trace(fn, given, axes=axes, sizes=sizes)
    assert found.warnings == found.questions == ()
    assert [" ".join(step.axes) for step in found.steps if step.op == "linear"] == expected
    inner = [
        operand
        for step in found.steps
        for operand in step.inputs
        if isinstance(operand.source, int)
    ]
    assert [operand.axes for operand in inner] == [
        found.steps[operand.source].axes for operand in inner
    ]


@pytest.mark.parametrize(
    ("width", "heads", "kv_heads", "head_dim"), [(32, 4, 2, 16), (32, 4, 1, 9)]
)
def test_keys_of_fewer_heads_may_be_as_wide_as_the_model(width, heads, kv_heads, head_dim, draw):
    def split(x):
        q, k = (
            nn.Linear(width, n * head_dim, dtype=x.dtype)(x).view(B, S, n, head_dim)
            for n in (heads, kv_heads)
        )
        return q, k

    sizes = {"C": width, "H": heads, "H_kv": kv_heads, "D": head_dim}
    found = trace(split, draw(B, S, width), axes="B S C", sizes=sizes)
    names = [step.axes[2:] for step in found.steps if step.op == "view"]
    assert names == [("H", "D"), ("H_kv", "D") if kv_heads > 1 else ("1", "?")]


# Two sequences


def attend(q, k, v):
    q, k, v = (part.unflatten(-1, (H, D)).transpose(1, 2) for part in (q, k, v))
    return ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)


def encode_and_decode(source, target):
    memory = source + attend(source, source, source)
    x = target + attend(target, target, target)
    return x + attend(x, memory, memory)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("S", "T", ["S' S", "T T'", "T S"]),
        ("N", "M", ["T N", "M' M", "M N"]),
        ("S", "Q", ["T S", "Q' Q", "Q S"]),
    ],
)
@pytest.mark.parametrize("ids", [False, True])
def test_two_sequences_keep_their_names(source, target, expected, ids, draw):
    given, width = [draw(B, 7, C), draw(B, 6, C)], [] if ids else ["C"]
    table = nn.Embedding(9, C, dtype=torch.float64) if ids else nn.Identity()
    given = [torch.ones(x.shape[:2], dtype=torch.long) for x in given] if ids else given
    axes = [" ".join(["B", tokens, *width]) for tokens in (source, target)]
    found = trace(
        lambda x, y: encode_and_decode(table(x), table(y)), *given, axes=axes, sizes=SIZES
    )
    assert found.warnings == found.questions == ()
    assert [" ".join(step.axes[2:]) for step in found.steps if step.op == "softmax"] == expected
    assert [step.axes[1] for step in found.steps if step.op == "add"] == [source, target, target]
