"""Lessons run with every stub replaced by its reference."""

import copy
import itertools
import re

import nbclient
import pytest
from lessons import LESSONS, read

from mha_course.exercises import catalogue

pytestmark = pytest.mark.notebook
CHECK = re.compile(r'check\("(\w+)", (\w+)\)')
SOLVED = (
    "from mha_course.exercises.catalogue import EXERCISES\n{name} = EXERCISES['{name}'].reference"
)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_solved_it_says_correct_everywhere(path, monkeypatch):
    monkeypatch.setenv("MHA_COURSE_PROGRESS", "off")
    notebook = copy.deepcopy(read(path))
    for stub, cell in itertools.pairwise(notebook.cells):
        found = CHECK.fullmatch(cell.source)
        if found:
            stub.source = SOLVED.format(name=found[1])
    options = {
        "timeout": 240,
        "kernel_name": "python3",
        "resources": {"metadata": {"path": str(path.parent)}},
    }
    nbclient.NotebookClient(notebook, **options).execute()
    names = []
    for cell in notebook.cells:
        found = CHECK.fullmatch(cell.source) if cell.cell_type == "code" else None
        if found and found[1] == found[2]:
            assert cell.outputs[0]["data"]["text/plain"].startswith(f"{found[1]}: Correct."), found[
                1
            ]
            names.append(found[1])
    assert names == [exercise.name for exercise in catalogue.LESSONS[int(path.stem[:2])].exercises]
