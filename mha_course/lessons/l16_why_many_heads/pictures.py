"""Lesson 16's pictures: runs on its two targets, and hand-made heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from mha_course import attention, plots
from mha_course.lessons.l16_why_many_heads import exercises as lesson


def show_runs(r2: Mapping[str, Sequence[Tensor]], caption: str) -> None:
    """Show each kind's R² on the difference and on the pair, (runs,) each."""
    rows = []
    for kind, targets in r2.items():
        row = [kind]
        for runs in targets:
            solved = int((runs > 0.99).sum())
            row += [f"{runs.min():.2f} to {runs.max():.2f}", f"{solved} of {len(runs)}"]
        rows.append(row)
    columns = ["", "difference", "above 0.99", "pair", "above 0.99"]
    plots.results(columns, rows, caption=caption)


def count_runs(kind: str, shipped: Mapping[Any, Sequence[float]], caption: str) -> None:
    """Show, for each kind, the range of its runs' R², and how many succeed."""
    rows = [
        (name, min(r2), max(r2), f"{sum(value > 0.99 for value in r2)} of {len(r2)}")
        for name, r2 in shipped.items()
    ]
    plots.results([kind, "lowest R²", "highest R²", "runs above 0.99"], rows, caption=caption)


def names_of_tokens(places: Tensor) -> list[str]:
    """Name the task's nine tokens by their roles, from positions (3, N) of a, b and the query."""
    roles = dict(zip(places[:, 0].tolist(), ("a", "b", "query"), strict=True))
    return [roles.get(t, f"token {t}") for t in range(9)]


def subtractor_heads(builder: Callable[[int], Any]) -> Callable[[int], tuple[Figure, str]]:
    """Return a function for a Panel that draws the query token's weights in both heads.

    Args: builder returns the matrices for a d, or None if it is not written yet.
    """

    def draw(d: int) -> tuple[Figure, str]:
        matrices = builder(d)
        owner = "the course's" if matrices is None else "your"
        w_q, w_k, w_v, w_o = (w.double() for w in matrices or lesson.build_subtractor(d))
        x, places = lesson.flagged_tokens(d)
        q, k = (attention.split_heads(x[:1] @ w.T, 2) for w in (w_q, w_k))
        weights = attention.attention(q, k, k)[1][0, :, 0]  # (H, S): the row of the query token
        heads = lesson.heads_of(w_q, w_k, w_v, w_o, d)
        does = ", and ".join(lesson.in_words(number, head) for number, head in enumerate(heads))
        panels = {f"head {h}: weights of the query token": weights[h] for h in range(2)}
        figure = plots.token_bars(panels, names_of_tokens(places), highlight="ab")
        return figure, f"In {owner} matrices {does}."

    return draw
