"""What is true of every right attention of ``faulty_attention``, as probes: they call a module and
return numbers, those that are 0 for every right module apart from those that are clues.

Axes: B sentences, S tokens, C width, H heads, G heads of k and v, D = C / H.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mha_course.caching import KVCache
from mha_course.experiments.faulty_attention import CausalAttention
from mha_course.models import seeded

NOTHING = 1e-9  # what is smaller is rounding, in float64
HALF = "outputs in half precision minus in double, 0 up to 0.05"


@dataclass(frozen=True, repr=False)
class Reading:
    """The numbers of a probe: those that are 0 for every right module, and clues."""

    zero: dict[str, float]
    clues: dict[str, float] = field(default_factory=dict)  # a 0 says what there is instead

    @property
    def finds(self) -> bool:
        """Whether a number is not 0 that should be."""
        return any(map(is_off, self.zero.values()))

    @property
    def pattern(self) -> tuple[tuple[str, bool], ...]:
        """Which numbers are not 0, whatever the parameters."""
        return tuple((label, is_off(value)) for label, value in {**self.zero, **self.clues}.items())

    def __repr__(self) -> str:
        lines = [f"{written(value):>8}  {label}" for label, value in self.zero.items()]
        if self.clues:
            lines.append("a 0 here is a clue:")
        lines += [f"{written(value):>8}  {label}" for label, value in self.clues.items()]
        return "\n".join(lines)


class Count(int):
    """How many of some things are true."""

    total: int

    def __new__(cls, found: Tensor) -> Count:
        """Count what is true in found."""
        count = super().__new__(cls, found.sum().item())
        count.total = found.numel()
        return count


Probe = Callable[[CausalAttention], Reading]


def is_off(value: float) -> bool:
    """Return whether a number is not 0 but for rounding; NaN is not."""
    return not abs(value) <= NOTHING


def written(value: float) -> str:
    """Write a number of a probe.

    >>> [written(value) for value in (1e-12, Count(torch.eye(3) > 0), 0.12345, 0.000123, math.nan)]
    ['0', '3 of 9', '0.123', '1e-04', 'NaN']
    """
    if isinstance(value, Count):
        return f"{value:d} of {value.total}"
    if math.isnan(value):
        return "NaN"
    if not is_off(value) or value == int(value):
        return f"{value:.0f}"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def tokens(module: CausalAttention, batch: int = 2, length: int = 7, seed: int = 0) -> Tensor:
    """Draw tokens (B, S, C) as wide as a module wants them, of its dtype."""
    weight = module.q_proj.weight
    with seeded(seed):
        return torch.randn(batch, length, weight.size(1), dtype=torch.float64).to(weight)


def right(module: CausalAttention) -> CausalAttention:
    """Return the attention without a mistake, with the parameters of a module."""
    twin = CausalAttention(module.q_proj.in_features, module.num_heads, module.num_kv_heads)
    twin.load_state_dict(module.state_dict())
    return twin.to(module.q_proj.weight).eval()


def difference(one: Tensor, other: Tensor) -> float:
    """Return by how much two tensors of one shape differ at most; NaN where a number is NaN."""
    return (one - other).detach().abs().amax().item()


def one_by_one(module: CausalAttention, x: Tensor) -> Tensor:
    """Give tokens (B, S, C) one at a time, with a new cache, and return all outputs (B, S, C)."""
    cache = KVCache()
    return torch.cat([module(x[:, s : s + 1], None, cache) for s in range(x.size(1))], dim=1)


def repeat(module: CausalAttention) -> Reading:
    """Call it twice with the same tokens."""
    x = tokens(module)
    return Reading({"the second call minus the first": difference(module(x), module(x))})


def alone(module: CausalAttention) -> Reading:
    """Take each sentence out of a batch of three."""
    x = tokens(module, batch=3)
    masks = torch.arange(7) >= torch.tensor([[0], [2], [3]])  # (3, 7), padding in front
    pairs = zip(x.split(1), masks.split(1), strict=True)
    without, masked = zip(*((module(one), module(one, mask)) for one, mask in pairs), strict=True)
    real = masks[..., None]
    return Reading(
        {
            "sentences in a batch minus alone": difference(torch.cat(without), module(x)),
            "sentences in a batch minus alone, with a mask for each": difference(
                torch.cat(masked).where(real, 0.0), module(x, masks).where(real, 0.0)
            ),
        }
    )


def leaks(module: CausalAttention) -> Reading:
    """Change each token, and count which outputs change."""
    x = tokens(module)
    shown = torch.ones(x.shape[:2], dtype=torch.bool)
    with_mask = _felt(lambda changed: module(changed, shown), x)
    masked = {f"{label}, with a mask that hides nothing": n for label, n in with_mask.items()}
    return Reading({**_felt(module, x), **masked})


def _felt(call: Callable[[Tensor], Tensor], x: Tensor, window: int = 7) -> dict[str, float]:
    """Count the pairs of output and token that a right module has otherwise."""
    before, columns = call(x), []
    for s in range(x.size(1)):
        changed = x.clone()
        changed[:, s] *= -1
        columns.append(~((call(changed) - before).abs().amax((0, 2)) <= NOTHING))  # NaN is off
    feels = torch.stack(columns, dim=1)  # (S, S)
    place = torch.arange(x.size(1))
    back = place[:, None] - place  # (S, S), how far
    counts = {
        "outputs that feel the next token": feels[back == -1],
        "tokens farther ahead that are felt": feels[back < -1],
        "outputs that do not feel their own token": ~feels[back == 0],
        "earlier tokens that are not felt": ~feels[(back > 0) & (back < window)],
    }
    if window < 7:
        counts["tokens before the window that are felt"] = feels[back >= window]
    return {label: Count(found) for label, found in counts.items()}


def window(module: CausalAttention) -> Reading:
    """Set its window to 3, and count as ``leaks`` does."""
    twin = copy.deepcopy(module)
    twin.window = 3
    return Reading(_felt(twin, tokens(module), 3))


def lengths(module: CausalAttention) -> Reading:
    """Cut the last three of seven tokens off."""
    x = tokens(module)
    return Reading(
        {
            "outputs 0 to 3, of seven tokens minus of four": difference(
                module(x)[:, :4], module(x[:, :4])
            )
        }
    )


def texts(module: CausalAttention) -> Reading:
    """Pack a text of four tokens and one of three into one row."""
    x = tokens(module)
    parts, numbers = x.split((4, 3), dim=1), torch.tensor([[1, 1, 1, 1, 2, 2, 2]]).expand(2, 7)
    packed = module(x, texts=numbers).split((4, 3), dim=1)
    first, second = (difference(got, module(part)) for got, part in zip(packed, parts, strict=True))
    labels = (f"the {place} text, packed minus alone" for place in ("first", "second"))
    return Reading(dict(zip(labels, (first, second), strict=True)))


def padding(module: CausalAttention) -> Reading:
    """Put three hidden tokens in front, and others in their place."""
    x = tokens(module)
    padded = torch.cat((tokens(module, length=3, seed=1), x), dim=1)  # (B, 3+S, C)
    mask = (torch.arange(10) >= 3).expand(2, 10)
    other = padded.clone()
    other[:, :3] *= -2
    out = module(padded, mask)[:, 3:]
    return Reading(
        {
            "change of the outputs when hidden tokens change": difference(
                out, module(other, mask)[:, 3:]
            ),
            "outputs with hidden tokens in front minus without": difference(out, module(x)),
        }
    )


def empty_rows(module: CausalAttention) -> Reading:
    """Hide all that a token may attend to: its context is 0."""
    x = tokens(module).requires_grad_()
    mask = (torch.arange(7) >= 3).expand(2, 7)
    out = module(x, mask)
    (gradient,) = torch.autograd.grad(out[:, 3:].sum(), x)
    empty = module.out_proj.bias.expand_as(out[:, :3])
    return Reading(
        {
            "outputs of tokens that see nothing minus the bias of W_O": difference(
                out[:, :3], empty
            ),
            "numbers of the gradient that are NaN": Count(gradient.isnan()),
        }
    )


def alike(module: CausalAttention) -> Reading:
    """Give one token seven times: each output is that of the token alone."""
    one = tokens(module, length=1)
    out = module(one.expand(-1, 7, -1).contiguous()) - module(one)
    return Reading(
        {
            "the last output minus that of one token alone": out[:, -1].abs().max().item(),
            "the first six outputs minus that of one token alone": out[:, :-1].abs().max().item(),
        }
    )


def one_token(module: CausalAttention) -> Reading:
    """Give one token alone: all weight is on it, so W_O gets its own values."""
    x = tokens(module, length=1)
    bare = copy.deepcopy(module)
    bare.out_proj.load_state_dict(
        {"weight": torch.eye(x.size(-1)), "bias": torch.zeros(x.size(-1))}
    )
    got = bare(x)[:, 0]  # (B, C), what W_O gets
    values, keys = (_heads(module, part(x)[:, 0]) for part in (module.v_proj, module.k_proj))
    expected = values.flatten(1)  # (B, C)
    firsts = got.unflatten(1, values.shape[1:])[:, :, 0].sort().values  # (B, H)
    return Reading(
        {
            "the output minus W_O of the token's values": difference(
                module(x)[:, 0], module.out_proj(expected)
            )
        },
        {
            "the output minus what W_O gets": difference(module(x)[:, 0], got),
            "what W_O gets minus the token's keys": difference(got, keys.flatten(1)),
            "the largest number that W_O gets; 0 if nothing reaches W_O": got.abs().max().item(),
            "what W_O gets minus the token's values, both sorted by size": difference(
                got.sort().values, expected.sort().values
            ),
            "first number of each head at W_O minus that of the values, both sorted": difference(
                firsts, values[:, :, 0].sort().values
            ),
        },
    )


def _heads(module: CausalAttention, x: Tensor) -> Tensor:
    """Cut keys or values (B, G·D) for all heads, (B, H, D)."""
    return right(module).repeat(x.unflatten(1, (module.num_kv_heads, 1, -1))).squeeze(2)


def cached(module: CausalAttention) -> Reading:
    """Give token by token, with a cache."""
    x = tokens(module)

    def steps(given: Tensor) -> Tensor:
        return one_by_one(copy.deepcopy(module), given)

    at_once = copy.deepcopy(module)(x, None, KVCache())
    return Reading(
        {
            "token by token with a cache minus all at once": difference(steps(x), module(x)),
            "all at once with an empty cache minus without": difference(at_once, module(x)),
            **_felt(steps, x),
        }
    )


def new_cache(module: CausalAttention) -> Reading:
    """Give a second text after a first, each with a new cache."""
    twin, x = copy.deepcopy(module), tokens(module)
    one_by_one(twin, tokens(module, seed=1))
    second, alone = one_by_one(twin, x), one_by_one(copy.deepcopy(module), x)
    return Reading(
        {"the second text, with a new cache, minus the same alone": difference(second, alone)}
    )


def gradients(module: CausalAttention) -> Reading:
    """Go backward, and count the parameters of each Linear that no gradient reaches."""
    twin = copy.deepcopy(module)
    twin(tokens(module)).square().sum().backward()
    found: dict[str, float] = {}
    for name, part in twin.named_children():
        grads = [p.grad for p in part.parameters()]
        reached = [grad is not None and is_off(grad.abs().max().item()) for grad in grads]
        found[f"parameters of {name} without a gradient"] = Count(~torch.tensor(reached))
    return Reading(found)


def divisor(module: CausalAttention) -> Reading:
    """Compare the last output, which sees all seven tokens, with right ones of other divisors."""
    x = tokens(module)
    width = module.q_proj.in_features // module.num_heads
    names = {"√D": width**0.5, "1": 1.0, "√C": x.size(-1) ** 0.5}
    names |= {"D": width, "√S": 7**0.5}
    found: dict[str, float] = {}
    for name, value in names.items():
        twin = right(module)
        for parameter in twin.q_proj.parameters():
            parameter.data *= math.sqrt(width) / value
        found[f"the last output minus one with scores divided by {name}"] = difference(
            module(x)[:, -1], twin(x)[:, -1]
        )
    first = next(iter(found))
    return Reading({first: found.pop(first)}, found)


def half(module: CausalAttention) -> Reading:
    """Run it in half precision."""
    x = tokens(module)
    try:
        out = copy.deepcopy(module).half()(x.half()).double()
    except RuntimeError:
        return Reading({"it raises an error": 1, HALF: 0})
    off = difference(out, module(x))
    return Reading({"it raises an error": 0, HALF: 0 if off < 0.05 else off})


def large(module: CausalAttention) -> Reading:
    """Give tokens a thousand times as large."""
    return Reading(
        {"numbers of the outputs that are NaN": Count(module(1000 * tokens(module)).isnan())}
    )


def exchange(module: CausalAttention) -> Reading:
    """Exchange the query heads that share a head of k and v, and what W_O reads of them."""
    twin = copy.deepcopy(module)
    heads = module.num_heads
    width = torch.arange(module.q_proj.in_features)
    order = width.view(module.num_kv_heads, -1, len(width) // heads).roll(1, 1).flatten()  # (C,)
    for parameter in twin.q_proj.parameters():
        parameter.data = parameter.data[order]
    twin.out_proj.weight.data = twin.out_proj.weight.data[:, order]
    x = tokens(module)
    return Reading(
        {"outputs with heads exchanged minus as they were": difference(twin(x), module(x))}
    )


def same_as_right(module: CausalAttention) -> Reading:
    """Compare it with the right one of the same parameters."""
    x = tokens(module)
    return Reading(
        {"outputs minus those of the right one": difference(module(x), right(module)(x))}
    )


PROBES: dict[str, Probe] = {
    probe.__name__: probe
    for probe in (
        repeat, alone, leaks, lengths, padding, empty_rows, alike, one_token, cached, new_cache,
        window, texts, gradients, divisor, half, large, exchange, same_as_right,
    )
}  # fmt: skip
