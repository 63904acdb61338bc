"""Lessons run with every stub replaced by its reference, and with each of its mistakes."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

from mha_course.exercises import catalogue

pytestmark = pytest.mark.notebook
ROOT = Path(__file__).resolve().parents[2]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHECK = re.compile(r'check\("(\w+)", (\w+)\)')
SOLVED = "from mha_course.exercises.catalogue import EXERCISES\n{name} = EXERCISES['{name}'].reference"
MISTAKEN = """
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.diagnose import ways
for way in ways("{name}"):
    report = check("{name}", EXERCISES["{name}"].implementation(way.change))
    assert report.mistake in (way.mistake.name or None, *way.mistake.same_as), (report, way.mistake.name)
"""


def answered(path, mistakes=False):
    """Return a lesson whose stubs are answered, cell by cell."""
    notebook = nbformat.read(path, 4)
    for stub, cell in zip(notebook.cells, notebook.cells[1:], strict=False):
        found = CHECK.fullmatch(cell.source)
        if found:
            stub.source = SOLVED.format(name=found[1])
            if mistakes:
                cell.source += MISTAKEN.format(name=found[1])
    return notebook


def run(notebook, monkeypatch):
    monkeypatch.setenv("MHA_COURSE_PROGRESS", "off")
    options = {"timeout": 240, "kernel_name": "python3", "resources": {"metadata": {"path": str(ROOT / "notebooks")}}}
    nbclient.NotebookClient(notebook, **options).execute()
    return notebook


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_solved_it_says_correct_everywhere(path, monkeypatch):
    notebook = run(answered(path), monkeypatch)
    names = []
    for cell in notebook.cells:
        found = CHECK.fullmatch(cell.source) if cell.cell_type == "code" else None
        if found and found[1] == found[2]:
            assert cell.outputs[0]["data"]["text/plain"].startswith(f"{found[1]}: Correct."), found[1]
            names.append(found[1])
    assert names == [exercise.name for exercise in catalogue.LESSONS[int(path.stem[:2])].exercises]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_each_mistake_is_named_in_its_lesson(path, monkeypatch):
    run(answered(path, mistakes=True), monkeypatch)
