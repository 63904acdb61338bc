"""The course without a clone: a single notebook on Colab, Binder's files."""

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
import torch
from elsewhere import COLAB, STUB
from lessons import LESSONS
from nbclient import NotebookClient

from mha_course.cli import authoring, launch

ROOT = authoring.ROOT
OFTEN = ("00", "13", "18")  # an explorer that answers, a film, another library; the rest is weekly
RECORD = """
import subprocess
programs, started = [], subprocess.Popen.__init__
def note(self, args, *rest, **more):
    program = args[0] if isinstance(args, list) else args
    if program != "fc-list":  # matplotlib asks for the fonts where it was never used before
        programs.append(program)
    started(self, args, *rest, **more)
subprocess.Popen.__init__ = note
"""
TELL = """
import importlib.metadata, json, mha_course, torch
names = ("ipywidgets", "ipython", "ipykernel", "numpy", "matplotlib", "anywidget")
print(json.dumps({
    "course": mha_course.__file__, "programs": programs, "torch": torch.__file__,
    "versions": {name: importlib.metadata.version(name) for name in names},
}))
"""


def pins(path):
    return {line for line in path.read_text().splitlines() if "==" in line}


def alone(path):
    """Return a lesson that fetches this clone, and prints at the end what it runs on."""
    text = path.read_text(encoding="utf-8").replace(launch.repository(), ROOT.as_uri())
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STUB + RECORD))
    notebook.cells.append(nbformat.v4.new_code_cell(TELL))
    return notebook


def run_alone(notebook, folder, **environment):
    """Run it in a folder, and return what its last cell prints."""
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute(env={**os.environ, "MHA_COURSE_PROGRESS": "off", **environment})
    return json.loads(notebook.cells[-1].outputs[0].text)


@pytest.mark.elsewhere
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_a_notebook_alone_in_an_empty_folder_on_colab(tmp_path):
    notebook = alone(LESSONS[2])
    told = run_alone(notebook, tmp_path)
    assert Path(told["course"]).parts[-3:] == ("mha-course", "mha_course", "__init__.py")
    assert told["programs"] == ["git"]
    written = [cell.get("outputs") and cell.outputs[0].get("text") for cell in notebook.cells]
    assert sum("Save a copy in Drive" in text for text in filter(None, written)) == 1
    # a restarted runtime finds the folder there
    assert run_alone(notebook, tmp_path)["programs"] == []


@pytest.mark.elsewhere
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
@pytest.mark.parametrize(
    "path",
    [
        path
        if path.name[:2] in OFTEN
        else pytest.param(path, marks=pytest.mark.weekly, id=path.stem)
        for path in LESSONS
    ],
    ids=lambda path: path.stem,
)
def test_every_notebook_runs_on_colabs_versions_and_installs_nothing(
    path, tmp_path, colab_versions
):
    told = run_alone(alone(path), tmp_path, PYTHONPATH=str(colab_versions))
    assert told["versions"] == {name: COLAB[name] for name in told["versions"]}
    assert told["programs"] == ["git"]
    assert torch.__file__ == told["torch"]


def test_colab_gives_a_gpu_to_the_lessons_that_use_it_and_no_other_torch():
    for path in LESSONS:
        notebook = nbformat.read(path, as_version=4)
        uses_gpu = path.name[:2] in ("12", "18")
        assert notebook.metadata.get("accelerator") == ("GPU" if uses_gpu else None)
        gpu = {"gpuType": "T4"} if uses_gpu else {}
        assert notebook.metadata.colab == {**gpu, "provenance": [], "toc_visible": True}
        assert "pip" not in next(cell.source for cell in notebook.cells if cell.cell_type == "code")


def test_binder_has_the_same_pins_and_torch_for_the_cpu():
    text = (ROOT / "binder/requirements.txt").read_text()
    assert pins(ROOT / "binder/requirements.txt") <= pins(ROOT / "requirements.txt")
    for name in ("torch", "jupyterlab", "ipywidgets", "matplotlib", "seaborn", "numpy", "tqdm"):
        assert f"\n{name}==" in text
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in text
    assert re.fullmatch(r"python-3\.1[1-4]\n", (ROOT / "binder/runtime.txt").read_text())


def test_the_address_stands_in_badges_and_first_cells():
    slug = launch.repository().removeprefix("https://github.com/")
    for path in LESSONS:
        text = path.read_text(encoding="utf-8")
        assert text.count(slug) == 3, path.name
        for address in (
            f"https://colab.research.google.com/github/{slug}/blob/main/notebooks/{path.name}",
            f"https://mybinder.org/v2/gh/{slug}/main?urlpath=lab/tree/notebooks/{path.name}",
            f"]({launch.pages(launch.repository())}{path.stem}.html)",
        ):
            assert address in text
