"""What is true of every right attention of ``faulty_attention``, as probes that call a module and
say what fails.

A probe takes a module and returns a sentence, empty where it finds nothing. It says the same of the
same mistake, whatever the parameters. Axes: B sentences, S tokens, C width, H heads, G heads of k
and v, D = C / H.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor

from mha_course.caching import KVCache
from mha_course.experiments.faulty_attention import CausalAttention
from mha_course.experiments.leakage import find_leaks
from mha_course.models import seeded

NOTHING = 1e-9  # what is smaller is rounding, in float64
Probe = Callable[[CausalAttention], str]


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
    """Return by how much two tensors of one shape differ at most; infinity where a number
    is NaN.
    """
    return (one - other).detach().abs().nan_to_num(math.inf).amax().item()


def differ(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors differ by more than rounding."""
    return difference(one, other) > NOTHING


def one_by_one(module: CausalAttention, x: Tensor) -> Tensor:
    """Hand over tokens (B, S, C) one at a time, with a cache, and return all outputs (B, S, C)."""
    cache = KVCache()
    return torch.cat([module(x[:, s : s + 1], None, cache) for s in range(x.size(1))], dim=1)


def repeat(module: CausalAttention) -> str:
    """Call it twice: the same input gives the same output."""
    x = tokens(module)
    return "two calls on the same tokens differ" if differ(module(x), module(x)) else ""


def alone(module: CausalAttention) -> str:
    """Take sentences out of a batch: none feels the others, nor their masks."""
    x = tokens(module, batch=3)
    masks = torch.arange(7) >= torch.tensor([[0], [2], [3]])  # (3, 7), padding in front
    for mask, found in ((None, "in a batch"), (masks, "in a batch whose masks differ")):
        parts = [module(x[b : b + 1], None if mask is None else mask[b : b + 1]) for b in range(3)]
        together = module(x, mask)
        real = masks[..., None]
        if differ(torch.cat(parts).where(real, 0.0), together.where(real, 0.0)):
            return f"a sentence gets another output {found} than alone"
    return ""


def leaks(module: CausalAttention) -> str:
    """Change each token: output t feels tokens 0 to t and no other, also where a mask hides
    nothing.
    """
    x = tokens(module)
    shown = torch.ones(x.shape[:2], dtype=torch.bool)
    return _unlike_causal(find_leaks(module, x)) or _unlike_causal(
        find_leaks(lambda changed: module(changed, shown), x),
        " once there is a mask, be it one that hides nothing",
    )


def _unlike_causal(feels: Tensor, where: str = "") -> str:
    """Say in which way outputs feel other tokens (S, S) than themselves and those before."""
    everything = torch.ones_like(feels)
    later = feels & everything.triu(1)
    missed = ~feels & everything.tril()
    if torch.equal(later, everything.triu(1)):
        return f"an output feels all later tokens{where}"
    if later.any():
        only_next = later.sum() == later.diagonal(1).sum()
        return f"an output feels {'the next token' if only_next else 'later tokens'}{where}"
    first = everything.tril()
    first[:, 0] = False
    for pattern, found in (
        (everything.tril(), "an output feels no token"),
        (everything.tril(-1), "an output feels its own token alone"),
        (first, "an output feels the first token alone"),
        (missed, "some outputs do not feel their own token, or one before it"),
    ):
        if missed.any() and torch.equal(missed, pattern):
            return found + where
    return ""


def lengths(module: CausalAttention) -> str:
    """Cut the last tokens off: the outputs before them stay as they are."""
    x = tokens(module)
    return (
        "an output changes when what stands behind it is cut off"
        if differ(module(x)[:, :4], module(x[:, :4]))
        else ""
    )


def padding(module: CausalAttention) -> str:
    """Put hidden tokens in front: they change nothing, since rotary positions count differences
    alone.
    """
    x = tokens(module)
    padded = torch.cat((tokens(module, length=3, seed=1), x), dim=1)  # (B, 3+S, C)
    mask = (torch.arange(10) >= 3).expand(2, 10)
    other = padded.clone()
    other[:, :3] *= -2
    out = module(padded, mask)[:, 3:]
    if not out.isfinite().all():
        return "with padding in front outputs are NaN"
    if differ(out, module(other, mask)[:, 3:]):
        return "an output feels tokens that are hidden"
    return (
        "an output changes with hidden tokens in front, but not with what they hold"
        if differ(out, module(x))
        else ""
    )


def empty_rows(module: CausalAttention) -> str:
    """Hide all that a token may attend to: it gets the bias of the output projection, and finite
    gradients.
    """
    x = tokens(module).requires_grad_()
    mask = (torch.arange(7) >= 3).expand(2, 7)
    out = module(x, mask)
    (gradient,) = torch.autograd.grad(out[:, 3:].sum(), x)
    if not (out.isfinite().all() and gradient.isfinite().all()):
        return "a token that sees nothing makes NaN"
    empty = module.out_proj.bias.expand_as(out[:, :3])
    return "a token that should see nothing gets something" if differ(out[:, :3], empty) else ""


