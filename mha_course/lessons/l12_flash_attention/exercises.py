"""Lesson 12, FlashAttention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mha_course import flash
from mha_course.attention import attention
from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.inputs import AS_MANY_QUERIES, B, D, Draw, H, T, draw
from mha_course.exercises.operations import EXITS, Operation, Rule
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.mistakes import ROWS

MAXIMA = {"amax", "max", "maximum", "fmax", "aminmax", "cummax", "sort", "topk"}
EXPONENTIALS = {
    "exp", "exp_", "exp2", "pow", "logsumexp", "logcumsumexp", "softmax", "_softmax",
    "_log_softmax",
}  # fmt: skip
COMPUTES = MAXIMA | EXPONENTIALS | {"sum", "mean", "cumsum", "sub", "sub_"}


def _operands(operations: Sequence[Operation]) -> Iterator[Tensor]:
    """Yield the operands of computations, but not tensors that are only copied or sliced."""
    for operation in operations:
        if operation.name in COMPUTES:
            yield from operation.inputs


def _holds_too_many_scores(
    operations: Sequence[Operation], q: Tensor, k: Tensor, v: Tensor, size: int
) -> bool:
    """Return True if one tensor has scores of more keys than a block, or several tensors together
    have those of all keys.

    Smaller blocks than asked for are fine; so are a table with one number per block, contexts
    packed with their maximum and sum, and contexts of merged heads.
    """
    tokens, keys, dim = q.size(2), k.size(2), q.size(3)
    no_scores = {-(-keys // size), dim, dim + 1, dim + 2}  # widths
    widths = [
        (operation, width)
        for operation in operations
        if tokens in operation.output[-2:] and operation.output[-2:] != (tokens, q.size(1) * dim)
        if (width := sum(operation.output[-2:]) - tokens) not in no_scores
    ]
    too_wide = any(size < width <= keys for _, width in widths)
    too_many = any(width == size and operation.held >= keys // size for operation, width in widths)
    return too_wide or too_many or _reads_whole_rows(operations, k.mT)


def _is_library_kernel(operations: Sequence[Operation], *_: Any) -> bool:
    return any(
        "scaled_dot_product" in operation.name or "multi_head" in operation.name
        for operation in operations
    )


def _reads_whole_rows(operations: Sequence[Operation], scores: Tensor, *_: Any) -> bool:
    """Return True if anything is computed from all keys together."""
    return any(x.shape[-1:] == scores.shape[-1:] for x in _operands(operations))


def _reads_again(operations: Sequence[Operation], scores: Tensor, size: int) -> bool:
    """Return True if the maximum over all blocks comes before the first exponential: the sum then
    takes a second pass.
    """
    names = [operation.name for operation in operations]
    maxima = [at for at, name in enumerate(names) if name in MAXIMA]
    exponentials = [at for at, name in enumerate(names) if name in EXPONENTIALS]
    blocks = -(-scores.size(-1) // size)
    # All blocks in one tensor are read once, and need two exponentials: theirs and the factors'.
    if not maxima or not 2 < blocks <= len(exponentials):
        return False
    return maxima[-1] < exponentials[0]


def _leaves_torch(operations: Sequence[Operation], x: Tensor, *others: Any) -> bool:
    """Return True if all keys go to NumPy or to a list together."""
    keys = others[0].size(2) if len(others) > 1 else x.size(-1)
    return any(
        keys in x.shape[-2:] and x.is_floating_point()
        for operation in operations
        if operation.name in EXITS
        for x in operation.inputs
    )


def _has_no_such_block(operations: Sequence[Operation], scores: Tensor, *others: Any) -> bool:
    """Return True if no operand has an axis as long as a block."""
    return not any(others[-1] in x.shape for x in _operands(operations))


def _finite(largest: Tensor) -> Tensor:
    return largest.nan_to_num(neginf=0.0)


def _second(_: Tensor, new: Tensor) -> Tensor:
    return new


def _to_its_own_maximum(block: Tensor, _: Tensor) -> Tensor:
    return block - _finite(block.amax(-1, keepdim=True))


def _shrunk(old: Tensor, new: Tensor) -> Tensor:
    return (old - new).exp()


def _last_maximum_returned(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the last block's new maximum and its sum, losing all earlier sums."""
    last = scores.split(size, -1)[-1]
    return flash.online_softmax(last, size)


