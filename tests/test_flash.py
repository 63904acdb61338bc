"""Attention in blocks: values, gradients, memory and what is skipped, against the whole, PyTorch and float64."""

import contextlib
import math
import sys
import types

import pytest
import torch
from rewriting import Largest, fails_with, numbers, one_thread, same  # noqa: F401
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from mha_course import flash
from mha_course.attention import attention
from mha_course.errors import ShapeError
from mha_course.experiments import costs

B, T, S, H, D, WIDTH = 2, 5, 7, 4, 6, 9  # values have a width of their own
BLOCKS = (1, (2, 3), (4, 1), 20)


def drawn(queries=T, keys=S, dtype=torch.float64):
    """Draw q, k and v that ask for gradients."""
    sizes = ((queries, D), (keys, D), (keys, WIDTH))
    return [numbers(B, H, *size, seed=seed, dtype=dtype).requires_grad_() for seed, size in enumerate(sizes)]


def masks_of(queries, keys):
    """Masks of each shape that is allowed; some rows see nothing."""
    full = numbers(B, H, queries, keys, seed=7) > 0
    full[0, 1, 2] = False
    return [None, full, full[0, 1], full[:, :1], full[:1, :, :1], full[..., :1], torch.zeros(queries, keys).bool()]


def later_hidden(queries, keys):
    """The T queries are the last of the S tokens."""
    return torch.ones(queries, keys).tril(keys - queries).bool()


# Each check holds the module against an authority.


def tiles_and_their_gradients_equal_the_whole():
    for queries, keys in ((T, S), (S, S), (S, T)):
        upstream = numbers(B, H, queries, WIDTH, seed=5)
        for mask in masks_of(queries, keys):
            for causal in (False, True):
                q, k, v = drawn(queries, keys)
                both = later_hidden(queries, keys) if causal else torch.ones(queries, keys).bool()
                want = attention(q, k, v, both if mask is None else both & mask)[0]
                gradients = torch.autograd.grad(want, (q, k, v), upstream)
                for block_size in BLOCKS:
                    got = flash.tiled_attention(q, k, v, block_size, mask=mask, causal=causal)
                    same(got, want)
                    for mine, theirs in zip(torch.autograd.grad(got, (q, k, v), upstream), gradients, strict=True):
                        same(mine, theirs)


def causal_is_that_of_the_last_tokens():
    q, k, v = (x.detach() for x in drawn(keys=S, dtype=torch.float32))
    same(flash.tiled_attention(q, k, v[..., :D], 2, causal=True),
         F.scaled_dot_product_attention(q, k, v[..., :D], causal_lower_right(T, S)), torch.float32)  # fmt: skip
    q, k, v = (x.detach() for x in drawn(S, S))
    same(flash.tiled_attention(q, k, v, 2, causal=True), F.scaled_dot_product_attention(q, k, v, is_causal=True))


def gradients_are_those_of_finite_differences():
    inputs = [numbers(1, 2, n, 2, seed=seed).requires_grad_() for seed, n in enumerate((3, 4, 4))]
    mask = torch.tensor([[True, True, False, True], [False] * 4, [True, False, True, True]])
    for how in ({}, {"mask": mask}, {"causal": True}, {"mask": mask, "causal": True}):
        assert torch.autograd.gradcheck(lambda q, k, v, how=how: flash.tiled_attention(q, k, v, (2, 3), **how), inputs)


def large_scores_do_not_overflow():
    q, k, v = (x.detach() * 100 for x in drawn(dtype=torch.float32))
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert torch.allclose(flash.tiled_attention(q, k, v, 2).double(), want, rtol=1e-2, atol=1e-1)


