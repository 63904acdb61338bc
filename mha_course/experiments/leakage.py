"""Find out by trying which output depends on which token: what a mask says is one thing, what happens another.

Axes: B batch, T output tokens, S input tokens, C width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mha_course.errors import ShapeError, require_tokens


def token_dependence(fn: Callable[[Tensor], Any], x: Tensor, *, seed: int = 0) -> Tensor:
    """Change one token after the other and see which outputs change.

    Args: fn maps x (B, S, C) to an output (B, T, C), or to a tuple that starts with it; x as fn wants it;
        seed draws the changes. A single bit that changes counts, in any sentence of the batch.
    Returns: (T, S), bool, on the CPU, True where output t changes with token s. For one causal layer this is
        causal_mask(S).
    Raises: ShapeError where fn gives NaN, infinite numbers, or not the same twice.

    >>> token_dependence(lambda x: x.cumsum(dim=1), torch.zeros(1, 3, 2)).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    require_tokens("token_dependence", "x", x, "B S C")
    before = _output(fn, x)
    if not torch.equal(before, _output(fn, x)):
        rule, fix = "fn must give the same twice", "fn.eval(), if it is a module with dropout"
        raise ShapeError("token_dependence", rule, expected="no randomness", got="two outputs that differ", fix=fix)
    changes = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).to(x)  # (B, S, C)
    columns = []
    for token in range(x.size(1)):
        changed = x.clone()
        changed[:, token] += changes[:, token]
        columns.append((_output(fn, changed) != before).any(-1).any(0))  # (T,)
    return torch.stack(columns, dim=1).cpu()  # (T, S)


@torch.no_grad()
def _output(fn: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Return the output (B, T, C) alone, which must be finite."""
    result = fn(x)
    out = result[0] if isinstance(result, tuple) else result
    require_tokens("token_dependence", "the output of fn", out, "B T C")
    if not bool(out.isfinite().all()):
        rule, got = "the output of fn must be finite", f"NaN or infinity in {int((~out.isfinite()).sum())} places"
        raise ShapeError("token_dependence", rule, expected="finite numbers", got=got)
    return out
