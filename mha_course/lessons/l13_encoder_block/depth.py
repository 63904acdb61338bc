"""What happens to words and gradients in a deep stack of untrained blocks.

Axes: N draws, B sentences, S tokens, C = d_model width, L layers, V words in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.models import EncoderBlock, seeded

SENTENCES = 8
TOKENS = 15
WIDTH = 48
HEADS = 4
INNER = 192
WORDS = 100
Wiring = Callable[[EncoderBlock, Tensor], Tensor]
Start = Literal["Xavier", "torch", "GPT-2"]  # how parameters are drawn


class Depth(NamedTuple):
    """Measurements on N draws of L layers: before the first layer and after each, or in each."""

    cosine: Tensor  # (N, L+1): the mean cosine between two words of a sentence
    rms: Tensor  # (N, L+1): the root of the mean square of x
    at_x: Tensor  # (N, L+1): the length of the gradient that reaches x there
    at_weights: Tensor  # (N, L): the same at the feed-forward part's last matrix


def bare(block: EncoderBlock, x: Tensor) -> Tensor:
    """Let each part replace its input."""
    return block.feed_forward(block.attention(x)[0])


def norms_alone(block: EncoderBlock, x: Tensor) -> Tensor:
    """Normalise each part's input, and let the part replace it."""
    return block.feed_forward(block.norm2(block.attention(block.norm1(x))[0]))


def sums_alone(block: EncoderBlock, x: Tensor) -> Tensor:
    """Add each part's output to the stream, without norms."""
    x = x + block.attention(x)[0]
    return x + block.feed_forward(x)


def pre_norm(block: EncoderBlock, x: Tensor) -> Tensor:
    """Add each part's output on a normalised copy."""
    x = x + block.attention(block.norm1(x))[0]
    return x + block.feed_forward(block.norm2(x))


def post_norm(block: EncoderBlock, x: Tensor) -> Tensor:
    """Add each part's output, and normalise the sum."""
    x = block.norm1(x + block.attention(x)[0])
    return block.norm2(x + block.feed_forward(x))


def measure(
    wiring: Wiring,
    num_layers: int,
    *,
    last_norm: bool = False,
    draws: int = 10,
    start: Start = "Xavier",
) -> Depth:
    """Send random words through untrained blocks, and a gradient back, once for each draw.

    The words are unit-normal (B, S, C). A last Linear, after a norm if last_norm is set, turns them
    into logits, and the loss is the cross-entropy with random words. start says how the blocks are
    initialised. All in float64 on the CPU.

    Args: ``wiring(block, x)`` runs one block; num_layers is L, draws is N, both at least 1.

    Words drawn at random have little in common:

    >>> bool(measure(lambda block, x: x, 2, draws=1).cosine[0, 0] < 0.1)
    True
    """
    measured = [_measure_once(wiring, num_layers, last_norm, start, seed) for seed in range(draws)]
    return Depth(*map(torch.tensor, zip(*measured, strict=True)))


def blocks(num_layers: int, start: Start = "Xavier") -> list[EncoderBlock]:
    """Return untrained blocks in float64, initialised as in Glorot and Bengio (2010) by default.

    "torch" keeps torch's initialisation. "GPT-2" has standard deviation 0.02, divided by the root
    of the number of sums in matrices whose results are added (Radford et al. 2019, section 2.3).
    """
    stack = [EncoderBlock(WIDTH, HEADS, INNER).double() for _ in range(num_layers)]
    if start == "torch":
        return stack
    for name, module in [pair for block in stack for pair in block.named_modules()]:
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
            if start == "Xavier":
                nn.init.xavier_uniform_(module.weight)
            else:
                sums = 2 * num_layers if name in ("attention.out_proj", "feed_forward.3") else 1
                nn.init.normal_(module.weight, std=0.02 / sums**0.5)
    return stack


def mean_cosine(x: Tensor) -> float:
    """Return the mean cosine between two different words of a sentence, x (B, S, C).

    >>> round(mean_cosine(torch.tensor([[[1.0, 0.0], [2.0, 2.0]]])), 3)
    0.707
    """
    # bare stacks shrink below F.normalize's default eps of 1e-12
    unit = F.normalize(x, dim=-1, eps=1e-30)  # (B, S, C)
    cosines = unit @ unit.mT  # (B, S, S)
    different = ~torch.eye(x.size(1), dtype=torch.bool)
    return float(cosines[:, different].mean())


def _measure_once(
    wiring: Wiring, num_layers: int, last_norm: bool, start: Start, seed: int
) -> tuple[list[float], list[float], list[float], list[float]]:  # in the order of Depth
    with seeded(seed):
        stack = blocks(num_layers, start)
        to_words = nn.Linear(WIDTH, WORDS, dtype=torch.float64)
        nn.init.xavier_uniform_(to_words.weight)
        x = torch.randn(SENTENCES, TOKENS, WIDTH, dtype=torch.float64).requires_grad_()
        streams = [x]  # (B, S, C) each
        targets = torch.randint(WORDS, (SENTENCES * TOKENS,))
    for block in stack:
        streams.append(wiring(block, streams[-1]))
    out = F.layer_norm(streams[-1], (WIDTH,)) if last_norm else streams[-1]
    loss = F.cross_entropy(to_words(out).flatten(0, 1), targets)
    matrices = [block.get_parameter("feed_forward.3.weight") for block in stack]
    gradients = torch.autograd.grad(loss, [*streams, *matrices], allow_unused=True)
    lengths = [0.0 if gradient is None else float(gradient.norm()) for gradient in gradients]
    cosines = [mean_cosine(x.detach()) for x in streams]
    rms = [float(x.detach().square().mean().sqrt()) for x in streams]
    return cosines, rms, lengths[: num_layers + 1], lengths[num_layers + 1 :]
