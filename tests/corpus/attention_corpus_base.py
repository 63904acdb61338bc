"""The parts of the corpus's cases: sizes, seeded weights and Case."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
from torch import nn

SIZES = {
    "different": {"B": 2, "S": 5, "C": 24, "H": 4},  # D = 6: no two alike
    "square": {"B": 2, "S": 4, "C": 8, "H": 2},  # B = H, S = D
    "all_four": {"B": 4, "S": 4, "C": 16, "H": 4},  # B = S = H = D
    "one_head": {"B": 2, "S": 5, "C": 6, "H": 1},  # D = C
    "one_item": {"B": 1, "S": 5, "C": 24, "H": 4},
}
_FACTORS = {"q": 0, "k": 1, "v": 2, "o": 3}


class Problem:
    """Seeded float64 inputs and layers of one size; biases are not zero.

    ``x`` (B, S, C) is the sequence, ``token`` (B, 1, C) the next one. ``q k v o`` are Linears of
    width C, ``qkv`` the first three on top of one another.
    """

    def __init__(self, B: int, S: int, C: int, H: int) -> None:
        self.B, self.S, self.C, self.H, self.D = B, S, C, H, C // H
        self.H_kv = max(H // 2, 1)
        self.x, self.token = self.draw(B, S, C), self.draw(B, 1, C, seed=2)
        self.later = torch.ones(S, S, dtype=torch.bool).triu(1)  # True = hidden
        lengths = torch.tensor([S - 1 - i % 3 for i in range(B)])
        self.keep = torch.arange(S) < lengths[:, None]  # (B, S), True = may be seen

    def __getattr__(self, name):
        """Make the Linears of these names when they are first asked for."""
        if name not in (*_FACTORS, "qkv"):
            raise AttributeError(name)
        self.__dict__[name] = self.linear(*name)
        return self.__dict__[name]

    def draw(self, *shape, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def linear(self, *names, rows=slice(None)):
        """Return these rows of the Linears of these names as one."""
        width = self.C
        weight = torch.cat(
            [1.5 * self.draw(width, width, seed=10 + _FACTORS[n]) / width**0.5 for n in names]
        )
        shift = torch.cat([self.draw(width, seed=20 + _FACTORS[n]) for n in names])
        layer = nn.Linear(width, len(shift[rows]), dtype=torch.float64)
        layer.load_state_dict({"weight": weight[rows], "bias": shift[rows]})
        return layer


@dataclass(frozen=True)
class Case:
    """An implementation, and what an honest tracer must say about it.

    ``make(B, S, C, H)`` returns fn, args; ``axes`` and ``hints(at)`` are what trace is told.
    ``expect`` maps a variable to the axes of the tensor that it is given last: names are separated
    by spaces,
    ``|`` separates names that are as good as each other, ``,`` whole patterns, and ``*`` is any
    name.
    ``storage`` is what the last call of that line must be said to do, at the sizes ``different``.
    ``equal`` has what changes where sizes coincide. Of a right case: other patterns (None: nothing
    is asked).
    Of a wrong one, which has a ``mistake``: ``right`` (same numbers, so no warning), ``unseen``
    (same numbers, but
    a warning does no harm), ``crash``, or the ids that a warning may have, separated by ``|``, with
    ``none`` where silence is honest; the key ``*`` is for all sizes. Names of axes are not asked
    for beyond what they mean: where
    H is 1, ``D`` is as good as ``C``, ``1`` as ``H``, ``B`` as ``B*H``.
    ``also`` are ids that may be said beside the mistake, ``where`` the variables on whose lines it
    may be said.
    """

    name: str
    make: Callable[..., tuple]
    axes: str | dict[str, str]
    sizes: tuple[str, ...]
    expect: dict[str, str]
    storage: dict[str, str] = field(default_factory=dict)
    mistake: str | None = None
    also: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    equal: dict[str, dict | str] = field(default_factory=dict)

    def hints(self, at="different"):
        """Return the sizes that trace is told."""
        problem = Problem(**SIZES[at])
        return {name: getattr(problem, name) for name in self.sizes}

    def expected(self, at="different"):
        """Return variable -> patterns at these sizes."""
        changes = self.equal.get(at, {}) if self.mistake is None else {}
        return {
            name: pattern
            for name, pattern in {**self.expect, **changes}.items()
            if pattern is not None
        }

    def accepts(self, variable, axes, at="different"):
        """Return whether the axes that a tracer gave the variable are among those expected."""
        patterns = (pattern.split() for pattern in self.expected(at)[variable].split(","))
        return any(_fits(pattern, axes, SIZES[at]) for pattern in patterns)

    def blames(self, line):
        """Return whether this warning is on a line that is at fault."""
        return not self.where or not set(self.where).isdisjoint(
            re.findall(r"\w+", line.split(" = ")[0])
        )

    def outcome(self, at="different"):
        """Return "right", "unseen", "crash", or the ids that a warning may have."""
        said = self.equal.get(at, self.equal.get("*", self.mistake)) if self.mistake else "right"
        if said in ("right", "unseen", "crash"):
            return said
        return {None if name == "none" else name for name in said.split("|")}


def cases(corpus):
    """Return the parameters (case, at) of a test, for each case at all sizes."""
    return [pytest.param(case, at, id=f"{case.name}-{at}") for case in corpus for at in SIZES]


def size_of(name, sizes):
    """Compute the size of a name such as 3*C or D/2, or None if any will do."""
    text = re.sub(r"[A-Za-z_]\w*", lambda match: str(sizes.get(match[0], "?")), name)
    return eval(text.replace("/", "//")) if re.fullmatch(r"[\d+*/]*\d", text) else None


def _fits(pattern, axes, sizes):
    return len(pattern) == len(axes) and all(
        want == "*" or _plain(name, sizes) in {_plain(one, sizes) for one in want.split("|")}
        for want, name in zip(pattern, axes, strict=True)
    )


def _plain(name, sizes):
    """Return the name without factors of size 1; with one head D is C."""
    factors = [factor for factor in name.split("*") if sizes.get(factor, 2) != 1]
    return (
        "*".join("C" if factor == "D" and sizes["H"] == 1 else factor for factor in factors) or "1"
    )


def case(build, axes, sizes, expect, args=lambda p: (p.x,), **rest):
    """Return the Case of a function of a Problem and its inputs, or of what makes one."""
    alone = len(inspect.signature(build).parameters) == 1

    def make(B, S, C, H):
        problem = Problem(B, S, C, H)
        fn = build(problem) if alone else partial(build, problem)
        return (fn.eval() if isinstance(fn, nn.Module) else fn), args(problem)

    name = (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", build.__name__).lower()
        if inspect.isclass(build)
        else build.__name__
    )
    return Case(name, make, axes, sizes, expect, **rest)


def apart(p, linear, x):
    """Project and split as it should be: (B, H, S, D)."""
    return linear(x).view(x.size(0), -1, p.H, p.D).transpose(1, 2)


def finish(p, q, k, v, hidden=None):
    """Do the rest once the heads are split: q, k, v are (B, H, S, D)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(p.D)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    context = weights @ v
    merged = context.transpose(1, 2).reshape(q.size(0), -1, p.C)
    out = p.o(merged)
    return out  # noqa: RET504 - what is judged is in a variable


def sequence_first(p):
    return (p.x.transpose(0, 1).contiguous(),)