# The first maximum, the next, the sum's factor, the number subtracted, and the maximum kept.
OWN_STEPS = {
    "start": lambda: -math.inf,
    "larger": torch.maximum,
    "finite": _finite,
    "shrink_sum": _shrunk,
    "relative": torch.sub,
    "kept_maximum": _second,
}
# The context's rescaling factor, and what is done to it in the loop and after it.
CONTEXT_STEPS = {
    "shrink_context": _shrunk,
    "divide_block": lambda mixed, total: mixed,
    "divide": torch.div,
}


def _build_online(steps: Steps) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
    """Assemble the loop over a row's blocks."""
    s = Steps(**OWN_STEPS | vars(steps))

    def online_softmax(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
        largest = torch.full_like(scores[..., 0], s.start())
        total = torch.zeros_like(largest)
        for block in scores.split(size, -1):
            new = s.larger(largest, block.amax(-1))
            shift = s.finite(new)
            exponentials = s.relative(block, shift[..., None]).exp()
            total = total * s.shrink_sum(largest, shift) + exponentials.sum(-1)
            largest = s.kept_maximum(largest, new)
        return largest, total

    return vars(s).get("online_softmax", online_softmax)


def _zero_kept_but_put_back(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Keep 0 for -inf, and return -inf if nothing was visible."""
    zero_kept = Steps(kept_maximum=lambda _, new: _finite(new))
    largest, total = _build_online(zero_kept)(scores, size)
    return largest.where(total > 0, -math.inf), total


def _build_tiled(steps: Steps) -> Callable[[Tensor, Tensor, Tensor, int], Tensor]:
    s = Steps(**OWN_STEPS | CONTEXT_STEPS | vars(steps))

    def tiled_attention(q: Tensor, k: Tensor, v: Tensor, size: int) -> Tensor:
        largest = torch.full_like(q[..., :1], s.start())
        total = torch.zeros_like(largest)
        mixed = torch.zeros_like(q)
        for keys, values in zip(k.split(size, 2), v.split(size, 2), strict=True):
            scores = s.scale(s.scores(q, keys), q, k, k.size(1))
            new = s.larger(largest, scores.amax(-1, keepdim=True))
            shift = s.finite(new)
            exponentials = s.relative(scores, shift).exp()
            total = total * s.shrink_sum(largest, shift) + exponentials.sum(-1, keepdim=True)
            mixed = mixed * s.shrink_context(largest, shift) + s.weigh(exponentials, values)
            mixed = s.divide_block(mixed, total)
            largest = s.kept_maximum(largest, new)
        return s.divide(mixed, total)

    return vars(s).get("tiled_attention", tiled_attention)


def _grown(old: Tensor, new: Tensor) -> Tensor:
    return (new - old).exp()


def _grown_but_first(old: Tensor, new: Tensor) -> Tensor:
    return (new - old).exp().where(old.isfinite(), 0.0)


def _kept(*_: Tensor) -> Tensor:
    return torch.tensor(1.0)


def _softmax_of_blocks(q: Tensor, k: Tensor, v: Tensor, size: int) -> Tensor:
    """Add up the blocks' contexts, each with its own softmax."""
    pairs = zip(k.split(size, 2), v.split(size, 2), strict=True)
    contexts = [attention(q, keys, values)[0] for keys, values in pairs]
    return torch.stack(contexts).sum(0)


def _log_sums_added(q: Tensor, k: Tensor, v: Tensor, size: int) -> Tensor:
    """Merge the blocks' contexts by log-sum-exps that are added up like sums."""
    context, log_sum = torch.zeros_like(q), None
    for keys, values in zip(k.split(size, 2), v.split(size, 2), strict=True):
        scores = q @ keys.mT / math.sqrt(q.size(-1))
        of_block = scores.logsumexp(-1, keepdim=True)
        new = of_block if log_sum is None else log_sum + of_block
        old_share = torch.zeros_like(new) if log_sum is None else (log_sum - new).exp()
        context = old_share * context + (of_block - new).exp() * (scores.softmax(-1) @ values)
        log_sum = new
    return context


def _qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k, v narrower than a block, even with a column of ones, and many blocks of keys."""
    return draw(B, H, 7, 3, seed=1), draw(B, H, 52, 3, seed=2), draw(B, H, 52, 3, seed=3)


def _large_scores() -> tuple[Tensor, Tensor, Tensor, int]:
    q, k, v = _qkv()
    # all scores of sentence 0 are far below 0
    q[0] = 100 * q[0].abs()
    k[0] = -k[0].abs()
    return 4000 * q, k, v, 6


def _negative_scores() -> tuple[Tensor, int]:
    """Return scores below 0, far below in sentence 0, with some hidden, but no whole block."""
    scores = -1 - draw(B, H, T, 14, seed=2).abs()
    scores[..., 1::3] = scores[..., 1::3].masked_fill(scores[..., 1::3] < -2, -math.inf)
    # They differ even in float32, enough for a log-sum-exp to be the largest in its row.
    low = -1e5 - 32 * scores[0].flatten().argsort().argsort().view_as(scores[0])
    scores[0] = low.where(scores[0].isfinite(), -math.inf)
    return scores, 3


def _first_block_hidden() -> tuple[Tensor, int]:
    """Return scores below 0; some queries have their first block hidden, others a later one."""
    scores = -1 - 3 * draw(B, H, T, 11, seed=3).abs()
    scores[0, :, 1:, :4] = -math.inf
    scores[1, :, :2, 4:8] = -math.inf
    return scores, 4


def _first_keys_hidden() -> tuple[Tensor, Tensor, Tensor, int]:
    """Return keys whose first two blocks are hidden from some queries: their last number, -inf,
    meets a 1 in those queries. All other scores are far from 0 and exact in float32; the values are
    small, since a log-sum-exp of such scores is less exact.
    """
    q, k = ((4 * draw(B, H, n, 4, seed=n)).round() / 4 for n in (7, 52))
    v = draw(B, H, 52, 4, seed=3) / 64
    q[..., 3] = 1.0
    k[..., 3] = 1600.0
    k[0, :, :, 3] = -1600.0
    k[0, :, :10, 3] = k[1, 0, :10, 3] = -math.inf
    return q, k, v, 5


def _partials(scores: Tensor, v: Tensor, shares: int) -> tuple[Tensor, Tensor, Tensor]:
    """Attend to each of several parts of the keys separately."""
    maxima, sums, contexts = [], [], []
    for keys, values in zip(scores.chunk(shares, -1), v.chunk(shares, 2), strict=True):
        largest, total = flash.online_softmax(keys, keys.size(-1))
        exponentials = (keys - largest.nan_to_num(neginf=0.0)[..., None]).exp()
        maxima.append(largest)
        sums.append(total)
        contexts.append(exponentials @ values / total.where(total > 0, 1.0)[..., None])
    return torch.stack(maxima), torch.stack(sums), torch.stack(contexts)


def _some_are_empty() -> tuple[Tensor, Tensor, Tensor]:
    """Return partial results, some of them empty, and all of them for two queries."""
    scores = 2 * draw(B, H, T, 21, seed=4)
    scores[0, :, 1:3, :7] = -math.inf
    scores[1, 2, :, 7:] = -math.inf
    scores[1, 1, 3:] = -math.inf
    return _partials(scores, draw(B, H, 21, D, seed=5), 3)


def _whole_blocks(x: Tensor, size: int, dim: int = 2) -> Tensor:
    return x.narrow(dim, 0, x.size(dim) // size * size)


def _weighted(
    maxima: Tensor, sums: Tensor, contexts: Tensor, factor: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Merge partial results with their sums multiplied by another factor."""
    shares = sums * factor(maxima, maxima.amax(0))
    return (shares[..., None] * contexts).sum(0) / shares.sum(0)[..., None]


PARTIALS = [
    mistake("partials-averaged", merge_partials=lambda m, s, c: c.mean(0)),
    mistake("partials-summed", merge_partials=lambda m, s, c: c.sum(0)),
    mistake(
        "max-not-corrected",
        merge_partials=lambda m, s, c: _weighted(m, s, c, lambda m, _: torch.ones_like(m)),
    ),
    mistake(
        "/sums-ignored", merge_partials=lambda m, s, c: _weighted(m, torch.ones_like(s), c, _shrunk)
    ),
    mistake(
        "/sums-multiplied-twice", merge_partials=lambda m, s, c: _weighted(m, s * s, c, _shrunk)
    ),
    mistake(
        "/taken-as-undivided",
        merge_partials=lambda m, s, c: _weighted(m, s, c / s.clamp(min=1.0)[..., None], _shrunk),
    ),
    mistake(
        "/not-divided-by-total",
        merge_partials=lambda m, s, c: ((s * _shrunk(m, m.amax(0)))[..., None] * c).sum(0),
    ),
    mistake(
        "online-exponent-sign/partials", merge_partials=lambda m, s, c: _weighted(m, s, c, _grown)
    ),
    mistake(
        "softmax-unstable/partials",
        merge_partials=[
            lambda m, s, c: _weighted(m, s, c, lambda m, _: m.exp()),
            lambda m, s, c: _weighted(m, s, c, lambda m, _: m.exp()).nan_to_num(0.0),
            lambda m, s, c: _weighted(m, s, c, lambda m, _: (m - m.max()).exp()),
            lambda m, s, c: _weighted(m, s, c, lambda m, _: (m - m.max()).exp()).nan_to_num(0.0),
        ],
    ),
    mistake(
        "/largest-of-another-axis",
        merge_partials=lambda m, s, c: _weighted(
            m, s, c, lambda m, _: _to_its_own_maximum(m, m).exp()
        ),
    ),
    mistake("empty-share-nan", merge_partials=lambda m, s, c: _weighted(m, s, c, _shrunk)),
]


OUTSIDE = Rule(ROWS["/keys-leave-torch"], _leaves_torch)
BLOCKS = Rule(ROWS["block-size-ignored"], _has_no_such_block)
MISTAKES = [
    mistake("online-max-not-corrected", shrink_sum=_kept, only=("online_softmax",)),
    mistake("online-max-not-corrected/context", {"shrink_sum": _kept, "shrink_context": _kept}),
    mistake("sum-not-rescaled", shrink_sum=_kept, only=("tiled_attention",)),
    mistake("context-not-rescaled", shrink_context=_kept),
    mistake(
        "online-exponent-sign",
        {"shrink_sum": _grown, "shrink_context": _grown},
        {"shrink_sum": _grown_but_first, "shrink_context": _grown_but_first},
        shrink_sum=[_grown, _grown_but_first],
    ),
    mistake(
        "softmax-no-keepdim/block",
        online_softmax=lambda z, n: z.split(n, -1)[0] - z.split(n, -1)[0].amax(-1),
        tiled_attention=[
            lambda q, k, v, n: torch.maximum(q[..., :1], (q @ k[:, :, :n].mT).amax(-1)),
            lambda q, k, v, n: q @ k[:, :, :n].mT - (q @ k[:, :, :n].mT).amax(-1),
        ],
    ),
    mistake(
        "online-max-from-zero",
        start=[lambda start=start: start for start in (0.0, -100.0, -1e4, -1e9, -1e30)],
    ),
    mistake(
        "maximum-of-block",
        {"larger": _second, "finite": torch.clone},
        larger=_second,
        relative=_to_its_own_maximum,
    ),
    mistake(
        "maximum-not-kept",
        kept_maximum=lambda old, _: old,
        online_softmax=_last_maximum_returned,
    ),
    mistake(
        "zero-kept-as-maximum",
        kept_maximum=lambda _, new: _finite(new),
        online_softmax=_zero_kept_but_put_back,
    ),
    mistake(
        "log-sum-exp-returned",
        online_softmax=[
            lambda z, n: (flash.online_softmax(z, n)[0], z.logsumexp(-1)),
            lambda z, n: (flash.online_softmax(z, n)[0], flash.online_softmax(z, n)[1].log()),
        ],
    ),
    mistake("log-sums-added", tiled_attention=_log_sums_added),
    mistake("/not-divided", divide=lambda mixed, _: mixed),
    mistake(
        "/divided-in-the-loop",
        {"divide_block": torch.div},
        {"divide_block": torch.div, "divide": lambda mixed, _: mixed},
    ),
    mistake(
        "partials-averaged/tiles",
        tiled_attention=[
            lambda q, k, v, n: _softmax_of_blocks(q, k, v, n) / -(-k.size(2) // n),
            _softmax_of_blocks,
        ],
    ),
    mistake(
        "softmax-unstable/tiled",
        {"finite": torch.zeros_like, "shrink_sum": _kept, "shrink_context": _kept},
    ),
    mistake(
        "/block-empty", crashes="to have non-zero size", only=("online_softmax", "tiled_attention")
    ),
    mistake(
        "/first-block-only",
        online_softmax=lambda z, n: flash.online_softmax(z[..., :n], n),
        tiled_attention=lambda q, k, v, n: flash.tiled_attention(q, k[:, :, :n], v[:, :, :n], n),
    ),
    mistake(
        "hidden-block-nan",
        finite=lambda largest: largest,
        online_softmax=lambda z, n: [
            x.nan_to_num(0.0, neginf=-math.inf)
            for x in _build_online(Steps(finite=torch.clone))(z, n)
        ],
        tiled_attention=lambda *given: _build_tiled(Steps(finite=torch.clone))(*given).nan_to_num(),
    ),
    mistake(
        "online-last-block-dropped",
        online_softmax=lambda z, n: flash.online_softmax(_whole_blocks(z, n, 3), n),
        tiled_attention=lambda q, k, v, n: flash.tiled_attention(
            q, _whole_blocks(k, n), _whole_blocks(v, n), n
        ),
    ),
    *PARTIALS,
]


def in_three_axes(answer: Callable[..., Any], scores: Tensor, size: int) -> Any:
    """Return maxima and sums as (B, H, T), also for scores (T, S).

    A maximum of -inf gets no gradient: any of the equal keys could get it.
    """

    def with_axes(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        x = x.masked_fill(x == -math.inf, -math.inf)
        return x if scores.dim() > 2 else x.unflatten(-1, (1, 1, -1))

    result = answer(scores, size)
    return tuple(map(with_axes, result)) if isinstance(result, tuple | list) else with_axes(result)


def _drawn_blocks(d: Draw) -> tuple[Tensor, Tensor, Tensor, int]:
    width = d.D - 1 or 1
    q = d.normal(d.B, d.H, d.T, width)
    k = d.normal(d.B, d.H, 8 * d.S - 7, width)
    return q, k, d.normal(*k.shape), d.picks.choice((1, 2, 3, 7))


def _drawn_partials(d: Draw) -> tuple[Tensor, Tensor, Tensor]:
    maxima = 3 * d("RBHT")
    sums = 1 + d("RBHT").exp()
    contexts = d("RBHTD")
    empty = (d("RBHT") > 1.0) & (d.R > 1)
    empty[:, 0, 0, 0] = d.number % 3 == 1
    return (
        maxima.masked_fill(empty, -math.inf),
        sums.masked_fill(empty, 0.0),
        contexts.masked_fill(empty[..., None], 0.0),
    )


EXERCISES = [
    Exercise(
        flash.online_softmax,
        "Your sum of exponentials is relative to an old maximum, and a larger score arrives. What "
        "corrects the sum?",
        "Go through the blocks with `split`. In each, find the new maximum, rescale the old sum, "
        "and add the block's own exponentials. Begin with -inf and 0.",
        "A block is (…, block_size), the last one perhaps shorter. The running maximum and sum "
        "are (…), and so is the factor exp(old maximum - new maximum). While a row has seen "
        "nothing but -inf, subtract 0 instead: -inf - (-inf) is NaN.",
        line="for block in scores.split(block_size, dim=-1):\n"
        "    new_max = torch.maximum(running_max, block.amax(-1))\n"
        "    m = new_max.nan_to_num(neginf=0.0)\n"
        "    running_sum = running_sum * (running_max - m).exp()\n"
        "    running_sum += (block - m[..., None]).exp().sum(-1)\n"
        "    running_max = new_max",
        special_cases=[
            ("", lambda: (3 * draw(B, H, T, 11, seed=1), 4)),
            (
                "Here all scores are negative, in one sentence near -100,000, and some keys are "
                "hidden with -inf.",
                _negative_scores,
            ),
            (
                "Here all scores are negative, and all keys of the first block are hidden for some "
                "queries.",
                _first_block_hidden,
            ),
            (
                "Here one query sees nothing: all of its scores are -inf.",
                lambda: (draw(B, H, T, 11, seed=4).index_fill(2, torch.tensor(3), -math.inf), 4),
            ),
        ],
        drawn=lambda d: (
            3 * d.normal(*d.shape("T" if d.kind == AS_MANY_QUERIES else "BHT"), 3 * d.S - 2),
            d.picks.choice((1, 2, 3, 5)),
        ),
        axes={"maximum": "B H T", "sum": "B H T"},
        # Gradients of logaddexp are NaN if a whole block is hidden.
        allows=("no gradient",),
        run=in_three_axes,
        steps=("online_softmax", *OWN_STEPS),
        build=_build_online,
        done="You can take the softmax of a row without ever holding all of it. Sort the scores, "
        "largest first: which factor is then always 1?",
        rules=(
            Rule(ROWS["online-whole-row"], _reads_whole_rows),
            Rule(ROWS["/blocks-read-twice"], _reads_again),
            OUTSIDE,
            BLOCKS,
        ),
    ),
    Exercise(
        flash.tiled_attention,
        "A context is one sum over the keys divided by another. What can be summed block by "
        "block, and when do you divide?",
        "As in `online_softmax`, with one more running sum: exponentials times values. Rescale "
        "both when the maximum grows. Divide once, at the end. Don't forget to scale.",
        "A block of keys has scores (B, H, T, block_size). The running maximum and sum are (B, H, "
        "T, 1), and the running context is (B, H, T, D).",
        line="new_max = torch.maximum(running_max, scores.amax(-1, keepdim=True))\n"
        "m = new_max.nan_to_num(neginf=0.0)\n"
        "factor, shares = (running_max - m).exp(), (scores - m).exp()\n"
        "running_sum = running_sum * factor + shares.sum(-1, keepdim=True)\n"
        "context = context * factor + shares @ v_block\n"
        "running_max = new_max",
        special_cases=[
            ("", lambda: (*_qkv(), 5)),
            (
                "Here the scores are in the thousands, and in one sentence all of them are far "
                "below 0.",
                _large_scores,
            ),
            (
                "Here the first two blocks are hidden in one sentence, and in one head of the "
                "other: the scores of their keys are -inf. The other scores are near -800 in the "
                "one sentence and near 800 in the other.",
                _first_keys_hidden,
            ),
        ],
        drawn=_drawn_blocks,
        axes="B H T D",
        steps=("scores", "scale", "weigh", "tiled_attention", *OWN_STEPS, *CONTEXT_STEPS),
        build=_build_tiled,
        allows=("no gradient",),
        done="You can attend without ever holding the table of scores. Change the block size, and "
        "see that the context stays the same.",
        rules=(
            Rule(ROWS["library-kernel"], _is_library_kernel),
            Rule(ROWS["online-whole-row/tiles"], _holds_too_many_scores),
            OUTSIDE,
            BLOCKS,
        ),
    ),
    Exercise(
        flash.merge_partials,
        "Two shares of the keys gave two contexts. With which weights do you mix them to get the "
        "context of all keys?",
        "A context times its own sum is the sum of exponentials times values, as it was before "
        "the division. You can add those of all shares once they are relative to the same maximum.",
        "The largest maximum is (B, H, T). The weights sums * exp(maxima - largest) are (K, B, H, "
        "T), and each multiplies D numbers of a context. Where the largest is -inf, subtract 0, "
        "and where the weights sum to 0, divide by 1.",
        line="largest = maxima.amax(0)  # (B, H, T)\n"
        "m = largest.nan_to_num(neginf=0.0)\n"
        "shares = sums * (maxima - m).exp()  # (K, B, H, T)\n"
        "total = shares.sum(0)\n"
        "context = (shares[..., None] * contexts).sum(0)  # (B, H, T, D)\n"
        "return context / total.masked_fill(total == 0, 1.0)[..., None]",
        special_cases=[
            ("", lambda: _partials(2 * draw(B, H, T, 21, seed=1), draw(B, H, 21, D, seed=2), 3)),
            (
                "Here the maxima are in the thousands.",
                lambda: _partials(4000 * draw(B, H, T, 21, seed=6), draw(B, H, 21, D, seed=2), 3),
            ),
            (
                "Here some shares are empty, with maximum -inf, sum 0 and context 0, and for some "
                "queries all are.",
                _some_are_empty,
            ),
        ],
        drawn=_drawn_partials,
        axes="B H T D",
        allows=("nan gradient",),  # 0 / 0, fixed afterwards
        done="You can split the keys into shares and merge the results. Merge in two steps, pairs "
        "first: the result is the same.",
    ),
]

LESSON = Lesson(12, "FlashAttention", EXERCISES)
