"""Results as a small table with a caption, styled like a figure."""

from __future__ import annotations

from collections.abc import Sequence

from mha_course import markup
from mha_course.colours import BAR
from mha_course.errors import require
from mha_course.plots.figures import show_html

WIDEST = 120  # pixels of a bar
RIGHT = markup.CELL.replace("left", "right") + ";font-variant-numeric:tabular-nums"

Value = str | int | float


def results(
    columns: Sequence[str], rows: Sequence[Sequence[Value]], *, caption: str, bars: str = ""
) -> None:
    """Display rows of results with a caption; a column's numbers are aligned at the decimal point.

    Args: columns are the headings; rows have a value for each, with floats written to two decimals;
        bars names a column of nonnegative numbers to draw bars for, from 0 to 1, or to the largest
        number if that is larger.
    Raises: ShapeError unless each row has one value for each column.
    """
    for row in rows:
        rule = "a row must have a value for each column"
        got = f"{len(row)} values"
        expected = f"{len(columns)} values"
        require(len(row) == len(columns), "results", rule, expected=expected, got=got)
    barred = columns.index(bars) if bars else None
    ends = [1.0, *(float(row[barred]) for row in rows)] if barred is not None else [1.0]
    written = [[_written(value) for value in row] for row in rows]
    lines = []
    for row, texts in zip(rows, written, strict=True):
        cells = ""
        for number, (value, text) in enumerate(zip(row, texts, strict=True)):
            style = markup.CELL if isinstance(value, str) else RIGHT
            cells += f'<td style="{style}">{markup.escaped(text)}</td>'
            if number == barred:
                cells += f'<td style="{markup.CELL}">{_bar(float(value) / max(ends))}</td>'
        lines.append(f"<tr>{cells}</tr>")
    heads = list(columns)
    if barred is not None:
        heads.insert(barred + 1, "")
    table = markup.table("", heads, lines)
    show_html(markup.figure(table, caption), f"{caption}\n{markup.columns([columns, *written])}")


def _written(value: Value) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _bar(fraction: float) -> str:
    style = f"width:{round(fraction * WIDEST)}px;height:10px;background-color:{BAR}"
    return f'<div style="{style}"></div>'
