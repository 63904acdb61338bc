"""The course away from a clone: a notebook alone on Colab, Binder's files, and a fork's address."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mha_course import authoring

ROOT = authoring.ROOT


def pins(path):
    return {line for line in path.read_text().splitlines() if "==" in line}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
@pytest.mark.parametrize("number", ["00", "02"])
def test_a_notebook_alone_in_an_empty_folder_on_colab(number, tmp_path):
    (path,) = authoring.LESSONS.glob(f"{number}_*.ipynb")
    text = path.read_text(encoding="utf-8").replace(authoring.address(), ROOT.as_uri())
    notebook = nbformat.reads(text, as_version=4)
    stub = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(stub))
    where = nbformat.v4.new_code_cell("import mha_course; print(mha_course.__file__)")
    notebook.cells.append(where)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    assert Path(where.outputs[0].text.strip()).parts[-3:] == ("mha-course", "mha_course", "__init__.py")
    client.execute()  # a restarted runtime finds the folder there


def test_colab_is_told_to_use_a_gpu_and_never_gets_another_torch():
    for path in authoring.LESSONS.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        assert notebook.metadata.accelerator == "GPU"
        assert notebook.metadata.colab == {"gpuType": "T4", "provenance": [], "toc_visible": True}
        assert "pip" not in next(cell.source for cell in notebook.cells if cell.cell_type == "code")


def test_binder_has_the_same_pins_and_torch_for_the_cpu():
    text = (ROOT / "binder/requirements.txt").read_text()
    assert pins(ROOT / "binder/requirements.txt") <= pins(ROOT / "requirements.txt")
    for name in ("torch", "jupyterlab", "ipywidgets", "matplotlib", "seaborn", "numpy", "tqdm"):
        assert f"\n{name}==" in text
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in text
    assert re.fullmatch(r"python-3\.1[1-4]\n", (ROOT / "binder/runtime.txt").read_text())
    build = (ROOT / "binder/postBuild").read_text()
    assert build.startswith("#!")
    assert "\nset -e\n" in build


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_binders_script_is_sound():
    subprocess.run(["bash", "-n", "binder/postBuild"], cwd=ROOT, check=True)
    mode = (ROOT / "binder/postBuild").stat().st_mode
    assert mode & 0o111 or sys.platform == "win32"


def test_the_address_stands_in_badges_and_first_cells():
    slug = authoring.address().removeprefix("https://github.com/")
    for path in authoring.LESSONS.glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert text.count(slug) == 3, path.name
        assert f"https://colab.research.google.com/github/{slug}/blob/main/notebooks/{path.name}" in text
        assert f"https://mybinder.org/v2/gh/{slug}/main?urlpath=lab/tree/notebooks/{path.name}" in text


def test_one_command_sets_it_for_a_fork(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setattr(authoring, "ROOT", tmp_path)
    monkeypatch.setattr(authoring, "LESSONS", tmp_path / "notebooks")
    old = authoring.address().removeprefix("https://github.com/")
    assert authoring.main(["address", "https://github.com/someone/their-fork"]) == 0
    assert authoring.address() == "https://github.com/someone/their-fork"
    for path in (tmp_path / "README.md", *authoring.LESSONS.glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        assert "someone/their-fork" in text
        assert old not in text
        if path.suffix == ".ipynb":
            nbformat.validate(nbformat.reads(text, as_version=4))


@pytest.mark.parametrize("wrong", ["someone/fork", "https://example.org/a/b", "https://github.com/a"])
def test_an_address_that_is_none(wrong):
    with pytest.raises(ValueError, match=r"expected https://github\.com/OWNER/NAME, got"):
        authoring.address_command(wrong)
