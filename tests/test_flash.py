"""Attention in blocks: values, gradients, memory, against the whole, PyTorch, float64."""

import math
from unittest import mock

import pytest
import torch
from rewriting import Largest, fails_with, numbers, refused, same, wrong_versions
from torch.nn import functional as F

from mha_course import flash
from mha_course.attention import attention
from mha_course.errors import ShapeError

B, T, S, H, D, WIDTH = 2, 5, 7, 4, 6, 9  # values have a width of their own
BLOCKS = (1, (2, 3), (4, 1), 20)


def bottom_right(queries, keys):
    """What the queries see when they are the last of all tokens."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def drawn(queries=T, keys=S, dtype=torch.float64):
    sizes = ((queries, D), (keys, D), (keys, WIDTH))
    return [
        numbers(B, H, *size, seed=seed, dtype=dtype).requires_grad_()
        for seed, size in enumerate(sizes)
    ]


def masks_of(queries, keys):
    """Masks of each shape that is allowed; some rows see nothing."""
    full = numbers(B, H, queries, keys, seed=7) > 0
    full[0, 1, 2] = False
    nothing = torch.zeros(queries, keys).bool()
    return [None, full, full[0, 1], full[:, :1], full[:1, :, :1], full[..., :1], nothing]


def test_online_softmax_is_the_maximum_and_the_sum_of_all():
    scores = 9 * numbers(B, T, S)
    scores[0, 1], scores[1, 0, :4] = -math.inf, -math.inf
    for given in (scores, scores[..., :1], scores[1, 2]):
        for block_size in (1, 3, 20):
            maximum, total = flash.online_softmax(given, block_size)
            same(maximum, given.amax(-1))
            same(maximum + total.log(), given.logsumexp(-1))


def test_online_softmax_takes_the_maximum_of_one_block_at_a_time():
    amax = torch.Tensor.amax
    widths = []

    def spy(x, dim):
        widths.append(x.size(dim))
        return amax(x, dim)

    with mock.patch.object(torch.Tensor, "amax", spy):
        flash.online_softmax(numbers(B, T, S), 3)
    assert widths == [3, 3, 1]


@pytest.mark.parametrize("factor", [1, 2000])
def test_partials_over_pieces_of_the_keys_merge_to_the_whole(factor):
    q, k, v = (x.detach() for x in drawn())
    q *= factor  # some scores' powers overflow unless the maximum is taken off
    mask = masks_of(T, S)[1]  # with rows that see nothing, in all pieces or in one
    scores = (q @ k.mT / math.sqrt(D)).masked_fill(~mask, -math.inf)
    pieces = [slice(0, 1), slice(1, 4), slice(4, S)]
    sums = [flash.online_softmax(scores[..., piece], 2) for piece in pieces]
    contexts = [attention(q, k[:, :, at], v[:, :, at], mask[..., at])[0] for at in pieces]
    merged = flash.merge_partials(*map(torch.stack, zip(*sums, strict=True)), torch.stack(contexts))
    same(merged, attention(q, k, v, mask)[0])


def test_tiles_and_their_gradients_equal_the_whole():
    for queries, keys in ((T, S), (S, S), (S, T)):
        upstream = numbers(B, H, queries, WIDTH, seed=5)
        for mask in masks_of(queries, keys):
            for causal in (False, True):
                q, k, v = drawn(queries, keys)
                both = bottom_right(queries, keys) if causal else torch.ones(queries, keys).bool()
                want = attention(q, k, v, both if mask is None else both & mask)[0]
                gradients = torch.autograd.grad(want, (q, k, v), upstream)
                for block_size in BLOCKS:
                    got = flash.tiled_attention(q, k, v, block_size, mask=mask, causal=causal)
                    same(got, want)
                    for mine, theirs in zip(
                        torch.autograd.grad(got, (q, k, v), upstream), gradients, strict=True
                    ):
                        same(mine, theirs)


def test_half_precision_sums_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        rounded = [x.detach().to(dtype) for x in drawn(30, 2000)]
        halves = [x.clone().requires_grad_() for x in rounded]
        doubles = [x.double().requires_grad_() for x in rounded]
        got = flash.tiled_attention(*halves, (30, 100))
        want = F.scaled_dot_product_attention(*doubles)
        upstream = torch.ones_like(got)
        pairs = [(got, want), *zip(torch.autograd.grad(got, halves, upstream),
                                   torch.autograd.grad(want, doubles, upstream.double()),
                                   strict=True)]  # fmt: skip
        for mine, theirs in pairs:
            assert mine.dtype == dtype
            assert (mine.double() - theirs).abs().max() <= torch.finfo(
                dtype
            ).eps * theirs.abs().max()


def test_autocast_changes_nothing():
    q, k, v = drawn(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got = flash.tiled_attention(q, k, v, 2)
    same(got, attention(q, k, v)[0], torch.float32)


def test_blocks_are_those_with_something_to_see():
    for queries, keys in ((12, 12), (5, 7), (7, 5), (64, 64), (1, 9)):
        for block_size in ((4, 4), (3, 5), (5, 2)):
            for causal in (False, True):
                sees = bottom_right(queries, keys) if causal else torch.ones(queries, keys).bool()
                found = flash.blocks(queries, keys, block_size, causal=causal)
                covered = torch.zeros(queries, keys)
                for rows, columns in found:
                    covered[rows, columns] += 1
                    assert sees[rows, columns].any()
                assert covered.max() <= 1
                assert covered[sees].all()
                if not causal:
                    assert len(found) == math.ceil(queries / block_size[0]) * math.ceil(
                        keys / block_size[1]
                    )
    assert len(flash.blocks(4096, 4096, 128, causal=True)) == 32 * 33 // 2


def test_no_more_blocks_are_computed_than_are_listed():
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


def test_no_operation_makes_more_than_a_block():
    q, k, v = drawn(96, 288)
    mask = numbers(B, 1, 96, 288, seed=3) > -1
    with Largest() as largest:
        flash.tiled_attention(q, k, v, (48, 72), mask=mask, causal=True).sum().backward()
    assert largest.values == B * H * 48 * 72


def test_nothing_is_kept_but_context_and_one_number_a_row():
    q, k, v = drawn(96, 288)
    mask, kept = numbers(96, 288, seed=3) > -1, []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        context = flash.tiled_attention(q, k, v, 32, mask=mask)
    known = {x.data_ptr() for x in (q, k, v, mask, context)}
    assert [x.shape for x in kept if x.data_ptr() not in known] == [(B, H, 96, 1)]


scores, backward = flash._scaled_scores, flash._RecomputeBackward.backward
LATER = "last_seen - columns.start + 1"
# Which test must catch each wrong line: {the test: {what is wrong: (function, old, new)}}.
WRONG = {
    test_tiles_and_their_gradients_equal_the_whole: {
        "mask ignored": (scores, "if mask is not None", "if False"),
        "mask inverted": (scores, "(~mask", "(mask"),
        "gradient of one block alone": (backward, "ctx.causal):", "ctx.causal)[-1:]:"),
        "NaN where nothing is seen": (flash._finite, ".masked_fill(highest.isneginf(), 0.0)", ""),
        "causal ignored across the diagonal": (scores, "if causal and", "if False and"),
        "a token hidden from itself": (scores, LATER, f"{LATER} - 1"),
        "the next token seen": (scores, LATER, f"{LATER} + 1"),
        "causal at the top left": (scores, "rows.start + k.size(2) - q.size(2)", "rows.start"),
    },
    test_half_precision_sums_in_float32: {
        "sums in half precision": (flash._wide, "torch.promote_types(x.dtype, torch.float32)", "x")
    },
    test_autocast_changes_nothing: {
        "cast by autocast": (flash._exact, " if available else nullcontext()", " and nullcontext()")
    },
    test_blocks_are_those_with_something_to_see: {
        "nothing skipped": (flash._grid, "if not causal or", "if True or")
    },
    test_nothing_is_kept_but_context_and_one_number_a_row: {
        "scores kept": (flash._RecomputeBackward.forward, "log_sum, mask)", "log_sum, q @ k.mT)")
    },
}


@pytest.mark.filterwarnings("ignore")
@wrong_versions(WRONG)
def test_wrong_lines_disagree(check, edit):
    assert fails_with(check, *edit)


def test_there_is_no_second_derivative():
    q, k, v = drawn()
    with pytest.raises(RuntimeError, match="tiled_attention has no second derivative"):
        torch.autograd.grad(flash.tiled_attention(q, k, v, 3).sum(), q, create_graph=True)


@pytest.mark.parametrize(
    ("block_size", "got"), [((2, 0), "0"), ((2.5, 1), "2.5"), ("ab", "'ab'"), (None, "None")]
)
def test_blocks_that_cannot_be(block_size, got):
    q, k, v = drawn()
    for call in (
        lambda: flash.tiled_attention(q, k, v, block_size),
        lambda: flash.blocks(T, S, block_size),
    ):
        with pytest.raises(
            ShapeError, match=f"block_size must be a positive int.*got block_size={got}$"
        ):
            call()


ERRORS = {
    "online_softmax: scores must be floating point. expected a float dtype, got torch.int64, fix: "
    "scores.float()":
        lambda: flash.online_softmax(torch.zeros(T, S).long(), 2),
    "merge_partials: sums has the wrong T. expected (K=3, B=2, H=4, T=5), got (K=3, B=2, H=4, T=7)":
        lambda: flash.merge_partials(torch.zeros(3, B, H, T), torch.zeros(3, B, H, S),
            torch.zeros(3, B, H, T, D)),
    "online_softmax: block_size must be a positive int. expected block_size >= 1, got block_size=0":
        lambda: flash.online_softmax(torch.zeros(T, S), 0),
    "tiled_attention: mask must be bool, True = may attend. expected torch.bool, got "
    "torch.float32, fix: mask.bool() if it holds 1 for may attend, mask == 0 if it is additive (0 "
    "and -inf)":
        lambda: flash.tiled_attention(*drawn(), 3, mask=torch.zeros(T, S)),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_errors_say_what_and_how(message):
    refused(ERRORS[message], message)


@pytest.mark.parametrize("scores", [torch.zeros(T, 0), torch.tensor(1.0)])
def test_there_must_be_a_key(scores):
    message = "online_softmax: there must be a key to attend to. expected S >= 1, got S=0"
    refused(lambda: flash.online_softmax(scores, 2), message)
