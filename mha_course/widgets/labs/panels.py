"""A lab's panels as data, for the browser and the static picture.

A panel is a JSON-compatible dict. Numbers are rounded to four digits; None stands for NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import LogLocator, MaxNLocator
from torch import Tensor

from mha_course.colours import HEAD_COLOURS
from mha_course.plots.inputs import as_numbers
from mha_course.plots.scales import Scale, scale_of

Panel = dict[str, Any]
Panels = tuple[Panel, ...]
HEAD_FILLS = [colour.fill for colour in HEAD_COLOURS]


def plain(numbers: Any) -> Any:
    """Return the numbers of a tensor or lists in JSON-compatible form.

    >>> plain([1 / 3, float("nan")])
    [0.3333, None]
    """
    if isinstance(numbers, Tensor):
        numbers = numbers.detach().cpu().tolist()
    if isinstance(numbers, list | tuple):
        return [plain(number) for number in numbers]
    return None if not math.isfinite(numbers) else float(f"{numbers:.4g}")


def _panel(kind: str, title: str, note: str, **fields: Any) -> Panel:
    return {"kind": kind, "title": title, "note": note, **fields}


def bars(
    title: str,
    names: Sequence[str],
    values: Any,
    *,
    low: float = 0.0,
    high: float = 1.0,
    highlighted: Sequence[int] = (),
    note: str = "",
) -> Panel:
    """Describe a bar for each name, from low to high."""
    ends = {"low": low, "high": high}
    numbers = {"values": plain(values), "highlighted": list(highlighted), **ends}
    return _panel("bars", title, note, names=list(names), **numbers)


def matrix(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Any,
    *,
    hidden: Any = None,
    scale: Scale | None = None,
    size: str = "big",
    note: str = "",
    **extra: Any,
) -> Panel:
    """Describe a matrix; cells that are true in ``hidden`` are hatched.

    Args:
        scale: by default the one that the numbers have, with weights from 0 to 1.
        size: big or small. Only a big one has names.
        extra: ``paint``, the control that its cells are; ``on`` and ``off``, the words for 1 and 0;
            ``group``, the title above all small ones; ``margin``, pixels to keep free at the right
            and below. The rest is for a lesson's own.
    """
    covered = None if hidden is None else [list(map(int, row)) for row in hidden]
    scale = scale or scale_of(as_numbers("matrix", values), covered)
    names = {"rows": list(rows), "columns": list(columns)}
    cells = {"values": plain(values), "hidden": covered, "scale": scale.message()}
    return _panel("matrix", title, note, size=size, **names, **cells, **extra)


def lines(
    title: str,
    x: Sequence[float],
    drawn: Sequence[Panel],
    *,
    at: int,
    xlabel: str,
    low: float | None = None,
    high: float | None = None,
    doublings: bool = False,
) -> Panel:
    """Describe lines, dicts of name, values and style, over an evenly spaced x; at is marked.

    Args: low and high are the ends of y, by default those of the values. With doublings (and both
        ends), y is logarithmic, to match an x of powers of two.
    """
    series = [{**line, "values": plain(line["values"])} for line in drawn]
    numbers = [value for line in series for value in line["values"] if value is not None]
    low = 1.05 * min(0.0, *numbers) if low is None else low
    high = 1.05 * max(1e-9, *numbers) if high is None else high
    locator = LogLocator(2, numticks=6) if doublings else MaxNLocator(5, steps=[1, 2, 5, 10])
    places = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
    ticks = [float(f"{tick:.9g}") for tick in places]  # 0.6, not 0.6000000000000001
    ends = {"low": low, "high": high, "ticks": ticks, "doublings": doublings}
    return _panel("lines", title, "", x=list(x), xlabel=xlabel, lines=series, at=at, **ends)


def arrow(
    name: str,
    at: Any,
    color: str,
    *,
    of: str = "",
    style: str = "",
    thick: float = 4,
    control: str = "",
) -> Panel:
    """Describe an arrow in a plane; a draggable one names its control."""
    appearance = {"color": color, "style": style, "thick": thick}
    return {"name": name, "of": of, "at": plain(at), "control": control, **appearance}


def arrows(
    title: str,
    drawn: Sequence[Panel],
    *,
    reach: float,
    hull: int = 0,
    dots: Sequence[Panel] = (),
    paths: Sequence[Any] = (),
    note: str = "",
    **extra: Any,
) -> Panel:
    """Describe arrows from 0 in a plane of this extent.

    Args: hull: the number of tips, from the first, whose hull is shaded. dots: dicts of name, at,
        color and tie, the index of the arrow each belongs to, or None. paths: lists of points,
        joined by dashed lines. extra: ``size``, small for a circle instead of the plane; ``group``,
        the title above all small ones.
    """
    drag = "arrows" if any(arrow["control"] for arrow in drawn) else ""
    shapes = {"arrows": list(drawn), "dots": list(dots), "paths": plain(list(paths))}
    return _panel("arrows", title, note, drag=drag, reach=reach, hull=hull, **shapes, **extra)


def shares(
    title: str, rows: Sequence[Panel], *, columns: Sequence[str] = (), note: str = ""
) -> Panel:
    """Describe bars divided into parts, one per row.

    A row is a dict of ``name``, ``numbers`` before the bar, ``parts``, each with a name,
    a value and a color, and ``mark``: a share that the first part once had, or None. ``columns``
    are the words above the columns.
    """
    return _panel("shares", title, note, rows=list(rows), columns=list(columns))


def table(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str = "",
    *,
    most_rows: int = 0,
) -> Panel:
    """Describe a table of text; each row's first cell names the row.

    There is room for ``most_rows`` rows, so that nothing moves when there are more of them.
    """
    texts = [list(row) for row in rows]
    return _panel("table", title, note, head=list(head), rows=texts, most_rows=most_rows)