def alike(module: CausalAttention) -> str:
    """Make all tokens alike: all values are, and so are all outputs, since weights sum to 1."""
    out = module(tokens(module, length=1).expand(-1, 7, -1).contiguous())
    return "alike tokens get different outputs" if differ(out, out[:, :1].expand_as(out)) else ""


def one_token(module: CausalAttention) -> str:
    """Give one token alone: all weight is on it, so its merged context is its own values, in the
    order of heads.
    """
    x = tokens(module, length=1)
    bare = copy.deepcopy(module)
    bare.out_proj.load_state_dict(
        {"weight": torch.eye(x.size(-1)), "bias": torch.zeros(x.size(-1))}
    )
    got = bare(x)[:, 0]  # (B, C)
    values, keys = (
        _heads(module, part(x)[:, 0]) for part in (module.v_proj, module.k_proj)
    )  # (B, H, D)
    expected = values.flatten(1)
    if not differ(got, expected):
        return "" if differ(module(x)[:, 0], got) else "the output projection does nothing"
    if not differ(got, keys.flatten(1)):
        return "what one token gets is made by k_proj"
    if not differ(got, torch.zeros_like(got)):
        return "one token gets nothing"
    if not differ(got.sort().values, expected.sort().values):
        blocks = (
            got.unflatten(1, values.shape[1:])[:, :, 0].sort().values,
            values[:, :, 0].sort().values,
        )
        return (
            f"one token gets its values in another "
            f"order{', by whole heads' * (not differ(*blocks))}"
        )
    return "one token gets something else than its values"


def _heads(module: CausalAttention, x: Tensor) -> Tensor:
    """Cut keys or values (B, G·D) for all heads, (B, H, D)."""
    return right(module).repeat(x.unflatten(1, (module.num_kv_heads, 1, -1))).squeeze(2)


def cached(module: CausalAttention) -> str:
    """Give token by token, with a cache: the outputs are those of all at once."""
    x = tokens(module)
    if not differ(one_by_one(module, x), module(x)):
        return ""
    found = _unlike_causal(find_leaks(lambda changed: one_by_one(module, changed), x))
    return f"with a cache {found or 'outputs are others than at once'}"


def gradients(module: CausalAttention) -> str:
    """Go backward: a gradient reaches every parameter."""
    twin = copy.deepcopy(module)
    twin(tokens(module)).square().sum().backward()
    found = {
        name
        for name, p in twin.named_parameters()
        if p.grad is None or p.grad.abs().max() < NOTHING
    }
    for name, part in twin.named_children():
        whole = {f"{name}.{own}" for own, _ in part.named_parameters()}
        found = found - whole | {name} if whole <= found else found
    return f"no gradient reaches {' and '.join(sorted(found))}" if found else ""


def divisor(module: CausalAttention) -> str:
    """Find the divisor with which the right module gives the last output, which sees all: it is
    sqrt(D).
    """
    x = tokens(module)
    width = module.q_proj.in_features // module.num_heads
    length = 7
    names = {
        "1": 1.0,
        "sqrt(C)": x.size(-1) ** 0.5,
        "D": width,
        "C": x.size(-1),
        "sqrt(S)": length**0.5,
    }
    for name, value in names.items():
        twin = right(module)
        for parameter in twin.q_proj.parameters():
            parameter.data *= math.sqrt(width) / value
        if not differ(module(x)[:, -1], twin(x)[:, -1]):
            return f"the scores are divided by {name}"
    return ""


def half(module: CausalAttention) -> str:
    """Run it in half precision: it comes close to float64."""
    x = tokens(module)
    twin = copy.deepcopy(module).half()
    try:
        out = twin(x.half())
    except RuntimeError:
        return "it stops in half precision"
    return "it is far off in half precision" if difference(out.double(), module(x)) > 0.05 else ""


def exchange(module: CausalAttention) -> str:
    """Exchange the query heads that share a head of k and v: heads have no order, so it gives the
    same.
    """
    twin = copy.deepcopy(module)
    heads = module.num_heads
    width = torch.arange(module.q_proj.in_features)
    order = width.view(module.num_kv_heads, -1, len(width) // heads).roll(1, 1).flatten()  # (C,)
    for parameter in twin.q_proj.parameters():
        parameter.data = parameter.data[order]
    twin.out_proj.weight.data = twin.out_proj.weight.data[:, order]
    x = tokens(module)
    return (
        "it is another module with its heads in another order" if differ(twin(x), module(x)) else ""
    )


def same_as_right(module: CausalAttention) -> str:
    """Compare it with the right one of the same parameters: they give the same."""
    x = tokens(module)
    return (
        "it differs from the right one with the same parameters"
        if differ(module(x), right(module)(x))
        else ""
    )


PROBES: dict[str, Probe] = {
    probe.__name__: probe
    for probe in (
        repeat, alone, leaks, lengths, padding, empty_rows, alike, one_token, cached, gradients,
        divisor, half,
        exchange, same_as_right,
    )
}  # fmt: skip


def findings(module: CausalAttention) -> dict[str, str]:
    """Return what each probe finds, of those that find something."""
    return {name: found for name, probe in PROBES.items() if (found := probe(module))}
