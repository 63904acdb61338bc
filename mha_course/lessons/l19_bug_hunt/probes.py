"""Probes of what holds for any right ``CausalAttention``: each calls a module and returns one
number, and what a right module gives.

Axes: B sentences, S tokens, C width, H heads, G key-value heads, D = C / H.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from mha_course.caching import KVCache
from mha_course.errors import require
from mha_course.experiments.faulty_attention import CausalAttention
from mha_course.models import seeded

RIGHT = (0, 0)  # of no case: the right module, and readings for a verdict
NOTHING = 1e-9  # anything smaller is float64 rounding


@dataclass(frozen=True, repr=False)
class Reading:
    """A probe's number; for a right module it is ``right``."""

    value: float
    label: str
    right: float = 0.0
    total: int = 0  # the total if it is a count, else 0

    @property
    def finds(self) -> bool:
        """Whether no right module gives this number; none gives NaN."""
        return not abs(self.value - self.right) <= NOTHING

    @property
    def pattern(self) -> float:
        """What does not depend on the parameters: a count, 0, 1 for any other number, or infinity
        for NaN.
        """
        if math.isnan(self.value):
            return math.inf
        return self.value if self.total else float(self.finds)

    def __repr__(self) -> str:
        return f"{self.written:>8}  {self.label}"

    @property
    def written(self) -> str:
        """The number as displayed.

        >>> [Reading(value, "").written for value in (1e-12, 0.12345, 0.000123, math.nan)]
        ['0', '0.123', '1e-04', 'NaN']
        >>> Reading(6, "", total=7).written
        '6 of 7'
        """
        return self._write(self.value)

    @property
    def expected(self) -> str:
        """A right module's number."""
        return self._write(self.right)

    def _write(self, value: float) -> str:
        if math.isnan(value):
            return "NaN"
        if self.total:
            return f"{value} of {self.total}"
        if not abs(value) > NOTHING:
            return "0"
        return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


Probe = Callable[..., Reading]  # CausalAttention's first
PROBES: dict[str, Probe] = {}
READINGS: Counter[tuple[int, int]] = Counter()  # by a case's seed and number


def probe(function: Probe) -> Probe:
    """Register a probe, and count each of its readings of a case."""

    @wraps(function)
    def counted(module: CausalAttention, *args: Any, **options: Any) -> Reading:
        READINGS[vars(module).get("case", RIGHT)] += 1
        return function(module, *args, **options)

    PROBES[function.__name__] = counted
    return counted


def about(function: Probe) -> str:
    """Return what a probe does, and which lessons explain it."""
    does = (function.__doc__ or "").partition("\n\n")[0]
    return " ".join(does.replace("`", "").split())


def count(flags: Tensor, label: str, right: int = 0) -> Reading:
    """Count what is true in found."""
    return Reading(int(flags.sum()), label, right, flags.numel())


def tokens(module: CausalAttention, batch: int = 2, length: int = 7, seed: int = 0) -> Tensor:
    """Draw tokens (B, S, C) of a module's width and dtype."""
    weight = module.q_proj.weight
    with seeded(seed):
        return torch.randn(batch, length, weight.size(1), dtype=torch.float64).to(weight)


def right(module: CausalAttention) -> CausalAttention:
    """Return attention without a mistake, with a module's parameters."""
    twin = CausalAttention(module.q_proj.in_features, module.num_heads, module.num_kv_heads)
    twin.load_state_dict(module.state_dict())
    return twin.to(module.q_proj.weight).eval()


def difference(first: Tensor, second: Tensor) -> float:
    """Return the largest difference of two tensors of one shape; NaN if any number is NaN."""
    return (first - second).detach().abs().amax().item()


def _with_cache(
    module: CausalAttention, x: Tensor, sizes: tuple[int, ...], before: Tensor | None = None
) -> Tensor:
    """Give a copy of the module tokens (B, S, C) in pieces, with a new cache, and return all
    outputs. Optionally it first reads another text, token by token, with another cache.
    """
    module, cache = copy.deepcopy(module), KVCache()
    if before is not None:
        other_cache = KVCache()
        for token in before.split(1, dim=1):
            module(token, None, other_cache)
    return torch.cat([module(piece, None, cache) for piece in x.split(sizes, dim=1)], dim=1)


@probe
def alone(module: CausalAttention) -> Reading:
    """Take each sentence out of a batch of three, each padded in front (lesson 2)."""
    x = tokens(module, batch=3)
    mask = torch.arange(7) >= torch.tensor([[0], [2], [3]])  # (3, 7)
    singles = [module(*pair) for pair in zip(x.split(1), mask.split(1), strict=True)]
    real = mask[..., None]
    off = difference(torch.cat(singles).where(real, 0.0), module(x, mask).where(real, 0.0))
    return Reading(off, "sentences in a batch against each on its own")


