"""Tables of all heads of the course's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from mha_course import example, plots
from mha_course.lessons.l17_what_heads_do.head_tables import head_names


def by_head(
    tables: Mapping[str, Tensor], rows: Iterable[str], caption: str, *, unit: str = "mean weight"
) -> None:
    """Show tables that have a column for each head, (rows, L·H), under their titles."""
    columns = head_names(example.trained_model())
    plots.show(plots.number_tables(tables, list(rows), columns, group=4, unit=unit), caption)