def half_precision_sums_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        rounded = [x.detach().to(dtype) for x in drawn(30, 2000)]
        halves, doubles = ([x.to(kind).requires_grad_() for x in rounded] for kind in (dtype, torch.float64))
        got, want = flash.tiled_attention(*halves, (30, 100)), F.scaled_dot_product_attention(*doubles)
        upstream = torch.ones_like(got)
        pairs = [(got, want), *zip(torch.autograd.grad(got, halves, upstream),
                                   torch.autograd.grad(want, doubles, upstream.double()), strict=True)]  # fmt: skip
        for mine, theirs in pairs:
            assert mine.dtype == dtype
            assert (mine.double() - theirs).abs().max() <= torch.finfo(dtype).eps * theirs.abs().max()


def autocast_changes_nothing():
    q, k, v = drawn(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got = flash.tiled_attention(q, k, v, 2)
    same(got, attention(q, k, v)[0], torch.float32)


def blocks_are_those_with_something_to_see():
    for queries, keys in ((12, 12), (5, 7), (7, 5), (64, 64), (1, 9)):
        for block_size in ((4, 4), (3, 5), (5, 2)):
            for causal in (False, True):
                sees = later_hidden(queries, keys) if causal else torch.ones(queries, keys).bool()
                found, covered = flash.blocks(queries, keys, block_size, causal=causal), torch.zeros(queries, keys)
                for rows, columns in found:
                    covered[rows, columns] += 1
                    assert sees[rows, columns].any()
                assert covered.max() <= 1
                assert covered[sees].all()
                if not causal:
                    assert len(found) == math.ceil(queries / block_size[0]) * math.ceil(keys / block_size[1])
    assert len(flash.blocks(4096, 4096, 128, causal=True)) == 32 * 33 // 2


def no_more_blocks_are_computed_than_are_listed():
    q, k, v = drawn(64, 64)
    for causal in (False, True):
        visited = len(flash.blocks(64, 64, 16, causal=causal))
        with Largest() as forward:
            context = flash.tiled_attention(q, k, v, 16, causal=causal)
        with Largest() as backward:
            context.sum().backward()
        assert forward.calls[torch.ops.aten.bmm] == 2 * visited
        assert backward.calls[torch.ops.aten.bmm] == 5 * visited
        assert forward.calls[torch.ops.aten.exp] == 2 * visited


def no_operation_makes_more_than_a_block():
    q, k, v = drawn(96, 288)
    mask = numbers(B, 1, 96, 288, seed=3) > -1
    with Largest() as largest:
        flash.tiled_attention(q, k, v, (48, 72), mask=mask, causal=True).sum().backward()
    assert largest.values == B * H * 48 * 72


def nothing_is_kept_but_context_and_one_number_a_row():
    q, k, v = drawn(96, 288)
    mask, kept = numbers(96, 288, seed=3) > -1, []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        context = flash.tiled_attention(q, k, v, 32, mask=mask)
    known = {x.data_ptr() for x in (q, k, v, mask, context)}
    extra = [x for x in kept if x.data_ptr() not in known]
    assert [x.shape for x in extra] == [(B, H, 96, 1)]


CHECKS = (
    tiles_and_their_gradients_equal_the_whole,
    causal_is_that_of_the_last_tokens,
    gradients_are_those_of_finite_differences,
    large_scores_do_not_overflow,
    half_precision_sums_in_float32,
    autocast_changes_nothing,
    blocks_are_those_with_something_to_see,
    no_more_blocks_are_computed_than_are_listed,
    no_operation_makes_more_than_a_block,
    nothing_is_kept_but_context_and_one_number_a_row,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_agrees(check):
    check()


WHOLE, CAUSAL, NUMBERS, HALF, GRID, COUNT, SIZE, KEPT = (
    tiles_and_their_gradients_equal_the_whole, causal_is_that_of_the_last_tokens, large_scores_do_not_overflow,
    half_precision_sums_in_float32, blocks_are_those_with_something_to_see,
    no_more_blocks_are_computed_than_are_listed, no_operation_makes_more_than_a_block,
    nothing_is_kept_but_context_and_one_number_a_row,
)  # fmt: skip
FINITE = gradients_are_those_of_finite_differences
RIGHT = types.SimpleNamespace(**vars(flash))


def block_of_scores(read_mask=lambda mask, rows, columns: mask[rows, columns], causal=True, shift=0, corner=True):
    """Make _scaled_scores with a mistake: how the mask is read, and where the diagonal lies."""

    def scaled_scores(q, k, mask, is_causal, rows, columns):
        found = q[:, :, rows] @ k[:, :, columns].transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            whole = mask.expand(*q.shape[:2], q.size(2), k.size(2))
            found = found.masked_fill(
                ~read_mask(whole.permute(2, 3, 0, 1), rows, columns).permute(2, 3, 0, 1), -math.inf
            )
        if is_causal and causal:
            last_seen = torch.arange(rows.start, rows.stop) + (k.size(2) - q.size(2) if corner else 0) + shift
            found = found.masked_fill(torch.arange(columns.start, columns.stop) > last_seen[:, None], -math.inf)
        return found

    return scaled_scores


def without_a_maximum(q, k, v, block_size, *, mask=None, causal=False):
    """Add exponentials up as they are."""
    total, context = 0, 0
    for keys, values in zip(k.split(block_size, 2), v.split(block_size, 2), strict=True):
        exponentials = (q @ keys.transpose(-2, -1) / math.sqrt(q.size(-1))).exp()
        total, context = total + exponentials.sum(-1, keepdim=True), context + exponentials @ values
    return context / total


def nan_where_nothing_is_seen(q, k, v, block_size, *, mask=None, causal=False):
    """Divide 0 by the sum of no exponentials."""
    context = RIGHT.tiled_attention(q, k, v, block_size, mask=mask, causal=causal)
    return context if mask is None else context / mask.expand(*q.shape[:3], k.size(2)).any(-1, keepdim=True)


class Backward(flash._RecomputeBackward):
    """The backward pass written once more, with places for mistakes."""

    mean, scale, alone, kept_finite, block_size = True, True, "", True, None

    @classmethod
    def wrong(cls, **mistakes):
        return type("WrongBackward", (cls,), mistakes)

    @classmethod
    def apply(cls, *inputs):
        apply = type("Function", (torch.autograd.Function,), {
            "forward": staticmethod(flash._RecomputeBackward.forward),
            "backward": staticmethod(cls.gradients),
        }).apply  # fmt: skip
        return apply(*inputs)

    @classmethod
    def gradients(cls, ctx, d_context):
        q, k, v, context, log_sum, mask = ctx.saved_tensors
        if cls.kept_finite:
            log_sum = log_sum.masked_fill(log_sum.isneginf(), math.inf)
        d_q, d_k, d_v = (torch.zeros_like(x) for x in (q, k, v))
        mean = (d_context * context).sum(-1, keepdim=True) * cls.mean
        block_size = cls.block_size or ctx.block_size
        for rows, columns in flash._grid("", q.size(2), k.size(2), block_size, ctx.causal):
            weights = (flash._scaled_scores(q, k, mask, ctx.causal, rows, columns) - log_sum[:, :, rows]).exp()
            d_weights = d_context[:, :, rows] @ v[:, :, columns].transpose(-2, -1)
            d_scores = weights * (d_weights - mean[:, :, rows]) / (math.sqrt(q.size(-1)) if cls.scale else 1)
            parts = {
                "q": (d_q[:, :, rows], d_scores @ k[:, :, columns]),
                "k": (d_k[:, :, columns], d_scores.transpose(-2, -1) @ q[:, :, rows]),
                "v": (d_v[:, :, columns], weights.transpose(-2, -1) @ d_context[:, :, rows]),
            }
            for name, (total, part) in parts.items():
                total.copy_(part if name == cls.alone else total + part)
        return d_q, d_k, d_v, None, None, None, None, None


class ScoresKept(torch.autograd.Function):
    """Save all scores for the backward pass, which does without."""

    @staticmethod
    def forward(ctx, q, k, v, context, log_sum, mask, *how):
        ctx.save_for_backward(q @ k.transpose(-2, -1), q, k, v, context, log_sum, mask)
        return context.clone()


def grid(see=lambda rows, columns, later: columns.start < rows.stop + later, ragged=True, skip=True, tall=False):
    """Make _grid with a mistake: which blocks are left out, and how large they are."""

    def blocks(place, queries, keys, block_size, causal):
        height, width = block_size if isinstance(block_size, tuple) else (block_size, block_size)
        height = queries if tall else height
        starts = range(0, keys if ragged else keys - width + 1, width)
        rows = [slice(start, min(start + height, queries)) for start in range(0, queries, height)]
        columns = [slice(start, min(start + width, keys)) for start in starts]
        skips = causal and skip
        return [(r, c) for r in rows for c in columns if not skips or see(r, c, keys - queries)]

    return blocks


def skips_nothing_in(function):
    """Make _grid list all blocks when it is called by one function."""

    def blocks(place, queries, keys, block_size, causal):
        return RIGHT._grid(place, queries, keys, block_size, causal and sys._getframe(1).f_code.co_name != function)

    return blocks


# name: (the check that must see it, the wrong parts)
WRONG = {
    "mask ignored": (WHOLE, {"_scaled_scores": block_of_scores(lambda mask, r, c: torch.ones_like(mask[r, c]))}),
    "mask inverted": (WHOLE, {"_scaled_scores": block_of_scores(lambda mask, r, c: ~mask[r, c])}),
    "mask of the first rows": (WHOLE, {"_scaled_scores": block_of_scores(lambda mask, r, c: mask[:1, c])}),
    "causal ignored across the diagonal": (CAUSAL, {"_scaled_scores": block_of_scores(causal=False)}),
    "a token hidden from itself": (CAUSAL, {"_scaled_scores": block_of_scores(shift=-1)}),
    "the next token seen": (CAUSAL, {"_scaled_scores": block_of_scores(shift=1)}),
    "causal at the top left": (CAUSAL, {"_scaled_scores": block_of_scores(corner=False)}),
    "no maximum taken off": (NUMBERS, {"tiled_attention": without_a_maximum}),
    "NaN where nothing is seen": (WHOLE, {"tiled_attention": nan_where_nothing_is_seen}),
    "NaN in the backward pass": (WHOLE, {"_RecomputeBackward": Backward.wrong(kept_finite=False)}),
    "no mean taken off": (FINITE, {"_RecomputeBackward": Backward.wrong(mean=False)}),
    "gradient without a scale": (FINITE, {"_RecomputeBackward": Backward.wrong(scale=False)}),
    "keys of one block alone": (WHOLE, {"_RecomputeBackward": Backward.wrong(alone="k")}),
    "values of one block alone": (WHOLE, {"_RecomputeBackward": Backward.wrong(alone="v")}),
    "queries of one block alone": (WHOLE, {"_RecomputeBackward": Backward.wrong(alone="q")}),
    "sums in half precision": (HALF, {"_wide": lambda x: x}),
    "cast by autocast": (autocast_changes_nothing, {"_exact": lambda device: contextlib.nullcontext()}),
    "nothing skipped": (GRID, {"_grid": grid(skip=False)}),
    "one block too few": (GRID, {"_grid": grid(lambda rows, columns, later: columns.start < rows.start + later)}),
    "one block too many": (GRID, {"_grid": grid(lambda rows, columns, later: columns.start <= rows.stop + later)}),
    "ragged end lost": (GRID, {"_grid": grid(ragged=False)}),
    "skips nothing forward": (COUNT, {"_grid": skips_nothing_in("tiled_attention")}),
    "skips nothing backward": (COUNT, {"_grid": skips_nothing_in("backward")}),
    "queries not in blocks": (SIZE, {"_grid": grid(tall=True)}),
    "all scores backward": (SIZE, {"_RecomputeBackward": Backward.wrong(block_size=10**6)}),
    "scores kept": (KEPT, {"_RecomputeBackward": ScoresKept}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_versions_disagree(wrong):
    check, parts = WRONG[wrong]
    assert fails_with(check, flash, parts)


@pytest.mark.parametrize("check", [WHOLE, CAUSAL, NUMBERS, GRID, COUNT, KEPT], ids=lambda check: check.__name__)
def test_what_wrong_versions_are_made_with_is_right(check):
    parts = {"_scaled_scores": block_of_scores(), "_RecomputeBackward": Backward, "_grid": grid()}
    assert not fails_with(check, flash, parts)


@pytest.mark.slow
def test_sixteen_thousand_tokens():
    """All scores would be 1 GiB; forward and backward together hold a hundredth of that."""
    tokens = 16_384
    q, k, v = (numbers(1, 1, tokens, 16, seed=seed, dtype=torch.float32).requires_grad_() for seed in range(3))
    upstream, found = numbers(1, 1, tokens, 16, seed=3, dtype=torch.float32), []

    def run():
        context = flash.tiled_attention(q, k, v, 512, causal=True)
        found.extend((context.detach(), *torch.autograd.grad(context, (q, k, v), upstream)))

    peak = costs.peak_bytes(run)
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    wanted = (want.detach(), *torch.autograd.grad(want, (q, k, v), upstream))
    assert peak < 4 * tokens**2 / 64
    for mine, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5, rtol=1e-5)


def test_memory_grows_with_the_length_and_not_with_its_square():
    def peak(fn, tokens):
        return costs.peak_bytes(fn, *(torch.zeros(1, 2, tokens, 16, device="meta") for _ in range(3)))

    tiled = [peak(lambda q, k, v: flash.tiled_attention(q, k, v, 256), tokens) for tokens in (512, 1024, 2048)]
    whole = [peak(attention, tokens) for tokens in (512, 1024, 2048)]
    assert tiled[2] - tiled[1] == 2 * (tiled[1] - tiled[0])
    assert whole[2] > 3.5 * whole[1] > 12 * whole[0]


def test_one_head_of_one_sentence_is_enough():
    q, k, v = (x[:1, :1] for x in drawn())
    for causal in (False, True):
        got = flash.tiled_attention(q, k, v, 2, causal=causal)
        same(got, attention(q, k, v, later_hidden(T, S) if causal else None)[0])


def test_results_are_where_the_inputs_are(device):
    q, k, v = (x.detach().to(device).requires_grad_() for x in drawn())
    mask = later_hidden(T, S).to(device)
    got = flash.tiled_attention(q, k, v, 3, mask=mask, causal=True)
    want = attention(q, k, v, mask)[0]
    for mine, theirs in zip(torch.autograd.grad(got.sum(), (q, k, v)), torch.autograd.grad(want.sum(), (q, k, v)),
                            strict=True):  # fmt: skip
        assert torch.allclose(mine, theirs)
    assert torch.allclose(got, want)


def test_there_is_no_second_derivative():
    q, k, v = drawn()
    with pytest.raises(RuntimeError, match="tiled_attention has no second derivative"):
        torch.autograd.grad(flash.tiled_attention(q, k, v, 3).sum(), q, create_graph=True)


@pytest.mark.parametrize(("block_size", "got"), [((2, 0), "0"), ((2.5, 1), "2.5"), ("ab", "'ab'"), (None, "None")])
def test_blocks_that_cannot_be(block_size, got):
    q, k, v = drawn()
    for call in (lambda: flash.tiled_attention(q, k, v, block_size), lambda: flash.blocks(T, S, block_size)):
        with pytest.raises(ShapeError, match=f"block_size must be a positive int.*got block_size={got}$"):
            call()


def test_masks_that_cannot_be():
    q, k, v = drawn()
    with pytest.raises(ShapeError, match="tiled_attention: mask must be bool, True = may attend"):
        flash.tiled_attention(q, k, v, 3, mask=torch.zeros(T, S))
