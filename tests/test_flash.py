"""Attention in blocks: values, gradients, memory and what is skipped, against the whole, PyTorch and float64."""

import math

import pytest
import torch
from rewriting import Largest, fails, numbers, one_thread, rewritten, same  # noqa: F401
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


# Each check takes the room, and holds it against an authority.


def tiles_and_their_gradients_equal_the_whole(room):
    for queries, keys in ((T, S), (S, S), (S, T)):
        upstream = numbers(B, H, queries, WIDTH, seed=5)
        for mask in masks_of(queries, keys):
            for causal in (False, True):
                q, k, v = drawn(queries, keys)
                both = later_hidden(queries, keys) if causal else torch.ones(queries, keys).bool()
                want = attention(q, k, v, both if mask is None else both & mask)[0]
                gradients = torch.autograd.grad(want, (q, k, v), upstream)
                for block_size in BLOCKS:
                    got = room.tiled_attention(q, k, v, block_size, mask=mask, causal=causal)
                    same(got, want)
                    for mine, theirs in zip(torch.autograd.grad(got, (q, k, v), upstream), gradients, strict=True):
                        same(mine, theirs)


def causal_is_that_of_the_last_tokens(room):
    q, k, v = (x.detach() for x in drawn(keys=S, dtype=torch.float32))
    same(room.tiled_attention(q, k, v[..., :D], 2, causal=True),
         F.scaled_dot_product_attention(q, k, v[..., :D], causal_lower_right(T, S)), torch.float32)  # fmt: skip
    q, k, v = (x.detach() for x in drawn(S, S))
    same(room.tiled_attention(q, k, v, 2, causal=True), F.scaled_dot_product_attention(q, k, v, is_causal=True))


def gradients_are_those_of_finite_differences(room):
    inputs = [numbers(1, 2, n, 2, seed=seed).requires_grad_() for seed, n in enumerate((3, 4, 4))]
    mask = torch.tensor([[True, True, False, True], [False] * 4, [True, False, True, True]])
    for how in ({}, {"mask": mask}, {"causal": True}, {"mask": mask, "causal": True}):
        assert torch.autograd.gradcheck(lambda q, k, v, how=how: room.tiled_attention(q, k, v, (2, 3), **how), inputs)


def large_scores_do_not_overflow(room):
    q, k, v = (x.detach() * 100 for x in drawn(dtype=torch.float32))
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert torch.allclose(room.tiled_attention(q, k, v, 2).double(), want, rtol=1e-2, atol=1e-1)


def half_precision_sums_in_float32(room):
    for dtype in (torch.float16, torch.bfloat16):
        rounded = [x.detach().to(dtype) for x in drawn(30, 2000)]
        halves, doubles = ([x.to(kind).requires_grad_() for x in rounded] for kind in (dtype, torch.float64))
        got, want = room.tiled_attention(*halves, (30, 100)), F.scaled_dot_product_attention(*doubles)
        upstream = torch.ones_like(got)
        pairs = [(got, want), *zip(torch.autograd.grad(got, halves, upstream),
                                   torch.autograd.grad(want, doubles, upstream.double()), strict=True)]  # fmt: skip
        for mine, theirs in pairs:
            assert mine.dtype == dtype
            assert (mine.double() - theirs).abs().max() <= torch.finfo(dtype).eps * theirs.abs().max()


