"""The predictions of lessons 9 and 10, on cross-attention and positions, as data. Right answers are computed."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_course.attention import MultiHeadAttention
from mha_course.exercises.asking import Question, shape_of
from mha_course.positions import rope, sinusoidal_encoding


def _cross() -> tuple[Tensor, Tensor]:
    """Ask from 5 tokens to 7: out and weights."""
    out, weights = MultiHeadAttention(24, 4)(torch.ones(2, 5, 24), torch.ones(2, 7, 24))
    assert weights is not None
    return out, weights


def _later_word() -> str:
    """Change the last token of x, and see whether an earlier row of the output moves."""
    mha, x, memory = MultiHeadAttention(24, 4), torch.randn(1, 5, 24), torch.randn(1, 7, 24)
    changed = x.clone()
    changed[0, -1] += 1
    same = torch.allclose(mha(x, memory)[0][0, :-1], mha(changed, memory)[0][0, :-1])
    return "no" if same else "yes"


def _keys_needed() -> str:
    """Count the different keys that 5 steps of a translation need."""
    memory, weight = torch.ones(7, 24), torch.ones(24, 24)
    keys = [memory @ weight.T for _ in range(5)]
    return str(len({tuple(key.flatten().tolist()) for key in keys}))


def _bag_of_words() -> str:
    """Attend from the same word in two orders of one sentence."""
    x = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(0))  # dog, bites, man
    before, after = (F.scaled_dot_product_attention(y, y, y)[0, 1] for y in (x, x.flip(1)))
    return "the same" if torch.allclose(before, after) else "another one"


def _far_away() -> str:
    """Compare two places 5 apart with two others 5 apart, much later."""
    encoding = sinusoidal_encoding(200, 24)
    near, far = (float(encoding[s] @ encoding[s + 5]) for s in (3, 103))
    return "the same" if math.isclose(near, far, rel_tol=1e-4) else "smaller"


def _slowest() -> str:
    """Count the tokens until the last pair of 64 channels has come round."""
    tokens = 2 * math.pi * 10000 ** (62 / 64)
    return f"about {round(tokens, -3):,.0f}"


def _turned_values() -> str:
    """Move all places on by 100 with values turned, too, and see whether the context stays."""
    q, k, v = torch.randn(3, 1, 1, 5, 6, generator=torch.Generator().manual_seed(0))
    now, later = torch.arange(5), torch.arange(100, 105)
    first, second = (F.scaled_dot_product_attention(rope(q, at), rope(k, at), rope(v, at)) for at in (now, later))
    return "the context changes" if not torch.allclose(first, second, atol=1e-3) else "nothing"


_NINE = {
    "cross-weights": Question(
        "x has shape (2, 5, 24), memory (2, 7, 24), and there are 4 heads. What is the shape of the weights?",
        answer=lambda: shape_of(_cross()[1]),
        letters="B, H, T, S",
        because="A row for each token that asks, a column for each token that answers, in every head.",
        wrong={
            "2, 4, 7, 5": "Queries come first: the 5 tokens of x ask, so there are 5 rows.",
            "2, 4, 5, 5": "That is self-attention: here the keys come from memory, and there are 7.",
            "2, 4, 7, 7": "That is memory asking itself. The queries come from x.",
            "2, 5, 7": "Each of the 4 heads keeps weights of its own.",
        },
    ),
    "later-word": Question(
        "You change the last token of x. Can the cross-attention of an earlier token of x change?",
        answer=_later_word,
        because="Each query meets the memory on its own: tokens of x never meet each other here.",
        choices={
            "yes": "That takes keys or values made of x. Here both come from memory.",
            "no": "",
        },
    ),
    "keys-once": Question(
        "A translation is said in 5 steps, one word each. How many times must k and v of the memory be computed?",
        answer=_keys_needed,
        because="The memory does not change while the translation is said, so neither do its keys and values.",
        wrong={
            "5": "That is how often q is computed. The memory is the same in every step.",
            "10": "k and v are two tensors, but neither changes from step to step: one computation makes both.",
        },
        nudge="What changes from one step to the next: the memory, or what asks it?",
    ),
}

_TEN = {
    "bag-of-words": Question(
        "“dog bites man” becomes “man bites dog”. Without positions and a mask, what is the context of “bites” now?",
        answer=_bag_of_words,
        because="Its row holds the same three weights and values, added in another order. A sum has no order.",
        choices={
            "the same": "",
            "another one": "That needs a step that knows the places. Scores, softmax and sum know none.",
            "the same, with “dog” and “man” exchanged": "A context holds no words: it is one vector.",
        },
    ),
    "far-away": Question(
        "The encodings of places 3 and 8 have a certain dot product. What is that of places 103 and 108?",
        answer=_far_away,
        because="Every pair gives cos of its frequency times the distance, and the distance is 5 both times.",
        choices={
            "smaller": "Nothing fades: sine and cosine go round. Only the distance, 5, matters.",
            "the same": "",
            "larger": "Sine and cosine do not grow with the place.",
        },
    ),
    "slowest-pair": Question(
        "D = 64, base 10000: pair i turns by 10000 to the power of -2i / 64 radians a token. After how many tokens has "
        "the slowest pair come round once?",
        answer=_slowest,
        because="It turns by 10000 to the power of -62/64 a token, and a round is 2π.",
        choices={
            "about 6": "That is the fastest pair: 1 radian a token, and a round has 2π of them.",
            "about 10,000": "That is the base. The slowest pair does not quite reach it, and a round is 2π, not 1.",
            "about 47,000": "",
        },
    ),
    "turned-values": Question(
        "Suppose you turned the values, too. All tokens move on by 100 places. What happens to the context?",
        answer=_turned_values,
        because="The weights stay, but all values are turned further, and so is their mixture: nothing undoes it.",
        choices={
            "nothing": "That holds for the weights, where a turned q meets a turned k. A value meets nobody.",
            "the context changes": "",
            "the weights change": "The weights come from q and k alone, and these keep their distances.",
        },
    ),
}

QUESTIONS: dict[str, Question] = _NINE | _TEN
