"""The lessons as they are kept; whoever changes one takes a copy of it."""

import functools

import nbformat

from mha_course.cli import authoring

LESSONS = sorted(authoring.LESSONS.glob("*.ipynb"))


@functools.cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    """Return the text between the cells of code."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
