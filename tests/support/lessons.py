"""The lessons as they are kept; a test that changes one takes a copy."""

import functools
import importlib
import pkgutil
import re

import nbformat

import mha_course.lessons
from mha_course.cli import authoring

LESSONS = sorted(authoring.LESSONS.glob("*.ipynb"))
BY_NAME = {"argvalues": LESSONS, "ids": lambda path: path.stem}  # for parametrize


@functools.cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def modules_named(*names):
    """Import the modules with these names from the lessons' folders, and return them."""
    root = mha_course.lessons
    found = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
    wanted = [module.name for module in found if module.name.rpartition(".")[2] in names]
    return [importlib.import_module(name) for name in wanted]


def links_of_widgets(path):
    """Return where a saved lesson's pictures of widgets lead: pages, and places on them."""
    outputs = [output for cell in code_cells(read(path)) for output in cell.outputs]
    pages = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    return re.findall(r'<a href="([^"#]+)#([^"]+)">Move it on the reading site', pages)
