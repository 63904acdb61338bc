"""Lesson 15, Language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mha_course.exercises.inputs import B, S, draw
from mha_course.exercises.spec import Exercise, Lesson, mistake, question
from mha_course.lessons.l15_language_model.causal_model import next_token_probabilities


def next_token_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, each (B, S - 1): targets[:, t] is what follows inputs[:, t]."""
    return ids[:, :-1], ids[:, 1:]  # (B, S-1)


def generate(model: Callable[[Tensor], Tensor], ids: Tensor, steps: int) -> Tensor:
    """Append the most probable next word, again and again, (B, S) -> (B, S + steps)."""
    for _ in range(steps):
        with torch.no_grad():
            logits = model(ids)  # (B, S, V)
        best = logits[:, -1].argmax(-1, keepdim=True)  # (B, 1)
        ids = torch.cat((ids, best), dim=1)  # (B, S+1)
    return ids


def write_on(answer: Callable[..., Any], ids: Tensor, table: Tensor, steps: int) -> Any:
    """Let a model whose next word depends on all words before it write on."""

    def model(words: Tensor) -> Tensor:
        numbers = table.to(words.device)[words]
        return numbers + 0.7 * numbers.flip(-1).cumsum(1)

    return answer(model, ids, steps)


def _writing(pick: Any, read: Any = lambda ids: ids) -> Any:
    """Return generate that reads other words, or takes the next one from another place."""

    def generate(model: Any, ids: Tensor, steps: int) -> Tensor:
        for _ in range(steps):
            ids = torch.cat((ids, pick(model(read(ids))).argmax(-1)[:, None]), 1)
        return ids

    return generate


