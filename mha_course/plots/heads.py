"""Pictures of lesson 16: how runs learn, what heads look at and are needed for, and how thin they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from mha_course.plots import ACCENT, BAR, INK, heatmap, new_figure

SMOOTH = 20  # steps that make one point of a curve
STYLES = ("-", "--", ":", "-.")


def learning(curves: Mapping[str, Tensor], bound: float | None = None) -> Axes:
    """Draw how R² grows, a thin line for each run of each (R, steps), and the bound of one head, if there is one.

    >>> import torch
    >>> len(learning({"one head": torch.zeros(5, 100)}, 0.56).lines)  # five runs and the bound
    6
    """
    ax = new_figure(8.2, 3.6).subplots()
    for (name, curve), color, style in zip(curves.items(), sns.color_palette("colorblind"), STYLES, strict=False):
        kept = curve[:, : curve.size(1) // SMOOTH * SMOOTH]
        means = kept.unflatten(1, (-1, SMOOTH)).mean(-1).numpy()  # (R, points)
        steps = (np.arange(means.shape[1]) + 0.5) * SMOOTH
        for number, line in enumerate(means):
            ax.plot(
                steps, line, color=color, linestyle=style, linewidth=1.3, alpha=0.8, label=name if not number else None
            )
    if bound is not None:
        ax.axhline(bound, color=INK, linewidth=1, linestyle=(0, (6, 3)))
        ax.text(steps[-1], bound + 0.02, f"no single head passes {bound:.3f}", ha="right", fontsize=9, color=INK)
    ax.set(xlabel="step of training", ylabel="R² on the examples of the step", ylim=(-0.05, 1.05))
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.08))
    sns.despine(ax=ax)
    return ax


def tables(
    panels: Mapping[str, Tensor], rows: Sequence[str], columns: Sequence[str], *, apart: int = 0, unit: str = ""
) -> Figure:
    """Draw tables of numbers on one scale, each with its title: narrow ones side by side, others under one another.

    Args: apart draws a line after so many columns, such as those of a layer; unit stands beside the colour bar.

    >>> import torch
    >>> len(tables({"before": torch.zeros(2, 3), "after": torch.ones(2, 3)}, ["a", "b"], ["x", "y", "z"]).axes)
    3
    """
    numbers = [panel.detach().cpu().double().numpy().round(2) + 0.0 for panel in panels.values()]  # no -0.00
    signed, largest = min(n.min() for n in numbers) < 0, max(abs(n).max() for n in numbers) or 1.0
    look = {"cmap": "vlag" if signed else "cividis", "vmin": -largest if signed else 0.0, "vmax": largest}
    across = 1 if len(columns) > 5 else len(panels)
    down = len(panels) // across
    figure = new_figure(0.62 * len(columns) * across + 2.9, (0.34 * len(rows) + 0.75) * down)
    axes = list(np.atleast_1d(figure.subplots(down, across)).ravel())
    for ax, title, table in zip(axes, panels, numbers, strict=True):
        sns.heatmap(table, ax=ax, annot=True, fmt=".2f", linewidths=0.6, cbar=False, annot_kws={"fontsize": 9}, **look)
        ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
        ax.set_yticks(np.arange(len(rows)) + 0.5, rows if ax is axes[0] or across == 1 else [], rotation=0, fontsize=9)
        ax.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=0, fontsize=9)
        ax.tick_params(length=0)
        for edge in range(apart, len(columns), apart) if apart else ():
            ax.axvline(edge, color="white", linewidth=6)
    figure.colorbar(axes[0].collections[0], ax=axes, label=unit, aspect=30, pad=0.02)
    return figure


def maps(panels: Mapping[str, Tensor], names: Sequence[str]) -> Figure:
    """Draw maps (T, S) of the same tokens side by side, all on one scale that begins at 0.

    >>> import torch
    >>> len(maps({"before": torch.eye(3), "after": torch.eye(3)}, ["a", "b", "c"]).axes)
    3
    """
    figure = new_figure(6.0 * len(panels), 5.4)
    axes = list(np.atleast_1d(figure.subplots(1, len(panels))))
    most = max(float(panel.detach().max()) for panel in panels.values())
    for ax, (title, panel) in zip(axes, panels.items(), strict=True):
        heatmap(panel, queries=names, title=title, ax=ax)
        cells = ax.collections[0]
        cells.colorbar.remove()  # one for all stands at the right
        cells.set_clim(0.0, most)
    figure.colorbar(axes[0].collections[0], ax=axes, label="weight", aspect=30, pad=0.02)
    return figure


def thinness(r2: Mapping[int, Sequence[float]], width: int) -> Axes:
    """Draw R² against the number of heads that a width is cut into: a dot for each run.

    >>> thinness({1: [1.0], 2: [0.9]}, 32).get_xlabel()
    'heads × width of a head'
    """
    ax = new_figure(6.6, 3.3).subplots()
    for place, runs in enumerate(r2.values()):
        ax.bar(place, sum(runs) / len(runs), color=BAR, width=0.6)
        ax.scatter([place] * len(runs), runs, color=ACCENT, edgecolor=INK, s=26, zorder=3)
    ax.set_xticks(range(len(r2)), [f"{heads} × {width // heads}" for heads in r2])
    ax.set(xlabel="heads × width of a head", ylabel="R²", ylim=(0, 1.05))
    sns.despine(ax=ax)
    return ax
