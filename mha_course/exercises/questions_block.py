"""The predictions of lesson 13, the encoder block, as data. Right answers are computed, not typed."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from mha_course.exercises.asking import Question
from mha_course.experiments.leakage import token_dependence
from mha_course.models import EncoderBlock


def _block(*, norm_first: bool = True) -> EncoderBlock:
    """Make a small block, the same in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return EncoderBlock(24, 4, 96, norm_first=norm_first)


def _tokens() -> torch.Tensor:
    """Draw two sentences of five words."""
    return torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(1))


def _passed_back() -> str:
    """Compare the gradients before and behind a layer whose part is all 0."""
    part = nn.Linear(24, 24)
    nn.init.zeros_(part.weight)
    nn.init.zeros_(part.bias)
    x, above = _tokens().requires_grad_(), torch.ones(2, 5, 24)
    (below,) = torch.autograd.grad(x + part(x), x, above)
    factor = float((below / above).mean())
    return {0.0: "nothing of it", 1.0: "all of it, unchanged", 2.0: "twice as much"}[factor]


def _largest() -> str:
    """Norm one small token."""
    return f"{F.layer_norm(torch.tensor([1.0, 2.0, 3.0, 6.0]), (4,)).max():.2f}"


def _who_changes() -> str:
    """Change one token, and look at all."""
    found = token_dependence(_block().feed_forward, _tokens())
    ways = {5: "its own alone", 25: "those of all words", 15: "its own and all later ones"}
    return ways[int(found.sum())]


def _where_numbers_are() -> str:
    """Count what a block learns."""
    block = _block()
    inside, whole = (sum(p.numel() for p in m.parameters()) for m in (block.feed_forward, block))
    ways = {"a third": 1 / 3, "half": 1 / 2, "two thirds": 2 / 3}
    return min(ways, key=lambda way: abs(ways[way] - inside / whole))


def _passes_unchanged() -> str:
    """Silence both parts of each wiring, and see which hands x on as it is."""
    x, found = _tokens(), []
    for name, norm_first in (("pre-norm", True), ("post-norm", False)):
        block = _block(norm_first=norm_first)
        for last in ("attention.out_proj", "feed_forward.3"):
            nn.init.zeros_(block.get_parameter(f"{last}.weight"))
            nn.init.zeros_(block.get_parameter(f"{last}.bias"))
        if torch.equal(block(x), x):
            found.append(name)
    return ("neither", f"{''.join(found)} only", "both")[len(found)]


def _dropped() -> str:
    """Drop many ones, and list what comes out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        out = F.dropout(torch.ones(1000), 0.25, training=True)
    return " or ".join(f"{value:.3f}".rstrip("0").rstrip(".") for value in out.unique().tolist())


QUESTIONS: dict[str, Question] = {
    "residual-gradient": Question(
        "A layer computes x + f(x), and all weights and biases of f are 0. A gradient arrives from above. What of it "
        "reaches x?",
        answer=_passed_back,
        because="It comes through the sum, where the slope is 1. f adds its own share, which here is 0.",
        choices={
            "nothing of it": "So it would be without the sum: f(x) alone has the slope 0.",
            "all of it, unchanged": "",
            "twice as much": "There are two paths, but the one through f carries nothing here.",
        },
    ),
    "norm-by-hand": Question(
        "A token is [1, 2, 3, 6]. Layer norm, with gamma 1 and beta 0: what becomes of the 6? Two decimals.",
        answer=_largest,
        because="The mean is 3. The squares of what is left, 4 + 1 + 0 + 9, have the mean 3.5, and 3 / √3.5 = 1.60.",
        wrong={
            "1.39": "You divided the squares by n - 1 = 3. Layer norm divides by n = 4.",
            "3": "The mean is gone. Now divide by the spread.",
            "0.86": "You divided by the variance. Its root is what is needed.",
            "1.5": "You divided by 2. The spread is the root of the mean square.",
        },
        nudge="Subtract the mean; then divide by the root of the mean of the squares.",
        tolerance=0.01,
    ),
    "feed-forward-reach": Question(
        "You change one word of a sentence, right before the feed-forward part. Which words' results change?",
        answer=_who_changes,
        because="The same two Linears run over each word by itself. Only attention carries things between words.",
        choices={
            "its own alone": "",
            "those of all words": "That is attention. Nothing in the feed-forward part reads a second word.",
            "its own and all later ones": "That is attention under a causal mask.",
        },
    ),
    "where-numbers-are": Question(
        "d_model is 24, and the feed-forward part is 4 times as wide inside. Which share of a block's numbers does it "
        "hold?",
        answer=_where_numbers_are,
        because="Two matrices of C · 4C are 8 C². Attention has four of C · C, so 4 C².",
        choices={
            "a third": "That is attention's share: four matrices of C · C.",
            "half": "Count matrices of C · C: attention has four. How many fit into two of C · 4C?",
            "two thirds": "",
        },
    ),
    "silent-parts": Question(
        "Attention and feed-forward both return 0, whatever they read. In which wiring does the block hand x on "
        "exactly as it is?",
        answer=_passes_unchanged,
        because="In pre-norm the norms stand before the parts, off the stream. In post-norm all passes through them.",
        choices={
            "pre-norm only": "",
            "post-norm only": "Look again: where do its norms stand?",
            "both": "In post-norm, x still runs through two norms.",
            "neither": "One of them adds 0 to x, twice, and does nothing else.",
        },
    ),
    "dropout-values": Question(
        "Dropout with p = 0.25 gets a 1, in training. What can come out?",
        answer=_dropped,
        because="A quarter becomes 0; the others are divided by 0.75, so that the mean stays 1.",
        choices={
            "0 or 1": "Then the mean would fall to 0.75, and evaluation would see larger numbers than training did.",
            "0 or 1.333": "",
            "0.75": "That is the mean of what is kept before it is scaled up. Each number is either kept or not.",
        },
    ),
}
