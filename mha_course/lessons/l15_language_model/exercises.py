"""Lesson 15, Language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.inputs import B, Draw, S, draw
from mha_course.exercises.spec import NOT_GIVEN, Exercise, Lesson, mistake
from mha_course.lessons.l15_language_model.causal_model import next_token_probabilities
from mha_course.lessons.l15_language_model.speculation import accept_or_redraw


def next_token_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, each (B, S - 1): targets[:, t] follows inputs[:, t]."""
    return ids[:, :-1], ids[:, 1:]  # (B, S-1)


def generate(model: Callable[[Tensor], Tensor], ids: Tensor, steps: int) -> Tensor:
    """Append the most probable next word, steps times, (B, S) -> (B, S + steps)."""
    for _ in range(steps):
        with torch.no_grad():
            logits = model(ids)  # (B, S, V)
        best = logits[:, -1].argmax(-1, keepdim=True)  # (B, 1)
        ids = torch.cat((ids, best), dim=1)  # (B, S+1)
    return ids


def write_on(answer: Callable[..., Any], ids: Tensor, table: Tensor, steps: int) -> Any:
    """Generate with a model whose next word depends on all words before it."""

    def model(words: Tensor) -> Tensor:
        numbers = table.to(words.device)[words]
        return numbers + 0.7 * numbers.flip(-1).cumsum(1)

    return answer(model, ids, steps)


def _writing(pick: Any, read: Any = lambda ids: ids) -> Any:
    """Return generate that reads other words, or takes the next one from another position."""

    def generate(model: Any, ids: Tensor, steps: int) -> Tensor:
        for _ in range(steps):
            ids = torch.cat((ids, pick(model(read(ids))).argmax(-1)[:, None]), 1)
        return ids

    return generate


def _only_the_newest(model: Any, ids: Tensor, steps: int) -> Tensor:
    """Read all words once, and from then on only the newest."""
    newest = ids
    for _ in range(steps):
        newest = model(newest)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat((ids, newest), 1)
    return ids


def _appending_all(model: Any, ids: Tensor, steps: int) -> Tensor:
    """Append the predictions at all positions, in each round."""
    for _ in range(steps):
        ids = torch.cat((ids, model(ids).argmax(-1)), 1)
    return ids


