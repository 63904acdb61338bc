"""How two layers of one head share a task that needs two tokens.

Axes: runs, N examples, S tokens, C width.
"""

from __future__ import annotations

import torch

from mha_course.experiments.head_tasks import Outcome, TwoTokenSum, r_squared


@torch.no_grad()
def path_rows(deep: Outcome, task: TwoTokenSum) -> list[tuple[int, float, float, float, float]]:
    """Follow what flagged tokens fetch in layer 0, and let it add to the query token alone.

    Returns: rows of a run, its R², its mean weights in layer 0 from a to b and from b to a, and the
        R² that is left.
    """
    runs, count = deep.r2.size(0), 500
    x, target, flagged = task.draw(runs, count, torch.Generator().manual_seed(7))
    lower, upper = deep.layers
    added, weights = lower(x, x)  # (runs, N, S, C), (runs, 1, N, S, S)
    run, example = torch.arange(runs)[:, None], torch.arange(count)
    a, b = flagged.unbind(-1)  # (runs, N) each
    a_to_b = weights[run, 0, example, a, b].mean(1)
    b_to_a = weights[run, 0, example, b, a].mean(1)
    query_alone = added * (torch.arange(x.size(2)) == 0)[:, None]
    entered = x + query_alone
    out = query_alone[:, :, 0] + upper(entered[:, :, :1], entered)[0][:, :, 0]  # (runs, N, C)
    columns = (deep.r2, a_to_b, b_to_a, r_squared(out[..., : task.d], target))
    return list(zip(range(runs), *(column.tolist() for column in columns), strict=True))
