"""Lesson 8, Masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mha_course import masks
from mha_course.attention import attention, merge_heads, split_heads
from mha_course.errors import require_shape
from mha_course.exercises.inputs import (
    AS_MANY_QUERIES,
    MORE_QUERIES,
    C,
    Draw,
    H,
    S,
    T,
    draw,
    square,
)
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.experiments.leakage import find_leaks
from mha_course.mistakes import ROWS


def in_two_axes(answer: Callable[..., Any], mask: Tensor, *others: Any) -> Any:
    """Return the result for a mask (B, 1, T, S) as (B*T, S), for a mask (T, S) unchanged."""
    result = answer(mask, *others)
    if mask.dim() == 2 or not isinstance(result, Tensor):
        return result
    require_shape("Your answer", "the result", result, dict(zip("BHTS", mask.shape, strict=True)))
    return result.flatten(0, -2)


def with_dtype(answer: Callable[..., Any], mask: Tensor, dtype: torch.dtype) -> Any:
    """Return an additive mask, and False if only its dtype is wrong."""
    result = in_two_axes(answer, mask, dtype)
    target = in_two_axes(_additive, mask)
    differs = isinstance(result, Tensor) and result.dtype != dtype
    return result, torch.tensor(not (differs and torch.equal(result.double(), target)))


def _finite_or_other_dtype(
    answer: Callable[..., Any], mask: Tensor, dtype: torch.dtype
) -> tuple[str, str] | None:
    result, fits = with_dtype(answer, mask, dtype)
    if result.dtype == torch.bool:
        return "dtype-ignored", (
            "The result is torch.bool, which holds True and False, not numbers: -inf becomes True "
            "in it. Start from torch.zeros(mask.shape, dtype=dtype)."
        )
    hidden = result[~mask]
    if not result[mask].any() and hidden.isfinite().all() and hidden.max() < -10:
        return "masked-row-uniform", (
            f"Hidden keys got {float(hidden[0]):.3g}, which is finite. In a row with nothing to "
            "see, all keys then get the same weight. Use -inf."
        )
    if fits:
        return None
    return "dtype-ignored", (
        f"The numbers are right, but they are {result.dtype}, and you were asked for {dtype}, the "
        f"dtype of the scores that they are added to. {ROWS['dtype-ignored'].why}"
    )


READINGS = {  # of each convention: the one it is mistaken for, and its meaning
    "sdpa": ('as "multihead"', "There True means may attend, as everywhere in this course: leave "
                               "the mask as it is."),
    "multihead": ('as "sdpa"', "nn.MultiheadAttention hides where the mask is True: invert "
                               "it with ~."),
    "seaborn": ('as "sdpa"', "Seaborn leaves a cell empty where the mask is True: invert it "
                             "with ~."),
    "additive": ("incorrectly", "Adding 0 leaves a score unchanged, and adding -inf hides it: "
                                "compare with 0."),
}  # fmt: skip


def _misread(answer: Callable[..., Any], *_: Any) -> tuple[str, str] | None:
    """Find conventions read as their opposite, unless all of them were."""
    wrong = []
    read = 0
    for convention, mask in WILD.items():
        try:
            converted = answer(mask(), convention)
        except Exception:  # ~ stops on numbers, which says nothing of the other conventions
            continue
        read += 1
        right = masks.to_attend(mask(), convention)
        reads_numbers = convention == "additive" and converted.shape == right.shape
        if torch.equal(converted, ~right) or (reads_numbers and not torch.equal(converted, right)):
            wrong.append(convention)
    if not wrong or len(wrong) == read:
        return None
    reading, advice = READINGS[wrong[0]]
    return "convention-misread", f'You read "{wrong[0]}" {reading}. {advice}'


def _suspect(
    back: int = S, *, sharpness: float = 1.0, late: bool = False, odd: bool = False, mean: float = 0
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return ``fn`` and ``x`` for find_leaks: attention that is causal, or nearly so.

    Args: back is how many earlier tokens are visible; sharpness multiplies the scores, which are
        largest between similar tokens; late masks after softmax; odd leaves the last sentence's
        last head without a mask; the last one adds this much of all tokens' mean, in units of the
        last bit.
    """
    w_qk, w_v = square(2, 3)

    def fn(x: Tensor) -> Tensor:
        allowed = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril().triu(-back)  # (S, S)
        attend = allowed.repeat(len(x), H, 1, 1).to(x.device)  # (B, H, S, S)
        attend[-1, -1] |= odd
        q, v = (split_heads(x @ w.T.to(x), H) for w in (w_qk, w_v))  # (B, H, S, D)
        weights = attention(sharpness * q, q, v, None if late else attend)[1]  # (B, H, S, S)
        merged = merge_heads(weights.masked_fill(~attend, 0.0) @ v)  # (B, S, C)
        return merged + mean * torch.finfo(x.dtype).eps * x.mean(1, keepdim=True)

    # with five sentences and four heads, three large changes find every leak
    return fn, draw(5, S, C, seed=1)


