"""Every lesson as people leave it: solved, in JupyterLab in a browser, run, moved by keys, saved,
and opened again.
"""

import copy
import itertools
import re
import shutil

import browsing
import nbformat
import pytest
import walking
from lessons import LESSONS, read

from mha_course.exercises import catalogue

CHECK = re.compile(r'check\("(\w+)", \1\)')


@pytest.fixture
def badges(lab):
    folder = lab.folder / "mha_course" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for badge in (browsing.ROOT / "mha_course" / "data").glob("*.svg"):
        shutil.copy(badge, folder)


@pytest.mark.usefixtures("badges")
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_solved_lesson_in_a_browser(path, lab_page, lab, tmp_path):
    told = []
    solved = tmp_path / path.name
    nbformat.write(solve(read(path)), solved)
    page = lab_page(solved, run=False, height=1000)
    page.on(
        "console", lambda message: told.append(message.text) if message.type == "error" else None
    )
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    runs(page)
    says_correct(page, int(path.stem[:2]))
    # also what is under Deeper
    page.evaluate("jupyterapp.commands.execute('notebook:expand-all-headings')")
    widgets = page.query_selector_all(walking.WIDGETS)
    for widget in widgets:
        can_be_reached(page, widget)
    for widget in widgets:
        answers(page, widget)
    walking.settle(page)
    assert walking.troubles(page) == []
    assert page.evaluate("complaints") == []
    assert told == []  # later JupyterLab itself is not content: a kernel goes
    can_be_opened_again(page, lab)


def solve(notebook):
    """Replace every stub of a lesson by a written solution."""
    notebook = copy.deepcopy(notebook)
    for stub, cell in itertools.pairwise(notebook.cells):
        exercise = CHECK.fullmatch(cell.source)
        if exercise:
            stub.source = f"from solutions import {exercise[1]}"
    return notebook


def says_correct(page, number):
    """Every exercise of the lesson is checked, and correct."""
    correct = []
    for cell in walking.contents(page)["cells"]:
        exercise = CHECK.fullmatch("".join(cell["source"]))
        if exercise:
            text = "".join(cell["outputs"][0]["data"]["text/plain"])
            assert text.startswith(f"{exercise[1]}: Correct."), text
            correct.append(exercise[1])
    assert correct == [exercise.name for exercise in catalogue.LESSONS[number].exercises]


def runs(page):
    page.evaluate(walking.LISTEN)
    assert page.evaluate(walking.RUN), "not run within ten minutes"
    walking.settle(page)
    page.wait_for_timeout(300)
    notebook = walking.contents(page)
    assert walking.wrong_outputs(notebook) == []
    assert all(cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert walking.troubles(page) == []
    assert page.evaluate("complaints") == []
    assert (
        page.evaluate(
            "[...document.images].filter((image) => !image.naturalWidth).map((image) => image.src)"
        )
        == []
    )


def can_be_reached(page, widget):
    """Reach each control with Tab, see where the focus is, and have a name for it."""
    assert walking.tab_through(page, widget) == []
    assert walking.unreached(widget) == []
    assert [who for who, name in walking.names(page, widget).items() if not name] == []


def answers(page, widget):
    for control in walking.controls(widget):
        stuck = walking.move(page, control)
        assert not stuck, f"it did not move: {stuck}"


def can_be_opened_again(page, lab):
    """Save, open again, and once more without a kernel: the pictures are still there."""
    shown = walking.views(walking.contents(page))
    page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("!jupyterapp.shell.currentWidget.context.model.dirty")
    address = page.url
    for end in (False, True):
        page.goto("about:blank")  # JupyterLab complains of a kernel that goes while it looks
        if end:
            lab.end_kernels()
        page.goto(address)
        page.locator(browsing.IDLE).wait_for(timeout=90_000)
        walking.settle(page)
        page.wait_for_timeout(1500)
        assert walking.troubles(page) == []
        for number, count in shown.items():
            cell = page.locator(".jp-Notebook .jp-Cell").nth(number)
            twins = (
                cell.locator(".jp-OutputArea-output")
                .locator("img, table, strong")
                .filter(visible=True)
            )
            assert twins.count() >= count, f"cell {number} has no picture"
        assert page.locator(walking.WIDGETS).count() == 0


def test_a_progress_bar_does_not_come_back_as_an_error(lab_page, lab):
    page = lab_page(
        ["from tqdm.auto import tqdm\nfor _ in tqdm(range(3), desc='train'): pass", "1 + 1"]
    )
    assert walking.views(walking.contents(page)) == {}
    can_be_opened_again(page, lab)
    assert page.locator(".jp-OutputArea-output").all_inner_texts() == ["2"]