@probe
def lengths(module: CausalAttention) -> Reading:
    """Cut the last three of seven tokens off (lesson 15)."""
    x = tokens(module)
    off = difference(module(x)[:, :4], module(x[:, :4]))
    return Reading(off, "first four outputs of seven tokens against those of four")


@probe
def leaks(module: CausalAttention) -> Reading:
    """Change each of seven tokens, and count the pairs of token and changed output (lesson 8)."""
    mask = torch.ones(2, 7, dtype=torch.bool)
    return _felt(lambda x: module(x, mask), tokens(module), "with all tokens shown", 28)


@probe
def window(module: CausalAttention) -> Reading:
    """Set its window to 3, and count as ``leaks`` does (lesson 8)."""
    twin = copy.deepcopy(module)
    twin.window = 3
    return _felt(twin, tokens(module), "with a window of 3", 18)


@probe
def cached_leaks(module: CausalAttention) -> Reading:
    """Give three tokens, then four, with a cache, and count as ``leaks`` does (lesson 11)."""
    condition = "in pieces of 3 and 4 tokens with a cache"
    return _felt(lambda x: _with_cache(module, x, (3, 4)), tokens(module), condition, 28)


def _felt(call: Callable[[Tensor], Tensor], x: Tensor, condition: str, right: int) -> Reading:
    """Count the pairs of an output and a token whose change affects it."""
    before, columns = call(x), []
    for s in range(x.size(1)):
        changed = x.clone()
        changed[:, s] *= -1
        columns.append(~((call(changed) - before).abs().amax((0, 2)) <= NOTHING))  # NaN is off
    label = f"pairs of an output and a token that changes it, {condition}"
    return count(torch.stack(columns), label, right)


@probe
def padding(module: CausalAttention) -> Reading:
    """Put three hidden tokens in front, and pass all with an empty cache (lessons 8, 10 and 11)."""
    x, padded, mask = _padded(module)
    off = difference(copy.deepcopy(module)(padded, mask, KVCache())[:, 3:], module(x))
    return Reading(
        off, "outputs with hidden tokens in front and an empty cache, against a plain call"
    )


@probe
def hidden(module: CausalAttention) -> Reading:
    """Replace three hidden tokens with others (lesson 8)."""
    _, padded, mask = _padded(module)
    replaced = padded.clone()
    replaced[:, :3] *= -2
    off = difference(module(padded, mask)[:, 3:], module(replaced, mask)[:, 3:])
    return Reading(off, "outputs after the hidden tokens are replaced, against before")


def _padded(module: CausalAttention) -> tuple[Tensor, Tensor, Tensor]:
    x = tokens(module)
    padded = torch.cat((tokens(module, length=3, seed=1), x), dim=1)  # (B, 3+S, C)
    return x, padded, (torch.arange(10) >= 3).expand(2, 10)


@probe
def empty_rows(module: CausalAttention) -> Reading:
    """Hide every key from three tokens, which leaves the bias of W_O (lessons 4 and 8)."""
    mask = (torch.arange(7) >= 3).expand(2, 7)
    out = module(tokens(module), mask)[:, :3] - module.out_proj.bias
    differs = ~(out.abs().amax((0, 2)) <= NOTHING)  # (3,)
    return count(differs, "outputs other than the bias of W_O, of tokens that see nothing")


@probe
def alike(module: CausalAttention) -> Reading:
    """Pass one token seven times: each output is that of the token alone (lesson 5)."""
    single = tokens(module, length=1)
    out = module(single.expand(-1, 7, -1).contiguous()) - module(single)
    differs = ~(out.abs().amax((0, 2)) <= NOTHING)  # (7,)
    return count(differs, "outputs of equal tokens that differ from that of one alone")


@probe
def one_token(module: CausalAttention) -> Reading:
    """Pass one token alone: its output is W_O of its own values (lessons 5 and 11)."""
    x = tokens(module, length=1)
    values = _heads(module, module.v_proj(x)[:, 0])
    off = difference(module(x)[:, 0], module.out_proj(values.flatten(1)))
    return Reading(off, "the output of one token against W_O of its values")


LIKE = {
    "values": "its values",
    "keys": "its keys",
    "values sorted": "its values, both sorted by size",
    "heads sorted": "its values, of each head the first number, both sorted by size",
}


@probe
def merged(module: CausalAttention, like: str = "values") -> Reading:
    """Pass one token alone, and compare W_O's input with its own values (lessons 6 and 11).

    Args: like is "values", "keys" for its keys, "values sorted" to sort both first, or "heads
        sorted" to take and sort only each head's first number.
    """
    rule = "like says what is compared"
    require(like in LIKE, "merged", rule, expected=", ".join(LIKE), got=repr(like))
    x = tokens(module, length=1)
    bare = copy.deepcopy(module)
    bare.out_proj.load_state_dict(
        {"weight": torch.eye(x.size(-1)), "bias": torch.zeros(x.size(-1))}
    )
    projection = module.k_proj if like == "keys" else module.v_proj
    values = _heads(module, projection(x)[:, 0])  # (B, H, D)
    inputs = bare(x)[:, 0].unflatten(1, values.shape[1:])  # (B, H, D), what W_O gets
    if like == "heads sorted":
        inputs, values = (heads[:, :, 0].sort().values for heads in (inputs, values))
    elif like == "values sorted":
        inputs, values = (heads.flatten(1).sort().values for heads in (inputs, values))
    return Reading(difference(inputs, values), f"W_O's input for one token against {LIKE[like]}")