def _sharp() -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """Return saturated attention without a mask, with so many tokens that one change each hardly
    finds all.
    """
    w_qkv = square(2, 3, 4)

    def fn(x: Tensor) -> Tensor:
        q, k, v = (split_heads(x @ w.T.to(x), H) for w in w_qkv)  # (2, H, 12, D)
        return merge_heads(attention(1e5 * q, k, v)[0])  # (2, 12, C)

    return fn, draw(2, 12, C, seed=1)


def _leaks_near(start: Tensor, x: Tensor) -> Tensor:
    """Let tokens depend on earlier ones, and on all that have changed only slightly."""
    moved = x - start.to(x)  # (B, S, C)
    little = moved.square().mean(-1, keepdim=True) < 1  # (B, S, 1)
    return x.cumsum(1) + (moved * little).sum(1, keepdim=True)


def _leaks_at(sentence: int, channel: int, x: Tensor) -> Tensor:
    """Let tokens depend on earlier ones in only one channel of one sentence."""
    out = x.clone()
    out[sentence:, :, channel:] = x[sentence:, :, channel:].cumsum(1)
    return out


def _what_is_missed(
    answer: Callable[..., Any], fn: Callable[[Tensor], Tensor], x: Tensor
) -> tuple[str | None, str] | None:
    """Compare the dependencies an answer finds with the real ones."""
    leaks = find_leaks(fn, x)
    answered = answer(fn, x)
    if answered is None:
        return None
    if isinstance(answered, Tensor) and torch.equal(answered.double(), leaks.double()):
        return None, "The zeros and ones are right, but the result should be bool: call .bool()."
    if not isinstance(answered, Tensor) or answered.dtype != torch.bool:
        return "values-not-changes", (
            "It should return where outputs change, as True and False, not the outputs or how "
            "much they differ: compare with !=, and reduce with any."
        )
    if answered.shape != leaks.shape:
        return None
    if torch.equal(answered, ~leaks):
        return None, "You marked the pairs that do not depend on each other: compare with !=."
    columns = answered.any(0)
    if columns.sum() == 1 and leaks.any(0).sum() > 1:
        return "one-token-only", (
            f"You only ever changed token {int(columns.int().argmax())}, so only this column says "
            f"anything. Change each token."
        )
    missed = int((leaks & ~answered).sum())
    invented = int((answered & ~leaks).sum())
    return None, (
        f"You missed {missed} of {int(leaks.sum())} dependencies, and found {invented} where there "
        "are none. Change one token at a time, several times, by small and large amounts, and "
        "compare the outputs with !=, in all sentences and channels."
    )


def _mask() -> Tensor:
    return draw(T, S, seed=8) > 0


def _lengths(d: Draw) -> Tensor:
    """Return a length for each sentence, the first of them 0 where there are several."""
    lengths = d.ids(d.S + 1, "B")
    lengths[0] *= d.B == 1
    return lengths


def _any_mask(d: Draw) -> Tensor:
    return d.mask({AS_MANY_QUERIES: "B11S", MORE_QUERIES: "B1TS"}.get(d.kind, "TS"))


def _in_convention(convention: str) -> tuple[Tensor, str]:
    return WILD[convention](), convention


