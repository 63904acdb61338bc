"""Find out by experiment which output depends on which token, whatever a mask says.

Axes: B batch, T output tokens, S input tokens, C width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mha_course.errors import ShapeError, require_tokens


@torch.no_grad()
def find_leaks(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Change each token in turn, slightly and strongly: (S, S), True where output t changes."""
    before = fn(x)
    generator = torch.Generator().manual_seed(0)
    leaks = torch.zeros(before.size(1), x.size(1), dtype=torch.bool, device="cpu")  # (S, S)
    for size in 3 * (0.01, 30.0):
        for s in range(x.size(1)):
            changed = x.clone()  # (B, S, C)
            noise = torch.randn(x[:, s].shape, generator=generator, dtype=x.dtype, device="cpu")
            changed[:, s] += size * noise.to(x.device)
            leaks[:, s] |= (fn(changed) != before).any(-1).any(0).cpu()  # bit for bit: no tolerance
    return leaks


def token_dependence(fn: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Find which outputs of fn depend on which tokens, with ``find_leaks``.

    Args: fn maps x (B, S, C) to an output (B, T, C), or to a tuple that starts with it.
    Returns: (T, S), bool, on the CPU, True where output t changes with token s, in any sentence of
        the batch, even by a single bit. For one causal layer this is causal_mask(S). False proves
        nothing: see lesson 8.
    Raises: ShapeError if fn gives NaN or infinity, or is not deterministic.

    >>> token_dependence(lambda x: x.cumsum(dim=1), torch.zeros(1, 3, 2)).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    require_tokens("token_dependence", "x", x, "B S C")
    if not torch.equal(_output(fn, x), _output(fn, x)):
        rule = "fn must return the same twice"
        fix = "fn.eval(), if it is a module with dropout"
        got = "two outputs that differ"
        raise ShapeError("token_dependence", rule, expected="no randomness", got=got, fix=fix)
    return find_leaks(lambda changed: _output(fn, changed), x)


@torch.no_grad()
def _output(fn: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Return only the output (B, T, C), which must be finite."""
    result = fn(x)
    out = result[0] if isinstance(result, tuple) else result
    require_tokens("token_dependence", "the output of fn", out, "B T C")
    if not bool(out.isfinite().all()):
        rule = "the output of fn must be finite"
        got = f"NaN or infinity in {int((~out.isfinite()).sum())} places"
        raise ShapeError("token_dependence", rule, expected="finite numbers", got=got)
    return out
