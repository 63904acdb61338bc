"""The convex hull of points in the plane: all that weights from 0 to 1 with the sum 1 can reach."""

from __future__ import annotations

import torch
from torch import Tensor


def hull(points: Tensor) -> Tensor:
    """Return the corners of the hull of points (S, 2), counter-clockwise; of points in a line its two ends.

    >>> hull(torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5], [0.0, 2.0]])).tolist()
    [[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    """
    ordered = [torch.tensor(point, dtype=points.dtype) for point in sorted(set(map(tuple, points.tolist())))]
    if len(ordered) < 3:
        return torch.stack(ordered)
    return torch.stack(_half(ordered)[:-1] + _half(ordered[::-1])[:-1])


def _half(ordered: list[Tensor]) -> list[Tensor]:
    """Return the lower half of the hull of ordered points, each turn of it to the left."""
    corners: list[Tensor] = []
    for point in ordered:
        while len(corners) > 1 and float(_turn(corners[-2], corners[-1], point)) <= 0:
            corners.pop()
        corners.append(point)
    return corners


def _turn(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return twice the area of a triangle: positive where the way a, b, c turns left."""
    (ux, uy), (wx, wy) = (b - a).unbind(-1), (c - a).unbind(-1)
    return ux * wy - uy * wx


def inside(point: Tensor, corners: Tensor) -> bool:
    """Say whether a point lies in a hull or on its edge, but for rounding.

    >>> square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> inside(torch.tensor([0.5, 1.0]), square), inside(torch.tensor([0.5, 1.1]), square)
    (True, False)
    """
    slack = 1e-9 * (1 + float(corners.abs().max()) ** 2)
    spread = corners.amax(0) + slack, corners.amin(0) - slack
    within = bool((point <= spread[0]).all() and (point >= spread[1]).all())
    after = corners.roll(-1, 0)
    turns = [float(_turn(a, b, point)) for a, b in zip(corners, after, strict=True)]
    level = all(abs(turn) <= slack for turn in turns) if len(corners) < 3 else True
    return within and level and min(turns, default=0.0) >= -slack