def _wild(d: Draw) -> tuple[Tensor, str]:
    """Return a mask in one of the conventions."""
    attend = _any_mask(d)
    convention = [*WILD][d.number // 3 % len(WILD)]
    if convention == "additive":
        return _additive(attend), convention
    return attend if convention == "sdpa" else ~attend, convention


def _real(lengths: Tensor, size: int) -> Tensor:
    return torch.arange(size) < lengths[:, None]


def _triangle(queries: int, keys: int, diagonal: int) -> Tensor:
    return torch.ones(queries, keys).tril(diagonal).bool()


def _filled(value: float) -> Callable[[Tensor, torch.dtype], Tensor]:
    """Return additive_mask with another number for hidden keys."""
    return lambda mask, dtype: torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, value)


def _additive(mask: Tensor) -> Tensor:
    return _filled(-math.inf)(mask, torch.float64)


WILD: dict[str, Callable[[], Tensor]] = {  # one mask in each convention
    "sdpa": _mask,
    "multihead": lambda: ~_mask(),
    "seaborn": lambda: ~_mask(),
    "additive": lambda: _additive(_mask()),
}

MISTAKES = [
    mistake(
        "causal-hides-self",
        causal_mask=lambda n: _triangle(n, n, -1),
        causal_mask_for_cache=lambda new, total: _triangle(new, total, total - new - 1),
    ),
    mistake(
        "causal-leaks-next",
        causal_mask=lambda n: _triangle(n, n, 1),
        causal_mask_for_cache=lambda new, total: _triangle(new, total, total - new + 1),
    ),
    mistake("/upper-triangle", causal_mask=lambda n: torch.ones(n, n).triu().bool()),
    mistake("causal-top-left", causal_mask_for_cache=lambda new, total: _triangle(new, total, 0)),
    mistake(
        "mask-inverted/made",
        causal_mask=lambda n: ~masks.causal_mask(n),
        padding_mask=lambda x, n: ~masks.padding_mask(x, n),
        causal_mask_for_cache=lambda a, b: ~masks.causal_mask_for_cache(a, b),
        combine_masks=lambda a, b: ~(a & b),
        additive_mask=lambda m, dtype: _filled(-math.inf)(~m, dtype),
        to_attend=lambda m, c: ~masks.to_attend(m, c),
    ),
    mistake("convention-misread", crashes="operator.invert", only=("to_attend",)),
    mistake(
        "/diagonal-misplaced",
        causal_mask_for_cache=[
            lambda new, total: _triangle(new, total, new),
            lambda new, total: _triangle(new, total, new - total),
        ],
    ),
    mistake(
        "/cache-hidden",
        causal_mask_for_cache=lambda new, total: (
            masks.causal_mask_for_cache(new, total) & (torch.arange(total) >= total - new)
        ),
    ),
    mistake(
        "/padding-one-too-many",
        padding_mask=lambda x, n: masks.padding_mask((x + 1).clamp(max=n), n),
    ),
    mistake(
        "/padding-one-too-few", padding_mask=lambda x, n: masks.padding_mask((x - 1).clamp(0), n)
    ),
    mistake("padding-other-side", padding_mask=lambda x, n: masks.padding_mask(x, n).flip(-1)),
    mistake("padding-on-queries", padding_mask=lambda x, n: _real(x, n)[:, None, :, None]),
    mistake("padding-broadcast-raw", padding_mask=_real),
    mistake(
        "mask-missing-head-axis",
        padding_mask=lambda x, n: _real(x, n)[:, None, :],
        combine_masks=lambda a, b: a & b[:, 0],
    ),
    mistake(
        "mask-first-batch-only/made",
        padding_mask=lambda x, n: masks.padding_mask(x[:1].expand(len(x)), n),
        combine_masks=lambda a, b: (a & b[:1]).expand(len(b), 1, *a.shape),
    ),
    mistake("masks-or-instead-of-and", combine_masks=lambda a, b: a | b),
    mistake(
        "padding-on-queries/combined",
        combine_masks=[lambda a, b: a & b.mT, lambda a, b: a & b & b.mT],
    ),
    mistake(
        "truth-of-a-mask/combined",
        crashes="Boolean value of Tensor",
        only=("combine_masks", "to_attend", "additive_mask"),
    ),
    mistake(
        "mask-ignored/combined",
        combine_masks=[
            lambda a, b: a.expand(len(b), 1, *a.shape),
            lambda a, b: b.expand(-1, 1, *a.shape),
            lambda a, b: a,
            lambda a, b: b,
        ],
    ),
    mistake("leaks-transposed", find_leaks=lambda fn, x: find_leaks(fn, x).T),
    mistake("mask-fill-positive-inf/additive", additive_mask=_filled(math.inf)),
    mistake(
        "mask-added-as-number/additive",
        additive_mask=[lambda m, dtype: m.to(dtype), lambda m, dtype: (~m).to(dtype)],
    ),
    mistake("/nothing-hidden", additive_mask=_filled(0.0)),
    mistake("/everything-hidden", additive_mask=lambda m, dtype: _filled(-math.inf)(m & ~m, dtype)),
    mistake("/ones-not-zeros", additive_mask=lambda m, dtype: 1 + _filled(-math.inf)(m, dtype)),
    mistake("mask-fill-tiny/additive", additive_mask=_filled(1e-9)),
    mistake(
        "mask-times-minus-inf/additive",
        additive_mask=[
            lambda m, dtype: (~m).to(dtype) * -math.inf,
            lambda m, dtype: m.to(dtype) * -math.inf,
        ],
    ),
    mistake("masked-row-uniform/additive", additive_mask=_filled(-1e9)),
]

