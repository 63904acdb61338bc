"""The predictions of lesson 15, the language model, as data. Right answers are computed, not typed."""

from __future__ import annotations

import math

import torch

from mha_course.datasets.grammar import sentences
from mha_course.exercises.asking import Question, shape_of
from mha_course.exercises.beyond import next_token_targets
from mha_course.models import language


def _cat() -> torch.Tensor:
    """Return the ids of a short sentence, with <start> and <end>."""
    return language.encode([["the", "grey", "cat", "ate", "greedily"]])


def _who_guesses() -> str:
    """Find the word whose place is asked for the third word."""
    inputs, targets = next_token_targets(_cat())
    place = [language.WORDS[i] for i in targets[0].tolist()].index("cat")
    return f"“{language.WORDS[int(inputs[0, place])]}”"


def _padding_needed() -> str:
    """Fill a sentence up, and see whether a causal model says anything else about its words."""
    model, ids = language.new_language_model(0).eval(), _cat()
    filled = torch.cat((ids, torch.full((1, 4), language.PAD)), dim=1)
    with torch.no_grad():
        same = torch.allclose(model(ids), model(filled)[:, : ids.size(1)], atol=1e-5)
    return "nothing" if same else "they see the padding"


def _loss_at_best() -> str:
    """Ask how surprised one is who knows the grammar by heart."""
    mean = math.log(language.limit(sentences(300, "train", 0), "train"))
    ways = {"0": 0.0, "about 0.9": 0.9, "about 4.8, ln 126": math.log(126)}
    return min(ways, key=lambda way: abs(ways[way] - mean))


def _without_mask() -> str:
    """See whether a place of a model without a mask depends on the very word that it should guess."""
    model, ids = language.new_language_model(0, see_ahead=True).eval(), _cat()[:, :-1]
    other = ids.clone()
    other[0, 3] += 1  # the target of place 2
    with torch.no_grad():
        cheats = not torch.equal(model(ids)[0, 2], model(other)[0, 2])
    return "far below the limit" if cheats else "to the limit"


def _halved() -> str:
    """Divide the logits of 0.8 and 0.2 by a temperature of 0.5."""
    return f"{(torch.tensor([0.8, 0.2]).log() / 0.5).softmax(-1)[0]:.2f}"


def _read_in_all() -> str:
    """Count the tokens that pass through the model without a cache."""
    return str(sum(range(1, 17)))


QUESTIONS: dict[str, Question] = {
    "shift-shape": Question(
        "A batch of ids is (64, 17), with <start> and <end>. Which shape do the inputs have, when every place is to "
        "guess the next token?",
        answer=lambda: shape_of(next_token_targets(torch.zeros(64, 17, dtype=torch.long))[0]),
        because="The last token has nothing behind it, so it is not read; the first has nothing before it, so it is "
        "not asked for.",
        wrong={
            "64, 17": "What should the last place guess? Nothing comes after it.",
            "64, 15": "One token falls away in the inputs, the last, and one in the targets, the first.",
            "63, 17": "The shift is along the tokens, not along the sentences.",
        },
        nudge="Which places have a next token?",
        letters="B S-1",
    ),
    "who-guesses": Question(
        "<start> the grey cat ate greedily <end>. The model reads all but the last. At which place must it name “cat”?",
        answer=_who_guesses,
        because="There “grey” is the newest word, and what comes next is asked. At “cat” itself it would be read off.",
        choices={
            "“cat”": "There the model has read “cat”. What it says there is about “ate”.",
            "“grey”": "",
            "“<start>”": "There it has read no word yet, and is asked for the first.",
        },
    ),
    "causal-padding": Question(
        "Sentences are filled up with <pad> on the right, and the model is causal. There is no padding mask. What do "
        "the words see of the padding?",
        answer=_padding_needed,
        because="All padding stands later, and what is later is hidden already. It is left out of the loss, too.",
        choices={
            "nothing": "",
            "they see the padding": "A word sees what stands before it. Where does the padding stand?",
            "the last word sees it": "The last word sees itself and what is before it. The padding is behind it.",
        },
    ),
    "loss-at-best": Question(
        "Somebody knows the grammar by heart: every rule, every word. What is their loss, in nats a word?",
        answer=_loss_at_best,
        because="Rules say what may come, not which state or which pair of nouns is drawn by lot.",
        choices={
            "0": "Then they would know the next sentence in advance. It is drawn by lot.",
            "about 0.9": "",
            "about 4.8, ln 126": "That is for somebody who holds all 126 tokens for equally likely, all the time.",
        },
    ),
    "without-mask": Question(
        "You forget the causal mask and train. To where does the loss fall?",
        answer=_without_mask,
        because="Each place sees the next word, which is its target. Copying it beats every knowledge of grammar.",
        choices={
            "far below the limit": "",
            "to the limit": "The limit holds for those who do not see the answer.",
            "it does not fall": "It falls, and fast: what is asked for stands in the input.",
        },
    ),
    "colder": Question(
        "Two words have the chances 0.8 and 0.2. What does a temperature of 0.5 make of the 0.8? Two decimals.",
        answer=_halved,
        because="Halving the temperature squares the odds: 4 to 1 becomes 16 to 1, and 16/17 = 0.94.",
        wrong={
            "0.4": "The logits are divided, not the chances, and the chances still sum to 1.",
            "0.67": "That is a temperature of 2: it takes the root of the odds. Less than 1 sharpens.",
            "0.64": "You squared 0.8. Square both, then let them sum to 1.",
            "1": "Only at temperature 0 the likeliest takes all.",
        },
        nudge="Dividing logits by 0.5 doubles them. What becomes of e to the power of them, and of the ratio?",
        tolerance=0.006,
    ),
    "read-in-all": Question(
        "A model writes 16 words, starting from <start> alone. Without a cache, how many tokens pass through it in "
        "all?",
        answer=_read_in_all,
        because="1 + 2 + … + 16 = 136. With a cache it is 16: each token passes once.",
        wrong={
            "16": "That is with a cache. Without one, the whole sentence is read again for each word.",
            "256": "Only the last pass reads 16. The first reads one.",
            "152": "To write 16 words it reads <start> and the first 15: the last word is not read again.",
            "120": "The first pass reads <start> already: count from 1 to 16, not to 15.",
        },
        nudge="Step 1 reads one token, step 2 reads two …",
    ),
}