def _asked_once(pick: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Return generate that takes all words from the model's first output."""
    return lambda model, ids, steps: torch.cat((ids, pick(model(ids), steps)), 1)


CHOICE_STEPS: dict[str, Callable[..., Any]] = {
    "heat": lambda z, t: z / t,
    "largest": lambda z, k: z >= z.topk(k).values[:, -1:],
    "cut": lambda z, kept: z.masked_fill(~kept, -torch.inf),
    "share": lambda z: z.softmax(-1),
}


def _build_choice(steps: Steps) -> Callable[..., Tensor]:
    s = Steps(**CHOICE_STEPS | vars(steps))

    def probabilities(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
        scaled = s.heat(logits, temperature)
        return s.share(scaled if top_k is None else s.cut(scaled, s.largest(scaled, top_k)))

    return vars(s).get("next_token_probabilities", probabilities)


def _cut_after(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """Set all but the largest to 0 after the softmax."""
    chances = (logits / temperature).softmax(-1)
    return chances if top_k is None else chances * (chances >= chances.topk(top_k).values[:, -1:])


def judge_draft(
    answer: Callable[..., Any], p: Tensor, q: Tensor, draft: int, uniform: float
) -> Any:
    """Call an answer on p and q that sum to 1, ignoring gradients; a bool tensor is fine."""
    result = answer(p / p.sum(), q / q.sum(), draft, uniform)
    if not isinstance(result, (tuple, list)):
        return result
    tensors = [torch.tensor(bool(x)) if isinstance(x, (bool, np.bool_)) else x for x in result]
    return tuple(x.detach() if isinstance(x, Tensor) else x for x in tensors)


def _redraw_without_draft(
    p: Tensor, q: Tensor, draft: int, uniform: float
) -> tuple[Tensor, Tensor]:
    """Redraw from p without the drafted word."""
    remaining = p.clone()
    remaining[draft] = 0
    return uniform < p[draft] / q[draft], remaining / remaining.sum()


DRAFT_STEPS: dict[str, Callable[..., Any]] = {
    "accept": lambda p, q, uniform: uniform < p / q,
    "missing": lambda p, q: (p - q).clamp(min=0),
    "divide": lambda rest, p: rest / rest.sum() if rest.sum() > 0 else p,
    "residual": lambda accepted, rest, p, q: rest,
}


def _build_judge(steps: Steps) -> Callable[..., tuple[Any, Tensor]]:
    s = Steps(**DRAFT_STEPS | vars(steps))

    def judge(p: Tensor, q: Tensor, draft: int, uniform: float) -> tuple[Any, Tensor]:
        accepted = s.accept(p[draft], q[draft], uniform)
        return accepted, s.residual(accepted, s.divide(s.missing(p, q), p), p, q)

    return vars(s).get("accept_or_redraw", judge)


def _difference(p: Tensor, q: Tensor) -> Tensor:
    return p - q


def _by_sum(rest: Tensor, _: Tensor) -> Tensor:
    return rest / rest.sum()


def _by_nothing(rest: Tensor, p: Tensor) -> Tensor:
    return rest if rest.any() else p


MISTAKES = [
    mistake(
        "targets-not-shifted",
        next_token_targets=[
            lambda t: (t[:, :-1], t[:, :-1]),
            lambda t: (t, t),
            lambda t: (t[:, 1:], t[:, 1:]),
        ],
    ),
    mistake(
        "targets-shifted-wrong-way",
        next_token_targets=[
            lambda t: (t[:, 1:], t[:, :-1]),
            lambda t: (t[:, :-1], t.roll(1, 1)[:, :-1]),
        ],
    ),
    mistake(
        "targets-plus-one",
        next_token_targets=[lambda t: (t[:, :-1], t[:, :-1] + 1), lambda t: (t, t + 1)],
    ),
    mistake(
        "generate-wrong-position",
        generate=[
            _writing(lambda z: z[:, 0]),
            _writing(lambda z: z[:, -2]),
            _writing(lambda z: z.mean(1)),
        ],
    ),
    mistake(
        "generate-reads-last-word-only",
        generate=[_writing(lambda z: z[:, -1], lambda ids: ids[:, -1:]), _only_the_newest],
    ),
    mistake(
        "generate-asked-once",
        generate=[
            _asked_once(lambda z, steps: z[:, -1:].argmax(-1).repeat(1, steps)),
            _asked_once(lambda z, steps: z[:, -1].topk(steps).indices),
            _asked_once(lambda z, steps: z[:, -steps:].argmax(-1)),
        ],
    ),
    mistake(
        "generate-new-words-only",
        generate=lambda model, ids, steps: generate(model, ids, steps)[:, ids.size(1) :],
    ),
    mistake("generate-stops-early", generate=lambda model, ids, _: generate(model, ids, 1)),
    mistake("/cat-not-kept", generate=lambda model, ids, _: ids),
    mistake("/all-positions-appended", generate=_appending_all),
    mistake("/logits-not-ids", crashes="used as indices must be", only=("generate",)),
    mistake("dtype-changed/ids", stage="narrow", only=("next_token_targets", "generate")),
    mistake(
        "/best-without-axis",
        crashes="same number of dimensions|zero-dimensional",
        only=("generate",),
    ),
    mistake("generate-samples", stage="repeat", only=("generate",)),
    mistake("temperature-multiplied", heat=lambda z, t: z * t),
    mistake("temperature-ignored", heat=lambda z, t: z),
    mistake(
        "temperature-after-softmax",
        heat=lambda z, t: z.softmax(-1) / t,
        next_token_probabilities=[
            lambda z, t, k: _cut_after(z, 1.0, k) / t,
            lambda z, t, k: next_token_probabilities(z, 1.0, k) / t,
        ],
    ),
    mistake("not-renormalised", next_token_probabilities=_cut_after),
    mistake("top-k-ignored", next_token_probabilities=lambda z, t, k: (z / t).softmax(-1)),
    mistake("top-k-filled-with-zero", cut=lambda z, kept: z * kept),
    mistake("top-k-one-short", largest=lambda z, k: z > z.topk(k).values[:, -1:]),
    mistake(
        "top-k-one-more", largest=lambda z, k: z >= z.topk(min(k + 1, z.size(1))).values[:, -1:]
    ),
    mistake(
        "top-k-one-threshold",
        largest=[
            lambda z, k: z >= z.topk(k).values[:, -1].min(),
            lambda z, k: z >= z.flatten().topk(k).values[-1],
        ],
    ),
    mistake("/largest-alone-kept", largest=lambda z, k: z >= z.topk(k).values[:, :1]),
    mistake(
        "/largest-hidden",
        largest=[
            lambda z, k: z < z.topk(k).values[:, -1:],
            lambda z, k: z <= z.topk(k).values[:, -1:],
        ],
    ),
    mistake("/threshold-without-axis", largest=lambda z, k: z >= z.topk(k).values[:, -1]),
    mistake(
        "softmax-missing/words", share=lambda z: z, next_token_probabilities=lambda z, t, k: z / t
    ),
    mistake("softmax-over-batch/words", share=lambda z: z.softmax(0)),
    mistake("softmax-log/words", share=lambda z: z.log_softmax(-1)),
    mistake("softmax-twice/words", share=lambda z: z.softmax(-1).softmax(-1)),
    mistake("/word-drawn", stage="repeat", only=("next_token_probabilities",)),
    mistake("top-k-none", crashes=NOT_GIVEN, only=("next_token_probabilities",)),
    mistake("ratio-inverted", accept=lambda p, q, u: u < q / p),
    mistake("always-accepts", accept=[lambda p, q, u: True, lambda p, q, u: p > 0]),
    mistake("dice-ignored", accept=[lambda p, q, u: p >= q, lambda p, q, u: p > q]),
    mistake("accepted-by-p-alone", accept=lambda p, q, u: u < p),
    mistake("models-exchanged", accept_or_redraw=lambda p, q, *rest: accept_or_redraw(q, p, *rest)),
    mistake("accepted-and-refused", accept=[lambda p, q, u: u >= p / q, lambda p, q, u: u > p / q]),
    mistake(
        "probability-not-decision",
        accept=[lambda p, q, u: (p / q).clamp(max=1), lambda p, q, u: p / q],
    ),
    mistake("zero-accepted", accept=lambda p, q, u: u <= p / q),
    mistake("redrawn-from-p", missing=lambda p, q: p),
    mistake("redraw-ignores-draft", accept_or_redraw=_redraw_without_draft),
    mistake(
        "residual-not-clipped",
        {"missing": _difference, "divide": _by_sum},
        {"missing": _difference, "divide": _by_nothing},
        {"missing": _difference, "divide": lambda rest, p: rest},
        {"missing": _difference, "divide": lambda rest, p: rest / rest.clamp(min=0).sum()},
        {"missing": lambda p, q: (p - q).abs(), "divide": _by_sum},
        {"missing": lambda p, q: (p - q).abs(), "divide": lambda rest, p: rest},
        missing=[_difference, lambda p, q: (p - q).abs()],
    ),
    mistake("residual-not-normalised", divide=[lambda rest, p: rest, _by_nothing]),
    mistake(
        "residual-reversed",
        {"missing": lambda p, q: (q - p).clamp(min=0), "divide": _by_sum},
        missing=lambda p, q: (q - p).clamp(min=0),
    ),
    mistake(
        "residual-softmax",
        {"missing": _difference, "divide": lambda rest, p: rest.softmax(-1)},
        divide=[
            lambda rest, p: rest.softmax(-1),
            lambda rest, p: rest.softmax(-1) if rest.any() else p,
        ],
    ),
    mistake(
        "residual-of-equals",
        divide=[_by_sum, lambda rest, p: rest / rest.sum().clamp(min=1e-12)],
    ),
    mistake(
        "residual-where-accepted",
        residual=[
            lambda accepted, rest, p, q: p if accepted else rest,
            lambda accepted, rest, p, q: q if accepted else rest,
            lambda accepted, rest, p, q: 0 * p if accepted else rest,
        ],
    ),
]


def _two_models(words: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return p and q (V,) of two models; p is 0 at word 1, q at the last word."""
    p, q = (2 * draw(2, words, seed=seed)).softmax(-1)
    p[1] = q[-1] = 0
    return p / p.sum(), q / q.sum()


def _draw_draft(d: Draw) -> tuple[Tensor, Tensor, int, float]:
    p, q = d("2O").softmax(-1)
    draft = int((p / q).argsort()[d.number % d.O])  # first the word q overrates most
    return p, q if d.number % 3 < 2 else p.clone(), draft, d.picks.random()


def _draw_ids(count: int, *shape: int, seed: int) -> Tensor:
    """Return word ids below a number."""
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


EXERCISES = [
    Exercise(
        next_token_targets,
        "Which token should the model predict when it has read token t, and which token has "
        "nothing after it?",
        "Two slices of the same ids, one position apart.",
        "ids (B, S) without the last column, and without the first: (B, S - 1) each.",
        drawn=lambda d: (d.ids(99, "BS"),),
        axes={"inputs": "B S-1", "targets": "B S-1"},
        done="You can make inputs and targets out of plain text. What would a model learn if you "
        "shifted by two?",
    ),
    Exercise(
        generate,
        "The model makes a prediction at every position. Which one is about the next word?",
        "A loop: run the model on all ids so far, take the largest logit at the right position, "
        "and append its id.",
        "model(ids) is (B, S, vocab), and at one position (B, vocab). `argmax` with the axis kept "
        "gives (B, 1), and appending it makes ids (B, S + 1).",
        special_cases=[
            # More steps than words, so that steps cannot pass for the final length.
            ("", lambda: (_draw_ids(13, B, S, seed=2), draw(13, 13, seed=3), S + 2)),
            ("", lambda: (_draw_ids(13, 3, 1, seed=4), draw(13, 13, seed=5), 6)),
        ],
        drawn=lambda d: (
            d.ids(d.O, "BS"),
            d("OO"),
            0 if d.kind == "one query" else 1 + d.number // 2,
        ),
        axes="B S+steps",
        allows=("no gradient",),
        done="You can let a model write. Draw each word by its probability instead of taking the "
        "likeliest, and see what changes.",
        run=write_on,
    ),
    Exercise(
        next_token_probabilities,
        "What does a temperature of 0.5 do to the differences between logits, and what must a "
        "logit be for the probability to be exactly 0?",
        "Divide by the temperature. If there is a top_k, hide all logits of a row but its largest "
        "ones. Softmax comes last and makes each row sum to 1.",
        "`topk(top_k).values` is (B, top_k), the largest first. Its last column, kept as (B, 1), "
        "is the smallest that stays. Fill what is below it with -inf.",
        line="scaled = logits / temperature  # (B, V)\n"
        "if top_k is not None:\n"
        "    smallest = scaled.topk(top_k).values[:, -1:]  # (B, 1)\n"
        "    scaled = scaled.masked_fill(scaled < smallest, -torch.inf)\n"
        "return scaled.softmax(-1)  # (B, V)",
        special_cases=[
            ("", lambda: (2 * draw(5, 13, seed=6), 0.6, 4)),
            ("Here top_k is None.", lambda: (2 * draw(4, 11, seed=7), 1.7, None)),
            ("Here top_k is 1.", lambda: (2 * draw(3, 7, seed=8), 0.8, 1)),
        ],
        drawn=lambda d: (
            2 * d("BO"),
            0.3 + d.picks.random(),
            d.picks.choice((None, 1, min(d.O, 3))),
        ),
        allows=("no gradient",),
        axes="B V",
        exact_zeros=True,
        steps=("next_token_probabilities", *CHOICE_STEPS),
        build=_build_choice,
        done="You can turn logits into probabilities to draw from. With top_k=1, does the "
        "temperature still matter?",
    ),
    Exercise(
        accept_or_redraw,
        "The small model drafts a word twice as often as the large one would write it. How often "
        "should this draft be kept? And which words does the large one write more often than the "
        "small one drafts them?",
        "Accept if uniform is below p/q at the drafted word. Redraw from the part of p that is "
        "above q, divided by its sum.",
        "`p[draft] / q[draft]` is one number, to be compared with uniform. `(p - q).clamp(min=0)` "
        "is (V,); divide it by its sum, unless the sum is 0.",
        special_cases=[
            ("", lambda: (*_two_models(10, 175), 8, 0.6)),
            ("", lambda: (*_two_models(11, 15), 4, 0.6)),
            ("", lambda: (*_two_models(13, 16), 9, 0.2)),
            ("Here p is 0 at the draft, and uniform is 0.", lambda: (*_two_models(9, 11), 1, 0.0)),
            (
                "Here p equals q.",
                lambda: (draw(7, seed=12).softmax(-1), draw(7, seed=12).softmax(-1), 4, 0.9),
            ),
        ],
        drawn=_draw_draft,
        run=judge_draft,
        allows=("no gradient",),
        exact_zeros=True,
        axes={"accepted": "", "residual": "V"},
        steps=("accept_or_redraw", *DRAFT_STEPS),
        build=_build_judge,
        done="You can let a small model write for a large one, and nobody can tell.",
    ),
]

LESSON = Lesson(15, "Language model", EXERCISES)