EXERCISES = [
    Exercise(
        masks.causal_mask,
        "May token t see token s if s = t? And if s = t + 1?",
        "True on the diagonal and below it: `tril` of a matrix of True. Lesson 4 drew one.",
        "A bool matrix (S, S), a row for each query and a column for each key, True where s <= t.",
        line="return torch.ones(seq_len, seq_len, dtype=torch.bool).tril()  # (S, S)",
        drawn=lambda d: (d.S,),
        axes="S S",
        done="You can hide the future from every token. Print the mask for six tokens: what does "
        "each row see?",
    ),
    Exercise(
        masks.padding_mask,
        "A sentence of 3 words is padded to 5. Which positions hold words?",
        "Compare the positions 0, 1, 2, … with the length of each sentence, and let broadcasting "
        "make the table. Axes of size 1 make it fit every head and every query.",
        "The positions are (S), the lengths as a column are (B, 1). Comparing them gives (B, S), "
        "and two more axes make it (B, 1, 1, S).",
        line="real = torch.arange(max_len) < lengths[:, None]  # (B, S)\nreturn real[:, None, "
        "None]  # (B, 1, 1, S)",
        special_cases=[
            ("", lambda: (torch.tensor([4, 6, 1, 5]), S)),
            ("Here one sentence has length 0.", lambda: (torch.tensor([3, 0]), T)),
        ],
        drawn=lambda d: (_lengths(d), d.S),
        axes="B 1 1 S",
        done="You can hide the padding of sentences that differ in length. Try a length of 0: "
        "what does softmax make of a row with nothing to see?",
    ),
    Exercise(
        masks.combine_masks,
        "True means may attend. With two masks, when may a token attend?",
        "A logical “and”, element by element. Broadcasting does the rest.",
        "(S, S) meets (B, 1, 1, S), and broadcasting gives (B, 1, S, S).",
        line="return causal & padding  # (B, 1, S, S)",
        special_cases=[
            ("", lambda: (masks.causal_mask(S), masks.padding_mask(torch.tensor([4, 6]), S))),
            (
                "Here one sentence is nothing but padding.",
                lambda: (masks.causal_mask(S), masks.padding_mask(torch.tensor([5, 0]), S)),
            ),
        ],
        drawn=lambda d: (masks.causal_mask(d.S), masks.padding_mask(_lengths(d), d.S)),
        axes="B 1 S S",
        done="You can combine two masks. Write a third, which shows only the last three tokens, "
        "and combine all three.",
    ),
    Exercise(
        masks.causal_mask_for_cache,
        "The first new token is at position total - new. Which keys are at or before it?",
        "`tril` takes a second argument, which moves the diagonal. The last row must see "
        "everything: the triangle is aligned at the bottom right.",
        "A bool matrix (new, total): the lower triangle, with its diagonal moved right by the "
        "number of cached tokens.",
        line="return torch.ones(new, total, dtype=torch.bool).tril(total - new)  # (new, total)",
        drawn=lambda d: (min(d.T, d.S), max(d.T, d.S)),
        axes="new total",
        done="You can mask where queries are fewer than keys. Try new = 1: nothing is hidden, so "
        "one new token needs no mask.",
    ),
    Exercise(
        find_leaks,
        "If output t changes when you change token s, what do you know? And if it doesn't?",
        "For each token: copy x, add something to this token only, call `fn`, and compare with "
        "the first result, bit for bit. Repeat with other changes, small and large. A dependency "
        "that shows once is there.",
        "`fn(changed) != before` is (B, S, C). `any` over the width and over the batch leaves "
        "(S), the column of token s in the result (S, S).",
        line="for size in 3 * (0.01, 30.0):\n"
        "    for s in range(x.size(1)):\n"
        "        changed = x.clone()\n"
        "        changed[:, s] += size * torch.randn_like(x[:, s])\n"
        "        leaks[:, s] |= (fn(changed) != before).any(-1).any(0)",
        special_cases=[
            ("Here fn is causal attention.", _suspect),
            ("Here fn masks after softmax.", lambda: _suspect(late=True)),
            (
                "Here fn is causal, and its scores are so large that in each row one weight is 1 "
                "and the others are 0.",
                lambda: _suspect(sharpness=1e4),
            ),
            (
                "Here fn is causal attention, plus a very small part of the mean of all tokens.",
                lambda: _suspect(mean=0.25),
            ),
            ("Here each token sees itself and the one before it.", lambda: _suspect(1)),
            (
                "Here fn is causal, except for one head in one of the sentences.",
                lambda: _suspect(odd=True),
            ),
            (
                "Here fn has no mask, 12 tokens, and scores so large that in each row one weight "
                "is 1.",
                _sharp,
            ),
            (
                "Here small changes of a token reach all others, and large ones only later tokens.",
                lambda: (partial(_leaks_near, draw(5, S, C, seed=1)), draw(5, S, C, seed=1)),
            ),
        ],
        drawn=lambda d: (partial(_leaks_at, d.B - 1, d.C - 1), d("BSC")),
        axes="S S",
        allows=("other answers",),  # changes may be drawn at random
        diagnose=_what_is_missed,
        done="You can ask any module what it depends on. Try a model of your own, in eval mode.",
    ),
    Exercise(
        masks.to_attend,
        "In which conventions does True hide a key, and which number hides one when it is added "
        "to a score?",
        "`sdpa` means what the course means, and `multihead` and `seaborn` mean the opposite. An "
        "additive mask leaves a score unchanged where it adds 0.",
        "Every branch keeps the shape of mask, such as (T, S), and returns bool: the mask, its "
        "opposite, or a comparison with 0.",
        line='if convention == "additive":\n'
        "    return mask == 0\n"
        'return ~mask if convention in ("multihead", "seaborn") else mask',
        special_cases=[
            (f'Here convention is "{convention}".', partial(_in_convention, convention))
            for convention in WILD
        ],
        drawn=_wild,
        axes="T S",
        run=in_two_axes,
        diagnose=_misread,
        done="You can read a mask from anyone's code. Give nn.MultiheadAttention a mask of its "
        "own kind, and find the hidden keys with to_attend.",
    ),
    Exercise(
        masks.additive_mask,
        "What do you add to a score to leave it unchanged, and what to hide it?",
        "Start from zeros of the right dtype, and fill in -inf where the mask is False. "
        "Multiplying does not work: 0 · inf is NaN.",
        "A bool mask (…) becomes numbers (…): 0 where it is True, -inf where it is False.",
        line="return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -torch.inf)",
        special_cases=[
            ("", lambda: (_mask(), torch.float64)),
            (
                "Here dtype is torch.float32, and the first row hides all keys.",
                lambda: (_mask().tril(-1), torch.float32),
            ),
        ],
        drawn=lambda d: (_any_mask(d), (torch.float64, torch.float32)[d.number // 2 % 2]),
        axes={"mask": "T S", "dtype": ""},
        run=with_dtype,
        diagnose=_finite_or_other_dtype,
        done="You can write a mask as numbers for the scores. Fill with -1e9 instead, in float16: "
        "what happens?",
    ),
]

LESSON = Lesson(8, "Masks", EXERCISES)
