"""The predictions of lesson 8, masks, as data. Right answers are computed, not typed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.exercises.asking import Question
from mha_course.experiments.leakage import token_dependence
from mha_course.masks import causal_mask, combine_masks, padding_mask

_EVERYTHING, _REAL, _PADDING = "everything", "the three words", "the two paddings"


def _seen(mask: Tensor, *, heads: int = 4) -> Tensor:
    """Return which keys have a weight above 0, (B, H, 5, 5), found by values that show the weights."""
    q, k = torch.randn(2, 2, heads, 5, 6, generator=torch.Generator().manual_seed(0))
    return F.scaled_dot_product_attention(q, k, torch.eye(5).expand(2, heads, 5, 5), mask) > 0


def _fits() -> str:
    """Try each shape, and find the one that hides from everybody the padding of sentence 1 alone."""
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # (B, S)
    want = real[:, None, None].expand(2, 4, 5, 5)
    ways = {
        "(2, 5)": real,
        "(2, 1, 1, 5)": real[:, None, None],
        "(2, 1, 5, 1)": real[:, None, :, None],
        "(2, 5, 5)": real[:, None].expand(2, 5, 5),
    }
    return " and ".join(name for name, mask in ways.items() if _works(mask, want))


def _works(mask: Tensor, want: Tensor) -> bool:
    """Say whether a mask is taken, and lets see what is wanted."""
    try:
        return torch.equal(_seen(mask), want)
    except RuntimeError:
        return False


def _three_axes() -> str:
    """Give two heads and two sentences a mask (B, T, S), and see who took what."""
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[1, :, 3:] = False  # meant for sentence 1
    try:
        hidden = ~_seen(mask, heads=2)[:, :, 0, -1]  # (B, H)
    except RuntimeError:
        return "it raises"
    ways = {(True, False): "sentence b gets mask b", (False, True): "head h gets mask h"}
    return ways[bool(hidden[1, 0]), bool(hidden[0, 1])]


def _blind_rows() -> str:
    """Count the rows that see nothing."""
    left = padding_mask([2], 5, side="left")
    return str(int((~combine_masks(causal_mask(5), left).any(-1)).sum()))


def _corner() -> str:
    """Count the keys that a single query sees."""
    q, k = torch.ones(1, 1, 6), torch.ones(1, 7, 6)
    weights = F.scaled_dot_product_attention(q, k, torch.eye(7)[None], is_causal=True)
    return str(int((weights > 0).sum()))


def _ignored() -> str:
    """Ask PyTorch's module which keys it looks at."""
    module, x = nn.MultiheadAttention(24, 4, batch_first=True), torch.ones(1, 5, 24)
    real = torch.tensor([[True, True, True, False, False]])
    weights = module(x, x, x, key_padding_mask=real)[1]
    seen = tuple((weights[0, 0] > 0).tolist())
    return {tuple(real[0].tolist()): _REAL, tuple((~real[0]).tolist()): _PADDING}.get(seen, _EVERYTHING)


def _after_softmax() -> str:
    """Change later tokens and look at earlier outputs."""
    allowed = causal_mask(5)
    found = token_dependence(lambda x: (x @ x.mT).softmax(-1).masked_fill(~allowed, 0.0) @ x, torch.ones(1, 5, 6))
    ahead = (found & ~allowed).nonzero()
    if not len(ahead):
        return "no, its weight is 0"
    return "yes, through the sum" if int((ahead[:, 1] - ahead[:, 0]).max()) > 1 else "only if it is the next one"


QUESTIONS: dict[str, Question] = {
    "causal-count": Question(
        "A causal mask for 6 tokens has 36 entries. How many are True?",
        answer=lambda: str(int(causal_mask(6).sum())),
        because="1 + 2 + 3 + 4 + 5 + 6: row t has t + 1 of them, if the first row is row 0.",
        wrong={
            "15": "That leaves out the diagonal. A token sees itself, too: the first one would have nothing else.",
            "18": "A little more than half: the diagonal belongs to it whole.",
            "36": "Then nothing would be hidden.",
            "6": "That is the diagonal alone. Each token sees all that came before, too.",
        },
        nudge="Count row by row: what does token 0 see, what token 1?",
    ),
    "padding-shape": Question(
        "Scores are (2, 4, 5, 5), which is (B, H, T, S). Sentence 1 has two paddings, which nobody should see. "
        "Which shape must the mask have?",
        answer=_fits,
        because="One row of keys for each sentence, and axes of size 1 for all heads and all queries.",
        choices={
            "(2, 5)": "Shapes are matched from the right: the 2 would meet T = 5, and the call stops. "
            "At T = 2 it would run, as a mask (T, S).",
            "(2, 1, 1, 5)": "",
            "(2, 1, 5, 1)": "That hides whole queries, and leaves the padding to be seen by all others.",
            "(2, 5, 5)": "Matched from the right the 2 would meet H = 4, and the call stops. At H = 2 it would run, "
            "and the heads would share out the sentences' masks.",
        },
    ),
    "three-axes": Question(
        "Two sentences and two heads. scaled_dot_product_attention gets a mask (B, T, S), one matrix a sentence. "
        "What happens?",
        answer=_three_axes,
        because="Shapes are matched from the right, so the first axis of the mask meets the heads. Nobody complains.",
        choices={
            "it raises": "It would with two sentences and four heads. Here 2 meets 2, and fits.",
            "sentence b gets mask b": "That needs an axis for the heads: (B, 1, T, S).",
            "head h gets mask h": "",
        },
    ),
    "blind-rows": Question(
        "Two words are filled up to five places, with the padding on the left. The mask is causal and hides padding. "
        "How many of the five rows see nothing?",
        answer=_blind_rows,
        because="The three paddings. Each may only look at itself and back, and there is only padding.",
        wrong={
            "0": "Look at the first row. It may see itself alone, and it is padding.",
            "1": "The first row is one. What do the second and the third see?",
            "2": "Count the paddings again: 5 - 2.",
            "5": "The two words see themselves.",
        },
    ),
    "causal-corner": Question(
        "One new token asks, and there are 7 keys, its own the last. How many does it see in "
        "scaled_dot_product_attention with is_causal=True?",
        answer=_corner,
        because="The triangle stands at the top left: query 0 sees key 0. The newest token sees the oldest alone.",
        wrong={
            "7": "It should, being the last of all tokens. But the triangle is not at the bottom right.",
            "0": "The diagonal is allowed: query 0 sees key 0.",
            "6": "Not itself? The diagonal is allowed, but it starts at the top left.",
        },
        nudge="Draw a matrix of 1 row and 7 columns. Where does its diagonal start?",
    ),
    "who-ignores": Question(
        "A sentence of three words has two paddings. nn.MultiheadAttention gets key_padding_mask = [True, True, True, "
        "False, False]. What does a query look at?",
        answer=_ignored,
        because="There True means “ignore this key”. The words are ignored, and no error tells you.",
        choices={
            _REAL: "So it would be in this course, where True = may attend. This module means the opposite.",
            _PADDING: "",
            _EVERYTHING: "A bool mask always hides something, unless all of it says “may attend”.",
        },
    ),
    "after-softmax": Question(
        "Softmax first, over all keys. Then the weights of later tokens are set to 0, and nothing more. Can a later "
        "token change the output of an earlier one?",
        answer=_after_softmax,
        because="Softmax divides by a sum over all keys, the later ones included. The sum tells about them.",
        choices={
            "no, its weight is 0": "Its own weight is. Look at what the other weights were divided by.",
            "yes, through the sum": "",
            "only if it is the next one": "The sum runs over all keys, near and far.",
        },
    ),
}