def autocast_changes_nothing(room):
    q, k, v = drawn(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got = room.tiled_attention(q, k, v, 2)
    same(got, attention(q, k, v)[0], torch.float32)


def blocks_are_those_with_something_to_see(room):
    for queries, keys in ((12, 12), (5, 7), (7, 5), (64, 64), (1, 9)):
        for block_size in ((4, 4), (3, 5), (5, 2)):
            for causal in (False, True):
                sees = later_hidden(queries, keys) if causal else torch.ones(queries, keys).bool()
                found, covered = room.blocks(queries, keys, block_size, causal=causal), torch.zeros(queries, keys)
                for rows, columns in found:
                    covered[rows, columns] += 1
                    assert sees[rows, columns].any()
                assert covered.max() <= 1
                assert covered[sees].all()
                if not causal:
                    assert len(found) == math.ceil(queries / block_size[0]) * math.ceil(keys / block_size[1])
    assert len(room.blocks(4096, 4096, 128, causal=True)) == 32 * 33 // 2


def no_more_blocks_are_computed_than_are_listed(room):
    q, k, v = drawn(64, 64)
    for causal in (False, True):
        visited = len(room.blocks(64, 64, 16, causal=causal))
        with Largest() as forward:
            context = room.tiled_attention(q, k, v, 16, causal=causal)
        with Largest() as backward:
            context.sum().backward()
        assert forward.calls[torch.ops.aten.bmm] == 2 * visited
        assert backward.calls[torch.ops.aten.bmm] == 5 * visited
        assert forward.calls[torch.ops.aten.exp] == 2 * visited


def no_operation_makes_more_than_a_block(room):
    q, k, v = drawn(96, 288)
    mask = numbers(B, 1, 96, 288, seed=3) > -1
    with Largest() as largest:
        room.tiled_attention(q, k, v, (48, 72), mask=mask, causal=True).sum().backward()
    assert largest.values == B * H * 48 * 72


def nothing_is_kept_but_context_and_one_number_a_row(room):
    q, k, v = drawn(96, 288)
    mask, kept = numbers(96, 288, seed=3) > -1, []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        context = room.tiled_attention(q, k, v, 32, mask=mask)
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
    check(flash)


WHOLE, CAUSAL, NUMBERS, HALF, GRID, COUNT, SIZE, KEPT = (
    tiles_and_their_gradients_equal_the_whole, causal_is_that_of_the_last_tokens, large_scores_do_not_overflow,
    half_precision_sums_in_float32, blocks_are_those_with_something_to_see,
    no_more_blocks_are_computed_than_are_listed, no_operation_makes_more_than_a_block,
    nothing_is_kept_but_context_and_one_number_a_row,
)  # fmt: skip
# name: (what is broken, by what, the check that must see it)
WRONG = {
    "mask ignored": ("    if mask is not None:\n", "    if False:\n", WHOLE),
    "mask inverted": ("masked_fill(~sees", "masked_fill(sees", WHOLE),
    "mask of the first rows": ("mask[..., rows if mask.size(-2) > 1 else slice(None),", "mask[..., :1,", WHOLE),
    "causal ignored across the diagonal": ("if causal and columns.stop", "if False and columns.stop", CAUSAL),
    "a token hidden from itself": ("last_seen - columns.start + 1)", "last_seen - columns.start)", CAUSAL),
    "the next token seen": ("last_seen - columns.start + 1)", "last_seen - columns.start + 2)", CAUSAL),
    "causal at the top left": ("rows.start + k.size(2) - q.size(2)", "rows.start", CAUSAL),
    "no maximum taken off": ("torch.maximum(running_max[:, :, rows], scaled_scores.amax(-1, keepdim=True))",
                             "torch.zeros_like(running_max[:, :, rows])", NUMBERS),
    "NaN where nothing is seen": ("running_sum.masked_fill(running_sum == 0, 1.0)", "running_sum", WHOLE),
    "NaN on the way back": ("log_sum.masked_fill(log_sum.isneginf(), math.inf)", "log_sum", WHOLE),
    "no mean taken off": ("(d_weights - mean[:, :, rows])", "d_weights", gradients_are_those_of_finite_differences),
    "gradient without a scale": ("(d_weights - mean[:, :, rows]) / math.sqrt(q.size(-1))",
                                 "(d_weights - mean[:, :, rows])", gradients_are_those_of_finite_differences),
    "keys of one block alone": ("d_k[:, :, columns] +=", "d_k[:, :, columns] =", WHOLE),
    "values of one block alone": ("d_v[:, :, columns] +=", "d_v[:, :, columns] =", WHOLE),
    "queries of one block alone": ("d_q[:, :, rows] +=", "d_q[:, :, rows] =", WHOLE),
    "sums in half precision": ("x.to(torch.promote_types(x.dtype, torch.float32))", "x", HALF),
    "cast by autocast": ("_exact(q.device.type)", "nullcontext()", autocast_changes_nothing),
    "nothing skipped": ("if not causal or c.start", "if True or c.start", GRID),
    "one block too few": ("c.start < r.stop", "c.start < r.start", GRID),
    "one block too many": ("c.start < r.stop", "c.start <= r.stop", GRID),
    "ragged end lost": ("range(0, keys, width)", "range(0, keys - width + 1, width)", GRID),
    "skips nothing forward": ("q.size(2), k.size(2), block_size, causal)", "q.size(2), k.size(2), block_size, False)",
                              COUNT),
    "skips nothing backward": ("ctx.block_size, ctx.causal)", "ctx.block_size, False)", COUNT),
    "queries not in blocks": ("block_size if isinstance", "(queries, block_size[1]) if isinstance", SIZE),
    "all scores backward": ("ctx.block_size, ctx.causal)", "10**6, ctx.causal)", SIZE),
    "scores kept": ("ctx.save_for_backward(q, k, v, context,",
                    "ctx.more = ctx.save_for_backward(q @ k.mT, q, k, v, context,", KEPT),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_versions_disagree(wrong):
    before, after, check = WRONG[wrong]
    assert fails(check, rewritten(flash, before, after))


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
