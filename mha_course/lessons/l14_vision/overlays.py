"""Pictures of images: side by side, cut into patches, and with weights as brightness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

from mha_course.colours import ACCENT, INK
from mha_course.plots.figures import SMALL, TEXT, new_figure
from mha_course.plots.inputs import as_array

_PLATE = {"boxstyle": "square,pad=0.1", "facecolor": "#00000099", "edgecolor": "none"}
DARK = 0.12  # brightness of a patch with weight 0


def image_grid(images: Mapping[str, Tensor], *, across: int = 4) -> Figure:
    """Draw images (3, height, width) with their titles, in rows of ``across``."""
    axes = _grid(len(images), across, next(iter(images.values())).shape[1:])
    for ax, (title, image) in zip(axes, images.items(), strict=True):
        ax.imshow(_pixels(image))
        ax.set_title(title, loc="left", fontsize=TEXT, color=INK)
    return axes[0].figure.canvas.figure


def patches(image: Tensor, patch_size: int) -> Figure:
    """Draw an image (3, height, width) with numbered patches, and their sequence below it."""
    pixels = _pixels(image)
    rows = pixels.shape[0] // patch_size
    columns = pixels.shape[1] // patch_size
    figure = new_figure(10.5, 4.6)
    grid, line = figure.subplots(2, 1, height_ratios=(8, 1))
    gap = 0.18
    for number in range(rows * columns):
        row, column = divmod(number, columns)
        patch = pixels[row * patch_size :, column * patch_size :][:patch_size, :patch_size]
        x, y = column * (1 + gap), row * (1 + gap)
        grid.imshow(patch, extent=(x, x + 1, y + 1, y))
        style = {"fontsize": SMALL, "va": "top", "color": "white", "bbox": _PLATE}
        grid.text(x + 0.05, y + 0.08, str(number), **style)
        line.imshow(patch, extent=(number * (1 + gap), number * (1 + gap) + 1, 1, 0))
    grid.set(xlim=(0, columns * (1 + gap)), ylim=(rows * (1 + gap), 0))
    grid.set_title(f"{rows} rows of {columns} patches", loc="left", fontsize=TEXT, color=INK)
    line.set(xlim=(0, rows * columns * (1 + gap)), ylim=(1, 0))
    title = f"the sequence: patch 0 to patch {rows * columns - 1}"
    line.set_title(title, loc="left", fontsize=TEXT, color=INK)
    for ax in (grid, line):
        ax.axis("off")
    return figure


def attention_overlay(
    image: Tensor,
    weights: Mapping[str, Any],
    grid: tuple[int, int],
    *,
    query: int | None = None,
    across: int = 4,
) -> Figure:
    """Draw an image, and again for each title with its weights as the patches' brightness.

    Args: image (3, height, width); weights maps a title to one weight for each patch, row by row;
        the largest has full brightness, 0 has DARK; grid is rows and columns of patches; query, the
        patch whose weights they are, is framed; across is the number of pictures per row.
    """
    pixels = _pixels(image)
    side = pixels.shape[0] // grid[0], pixels.shape[1] // grid[1]
    axes = _grid(len(weights) + 1, across, pixels.shape[:2])
    axes[0].imshow(pixels)
    axes[0].set_title("the image", loc="left", fontsize=TEXT, color=INK)
    for ax, (title, row_weights) in zip(axes[1:], weights.items(), strict=True):
        numbers = as_array("attention_overlay", row_weights, ("N",))
        light = DARK + (1 - DARK) * numbers.reshape(grid) / max(numbers.max(), 1e-12)
        ax.imshow(pixels * np.kron(light, np.ones(side))[:, :, None])
        ax.set_title(title, loc="left", fontsize=TEXT, color=INK)
    if query is not None:
        row, column = divmod(query, grid[1])
        corner = (column * side[1] - 0.5, row * side[0] - 0.5)
        style: dict[str, Any] = {"fill": False, "edgecolor": ACCENT, "linewidth": 2.5}
        for ax in axes:
            ax.add_patch(Rectangle(corner, side[1], side[0], **style))
    return axes[0].figure.canvas.figure


def _grid(count: int, across: int, size: tuple[int, ...]) -> list[Axes]:
    """Make a number of axes for images of this size, in rows."""
    columns = min(across, count)
    rows = -(-count // columns)
    width = 10.8 / max(columns, 3)
    figure = new_figure(width * columns, rows * (width * size[0] / size[1] + 0.32))
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes:
        ax.axis("off")
    return axes[:count]


def _pixels(image: Tensor) -> NDArray[np.float64]:
    """Return an image in matplotlib's form, (height, width, 3)."""
    return image.permute(1, 2, 0).clamp(0, 1).double().numpy()