def _heads(module: CausalAttention, x: Tensor) -> Tensor:
    """Split keys or values (B, G·D) and repeat them for all heads, (B, H, D)."""
    return right(module).repeat(x.unflatten(1, (module.num_kv_heads, 1, -1))).squeeze(2)


@probe
def cached(module: CausalAttention) -> Reading:
    """Pass tokens one by one, with a cache (lesson 11)."""
    x = tokens(module)
    off = difference(_with_cache(module, x, (1,) * 7), module(x))
    return Reading(off, "token by token with a cache against all at once")


@probe
def second_text(module: CausalAttention) -> Reading:
    """Pass a text token by token, then a second one with a new cache (lesson 11)."""
    x, first = tokens(module), tokens(module, seed=1)
    off = difference(_with_cache(module, x, (1,) * 7, first), module(x))
    return Reading(off, "a second text, token by token with its own cache, against all at once")


@probe
def texts(module: CausalAttention) -> Reading:
    """Pack a text of four tokens and one of three into one row (lessons 8 and 15)."""
    x = tokens(module)
    numbers = torch.tensor([[1, 1, 1, 1, 2, 2, 2]]).expand(2, 7)
    singles = torch.cat([module(text) for text in x.split((4, 3), dim=1)], dim=1)
    return Reading(
        difference(module(x, texts=numbers), singles), "two packed texts against each alone"
    )


@probe
def gradients(module: CausalAttention) -> Reading:
    """Hide three tokens, run backward, and count gradients that are 0 or NaN (lessons 4 and 13)."""
    twin, mask = copy.deepcopy(module), (torch.arange(7) >= 3).expand(2, 7)
    twin(tokens(module), mask).square().sum().backward()
    grads = [parameter.grad for parameter in twin.parameters()]
    missing = [grad is None or not bool(grad.abs().max() > NOTHING) for grad in grads]
    return count(torch.tensor(missing), "weights and biases whose gradient is 0 or NaN")


@probe
def divisor(module: CausalAttention, by: float | None = None) -> Reading:
    """Compare the last output with that for scores divided by a number, here √D (lesson 3).

    Args: by is the number.
    """
    root = math.sqrt(module.q_proj.in_features // module.num_heads)
    by = root if by is None else by
    valid = isinstance(by, int | float) and by > 0
    require(valid, "divisor", "by is a number", expected="such as 24 ** 0.5", got=repr(by))
    x, twin = tokens(module), right(module)
    for parameter in twin.q_proj.parameters():
        parameter.data *= root / by
    off = difference(module(x)[:, -1], twin(x)[:, -1])
    return Reading(off, f"the last output against one with scores divided by {by:.3g}")


@probe
def exchange(module: CausalAttention) -> Reading:
    """Swap a group's query heads, and W_O's columns for them (lesson 6)."""
    twin = copy.deepcopy(module)
    heads = module.num_heads
    width = torch.arange(module.q_proj.in_features)
    order = width.view(module.num_kv_heads, -1, len(width) // heads).roll(1, 1).flatten()  # (C,)
    for parameter in twin.q_proj.parameters():
        parameter.data = parameter.data[order]
    twin.out_proj.weight.data = twin.out_proj.weight.data[:, order]
    x = tokens(module)
    return Reading(
        difference(twin(x), module(x)), "outputs after heads are swapped, against before"
    )


@probe
def same_as_right(module: CausalAttention) -> Reading:
    """Compare with the right module that has the same parameters (lesson 7)."""
    x = tokens(module)
    return Reading(
        difference(module(x), right(module)(x)), "outputs against those of the right one"
    )


DIVISORS: dict[str, Callable[[int, int], float]] = {  # of C and D
    "1": lambda c, d: 1.0,
    "C ** 0.5": lambda c, d: c**0.5,
    "D": lambda c, d: d,
    "7 ** 0.5": lambda c, d: 7**0.5,
}


def _divided(module: CausalAttention, by: Callable[[int, int], float]) -> Reading:
    width = module.q_proj.in_features
    return divisor(module, by(width, width // module.num_heads))


PLAIN = {f"{name}(module)": probe for name, probe in PROBES.items()}
CALLS: dict[str, Probe] = {  # as a learner writes them
    **PLAIN,
    **{f'merged(module, "{like}")': partial(merged, like=like) for like in [*LIKE][1:]},
    **{f"divisor(module, {name})": partial(_divided, by=by) for name, by in DIVISORS.items()},
}