def _asked_once(pick: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Return generate that takes all words from the first answer of the model."""
    return lambda model, ids, steps: torch.cat((ids, pick(model(ids), steps)), 1)


def _probabilities(
    heat: Any = lambda z, t: z / t,
    largest: Any = lambda z, k: z >= z.topk(k).values[:, -1:],
    hide: Any = lambda z, kept: z.masked_fill(~kept, -torch.inf),
    axis: int = -1,
) -> Callable[..., Tensor]:
    """Return next_token_probabilities that heats, chooses, hides or sums in another way."""

    def probabilities(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
        scaled = heat(logits, temperature)
        return (scaled if top_k is None else hide(scaled, largest(scaled, top_k))).softmax(axis)

    return probabilities


def _cut_after(logits: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """Set to 0 after the softmax what is not among the largest."""
    shares = (logits / temperature).softmax(-1)
    return shares if top_k is None else shares * (shares >= shares.topk(top_k).values[:, -1:])


MISTAKES = [
    mistake(
        "targets-not-shifted",
        next_token_targets=[
            lambda t: (t[:, :-1], t[:, :-1]),
            lambda t: (t, t),
            lambda t: (t[:, 1:], t[:, 1:]),
        ],
    ),
    mistake("targets-shifted-wrong-way", next_token_targets=lambda t: (t[:, 1:], t[:, :-1])),
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
        generate=_writing(lambda z: z[:, -1], lambda ids: ids[:, -1:]),
    ),
    mistake(
        "generate-asked-once",
        generate=[
            _asked_once(lambda z, steps: z[:, -1:].argmax(-1).repeat(1, steps)),
            _asked_once(lambda z, steps: z[:, -1].topk(steps).indices),
            _asked_once(lambda z, steps: z[:, -steps:].argmax(-1)),
        ],
    ),
    mistake("generate-samples", stage="repeat", only=("generate",)),
    mistake("temperature-multiplied", next_token_probabilities=_probabilities(lambda z, t: z * t)),
    mistake("temperature-ignored", next_token_probabilities=_probabilities(lambda z, t: z)),
    mistake(
        "temperature-after-softmax",
        next_token_probabilities=[
            lambda z, t, k: _cut_after(z, 1.0, k) / t,
            lambda z, t, k: _probabilities()(z, 1.0, k) / t,
        ],
    ),
    mistake("not-renormalised", next_token_probabilities=_cut_after),
    mistake("top-k-ignored", next_token_probabilities=lambda z, t, k: (z / t).softmax(-1)),
    mistake(
        "top-k-filled-with-zero",
        next_token_probabilities=_probabilities(hide=lambda z, kept: z * kept),
    ),
    mistake(
        "top-k-one-short",
        next_token_probabilities=_probabilities(largest=lambda z, k: z > z.topk(k).values[:, -1:]),
    ),
    mistake("softmax-over-batch/words", next_token_probabilities=_probabilities(axis=0)),
    mistake("top-k-none", crashes="NoneType", only=("next_token_probabilities",)),
]


def _draw_ids(count: int, *shape: int, seed: int) -> Tensor:
    """Return ids of words, out of so many."""
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


EXERCISES = [
    Exercise(
        next_token_targets,
        "Which token should the model name when it has read token t, and which token has nothing "
        "after it?",
        "Two slices of the same ids, one place apart.",
        "ids (B, S) without the last column, and without the first: (B, S - 1) each.",
        inputs=[lambda: (_draw_ids(99, B, S, seed=1),)],
        drawn=lambda d: (d.ids(99, "BS"),),
        axes=("B S-1", "B S-1"),
        results=("inputs", "targets"),
        done="You can make questions and answers out of plain text. Shift by two places: what is "
        "asked for then?",
    ),
    Exercise(
        generate,
        "The model gives an answer at every position. At which one does it say the next word?",
        "A loop: run the model on all ids so far, pick the largest number at the right place, and "
        "append it.",
        "model(ids) is (B, S, vocab), and at one place (B, vocab). `argmax` with the axis kept "
        "gives (B, 1), and appending makes ids (B, S + 1).",
        inputs=[
            lambda: (_draw_ids(13, B, S, seed=2), draw(13, 13, seed=3), 4),
            lambda: (_draw_ids(13, 3, 1, seed=4), draw(13, 13, seed=5), 6),
        ],
        drawn=lambda d: (d.ids(d.O, "BS"), d("OO"), 1 + d.number // 2),
        axes="B S+steps",
        done="You can let a model write. Draw each word by its chance instead of taking the "
        "likeliest, and read what changes.",
        run=write_on,
    ),
    Exercise(
        next_token_probabilities,
        "What does a temperature of 0.5 do to the differences between logits, and what must a "
        "logit be for the probability to be exactly 0?",
        "Divide by the temperature. If there is a top_k, hide all logits of a row but its largest "
        "ones. Softmax comes last, and makes each row sum to 1.",
        "`topk(top_k).values` is (B, top_k), the largest first. Its last column, kept as (B, 1), "
        "is the smallest that stays: what is below it is filled with -inf.",
        line="scaled = logits / temperature  # (B, V)\n"
        "if top_k is not None:\n"
        "    smallest = scaled.topk(top_k).values[:, -1:]  # (B, 1)\n"
        "    scaled = scaled.masked_fill(scaled < smallest, -torch.inf)\n"
        "return scaled.softmax(-1)  # (B, V)",
        inputs=[
            lambda: (2 * draw(5, 13, seed=6), 0.6, 4),
            lambda: (2 * draw(4, 11, seed=7), 1.7, None),
            lambda: (2 * draw(3, 7, seed=8), 0.8, 1),
        ],
        drawn=lambda d: (
            2 * d("BO"),
            0.3 + d.picks.random(),
            d.picks.choice((None, 1, min(d.O, 3))),
        ),
        learns=False,
        cases=("", "Here top_k is None.", "Here top_k is 1."),
        axes="B V",
        exact_zeros=True,
        done="You can turn logits into dice. With top_k=1, does the temperature still matter?",
    ),
]

QUESTIONS = {
    "shift-shape": question(
        "A batch of ids is (64, 17), with <start> and <end>. Which shape do the inputs have, when "
        "every place is to guess the next token?",
        "64, 16 → The last token has nothing behind it, so it is not read; the first has nothing "
        "before it, so it is not asked for.",
        "64, 17 → What should the last place guess? Nothing comes after it.",
        "64, 15 → One token falls away in the inputs, the last, and one in the targets, the first.",
        "63, 17 → The shift is along the tokens, not along the sentences.",
        nudge="Which places have a next token?",
        letters="B S-1",
    ),
    "who-guesses": question(
        "<start> the grey cat ate greedily <end>. The model reads all but the last. At which "
        "place must it name “cat”?",
        "“cat” → There the model has read “cat”. What it says there is about “ate”.",
        "✔ “grey” → There “grey” is the newest word, and what comes next is asked. At “cat” "
        "itself it would be read off.",
        "“<start>” → There it has read no word yet, and is asked for the first.",
        also=("at grey",),
    ),
    "causal-padding": question(
        "Sentences are filled up with <pad> on the right, and the model is causal. There is no "
        "padding mask. What do the words see of the padding?",
        "✔ nothing → All padding stands later, and what is later is hidden already. It is left "
        "out of the loss, too.",
        "they see the padding → A word sees what stands before it. Where does the padding stand?",
        "the last word sees it → The last word sees itself and what is before it. The padding is "
        "behind it.",
        also=("nothing happens", "nothing changes"),
    ),
    "loss-at-best": question(
        "Somebody knows the grammar by heart: every rule, every word. What is their loss, in nats "
        "a word?",
        "0 → Then they would know the next sentence in advance. It is drawn at random.",
        "✔ about 0.9 → Rules say what may come, not which state or which pair of nouns is drawn "
        "at random.",
        "about 4.8, ln 126 → That is for somebody who holds all 126 tokens for equally likely, "
        "all the time.",
        tolerance=0.02,
    ),
    "without-mask": question(
        "You forget the causal mask and train. To where does the loss fall?",
        "✔ far below the limit → Each place sees the next word, which is its target. Copying it "
        "beats every knowledge of grammar.",
        "to the limit → The limit holds for those who do not see the answer.",
        "it does not fall → It falls, and fast: what is asked for stands in the input.",
    ),
    "below-the-limit": question(
        "A model with a causal mask is trained, and its training loss falls below the limit. What "
        "does that say?",
        "the mask leaks → It may. But there is another way to know the next word of a sentence "
        "that is read again and again.",
        "✔ nothing yet: look at fresh text → It may see ahead, or know its sentences by heart. On "
        "fresh ones only the first of the two stays below the limit.",
        "it knows the grammar better than the grammar → What is drawn next is drawn at random; "
        "nobody knows it before.",
    ),
    "colder": question(
        "Two words have the chances 0.8 and 0.2. What does a temperature of 0.5 make of the 0.8? "
        "Two decimals.",
        "0.94 → Halving the temperature squares the odds: 4 to 1 becomes 16 to 1, and 16/17 = "
        "0.94.",
        "0.4 → The logits are divided, not the chances, and the chances still sum to 1.",
        "0.67 → That is a temperature of 2: it takes the root of the odds. Less than 1 sharpens.",
        "0.64 → You squared 0.8. Square both, then let them sum to 1.",
        "1 → Only at temperature 0 the likeliest takes all.",
        nudge="Dividing logits by 0.5 doubles them. What becomes of e to the power of them, and "
        "of the ratio?",
        tolerance=0.002,
        units="%",
    ),
    "read-in-all": question(
        "A model writes 16 words, starting from <start> alone. Without a cache, how many tokens "
        "pass through it in all?",
        "136 → 1 + 2 + … + 16 = 136. With a cache it is 16: each token passes once.",
        "16 → That is with a cache. Without one, the whole sentence is read again for each word.",
        "256 → Only the last pass reads 16. The first reads one.",
        "152 → To write 16 words it reads <start> and the first 15: the last word is not read "
        "again.",
        "120 → The first pass reads <start> already: count from 1 to 16, not to 15.",
        nudge="Step 1 reads one token, step 2 reads two …",
        units="tokens",
    ),
}

LESSON = Lesson(15, "Language model", EXERCISES, QUESTIONS)
