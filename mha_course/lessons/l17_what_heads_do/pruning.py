"""Keep some heads of a trained layer, and measure what is left.

Axes: runs, N examples, H heads, D_v numbers of v in a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.experiments.head_tasks import ParallelAttention, Task, r_squared


@torch.no_grad()
def prune(layer: ParallelAttention, task: Task, heads: Sequence[int], *, refit: bool) -> Tensor:
    """Keep some heads of a trained layer alone and return R² on new examples, (runs,).

    The same heads in all runs: who wants the best pair of each run tries all pairs, and picks.

    Args: refit chooses W_O and its bias anew, by least squares on 2,000 examples; without it they
        stay as trained.
    """
    generator = torch.Generator().manual_seed(1)
    runs = layer.w_q.size(0)
    fitted_on, wanted, _ = task.draw(runs, 2000, generator)
    x, target, _ = task.draw(runs, 2000, generator)

    def features(x: Tensor) -> Tensor:
        context = layer.contexts(x[:, :, :1], x)[0][:, list(heads), :, 0]  # (runs, heads, N, D_v)
        merged = context.transpose(1, 2).flatten(2)  # (runs, N, heads · D_v)
        return torch.cat((merged, torch.ones_like(merged[..., :1])), -1)  # and a 1 for the bias

    if refit:
        fit = torch.linalg.lstsq(features(fitted_on), wanted, driver="gelsd")  # of any rank
        output = fit.solution
    else:
        output = torch.cat((layer.w_o[:, list(heads)].flatten(1, 2), layer.b_o[:, None]), 1)
    return r_squared(features(x) @ output, target)
