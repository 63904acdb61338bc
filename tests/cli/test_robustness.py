"""The course under rough use: cells out of order, and machines that lack something."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mha_course.cli import authoring, launch
from mha_course.exercises import progress_store, progress_table

ROOT = authoring.ROOT
LESSONS = sorted(authoring.LESSONS.glob("*.ipynb"))
TWICE = ("00", "11")  # with explorers, labs and caches: every cell runs three times there
LONG = 20.0  # seconds; what trains for longer is not trained again
PLACE = "mé cours ☕"
# Runs a lesson without a kernel, as some places do, and says where the package was found.
SCRIPT = """
import json, pathlib, sys
import matplotlib; matplotlib.use("agg")
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell("".join(cell["source"])).raise_error()
import mha_course
print("PACKAGE", ascii(mha_course.__file__))
"""
RIGHT = """
from mha_course.exercises import check, progress
def attend(x):
    return (x @ x.mT / x.size(1) ** 0.5).softmax(1) @ x
print("REPORT", check("attend", attend).status)
print("PROGRESS", progress())
"""


def read(path):
    return nbformat.read(path, as_version=4)


@contextlib.contextmanager
def kernel(notebook, folder=authoring.LESSONS):
    """Start a kernel; return what runs the cell of a number and returns its seconds."""
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    with client.setup_kernel():

        def run(number):
            start = time.monotonic()
            cell = notebook.cells[number]
            if cell.cell_type == "code":
                client.execute_cell(cell, number)
                told = [output.text for output in cell.outputs if output.get("name") == "stderr"]
                assert not told, f"{cell.id}: {told}"
            return time.monotonic() - start

        yield run


@pytest.mark.notebook
@pytest.mark.parametrize(
    "path", [path for path in LESSONS if path.name[:2] in TWICE], ids=lambda path: path.stem
)
def test_cells_run_twice_and_sections_in_any_order(path):
    notebook = read(path)
    with kernel(notebook) as run:
        quick = []
        for number in range(len(notebook.cells)):
            if run(number) < LONG:
                quick.append(number)
                run(number)
        starts = [n for n, cell in enumerate(notebook.cells) if cell.source.startswith("## ")]
        for section in reversed([*itertools.pairwise([0, *starts, len(notebook.cells)])]):
            for number in range(*section):
                if number in quick:
                    run(number)


@pytest.fixture
def course(tmp_path):
    """Copy the course and two lessons into a folder with a space and other letters."""
    place = tmp_path / PLACE
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "mha_course", place / "mha_course", ignore=ignored)
    (place / "notebooks").mkdir()
    for path in LESSONS[:2]:
        shutil.copy(path, place / "notebooks")
    return place


def python(arguments, folder, *, before=(), **environment):
    """Run Python in a folder, without the course on its path, and return what it printed."""
    keep = {name: os.environ.get(name) for name in ("HOME", "SYSTEMROOT", "USERPROFILE")}
    environment = keep | {"PATH": os.defpath, "PYTHONIOENCODING": "utf-8"} | environment
    environment = {name: value for name, value in environment.items() if value is not None}
    done = subprocess.run(
        [*before, sys.executable, *arguments], cwd=folder, env=environment, capture_output=True,
        encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


@pytest.mark.setup
def test_a_folder_with_a_space_and_other_letters(course):
    said = python(["-c", SCRIPT, LESSONS[0].name], course / "notebooks").stdout
    assert f"PACKAGE {ascii(str(course))[:-1]}" in said
    told = python(["-m", "mha_course", "reset", "1"], course).stdout
    assert told == f"{Path('my_course/01_projection.ipynb')} is as it was.\n"
    assert (course / "my_course" / "01_projection.ipynb").exists()
    with kernel(read(course / "notebooks" / LESSONS[0].name), course / "notebooks") as run:
        for number in range(8):
            run(number)


def without_rights():
    """Return what keeps a command from writing where the mode forbids it, root or not."""
    if not hasattr(os, "geteuid"):
        pytest.skip("folders are made read-only in another way here")
    if os.geteuid():
        return ()
    drop = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
    if not shutil.which("setpriv") or subprocess.run([*drop, "true"], check=False).returncode:
        pytest.skip("root may write everywhere, and there is no setpriv to forbid it")
    return drop


@pytest.mark.setup
def test_a_folder_that_cannot_be_written_to(course):
    before = without_rights()
    for path in (course, *course.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        done = python(["-c", RIGHT], course / "notebooks", before=before, PYTHONPATH=str(course))
        said = python(["-c", SCRIPT, LESSONS[0].name], course / "notebooks", before=before).stdout
        left = subprocess.run(
            [*before, sys.executable, "-m", "mha_course", "reset", "0"], cwd=course,
            capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    finally:
        for path in (course, *course.rglob("*")):
            path.chmod(0o755)
    assert done.stdout.splitlines() == ["REPORT correct", f"PROGRESS {progress_table.LOCKED}"]
    assert done.stderr == ""
    assert f"PACKAGE {ascii(str(course))[:-1]}" in said
    assert not (course / "notebooks" / progress_store.FILE).exists()
    assert left.returncode == 1
    assert left.stderr.startswith("mha_course: you work on copies of the lessons")
    assert len(left.stderr.splitlines()) == 1


def without_network():
    """Return what to put before a command so that it reaches nothing, where that can be done."""
    cut = ("unshare", "--net")
    if not shutil.which("unshare"):
        return ()
    done = subprocess.run([*cut, "true"], capture_output=True, check=False)
    return () if done.returncode else cut


@pytest.mark.setup
@pytest.mark.parametrize("home", [None, "/dev/null/nowhere"])
def test_no_network_and_no_home(course, home):
    proxies = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    dead = dict.fromkeys(proxies, "http://127.0.0.1:9")
    cut = without_network()
    script = ["-c", SCRIPT, LESSONS[1].name]
    done = python(script, course / "notebooks", before=cut, HOME=home, **dead)
    assert f"PACKAGE {ascii(str(course))[:-1]}" in done.stdout
    dead["PYTHONPATH"] = str(course)
    done = python(["-c", RIGHT], course / "notebooks", before=cut, HOME=home, **dead)
    assert "REPORT correct" in done.stdout
    kept = json.loads((course / "notebooks" / progress_store.FILE).read_text())
    assert kept["exercises"] == {"attend": {"status": "correct"}}


@pytest.fixture(scope="module")
def bin_of_wheel(tmp_path_factory):
    """Install a wheel of the course next to the installed packages, and return its programs."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", f"--wheel-dir={place}", ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "env"], check=True)
    paths = dict.fromkeys(("base", "platbase"), place / "env")
    programs = Path(sysconfig.get_path("scripts", vars=paths))
    site_packages = Path(sysconfig.get_path("purelib", vars=paths))
    (site_packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    (wheel,) = place.glob("*.whl")
    program = programs / Path(sys.executable).name
    subprocess.run([*pip, "--python", program, "install", "--no-deps", wheel], check=True)
    return programs


@pytest.mark.setup
def test_a_wheel_opens_the_course_in_the_current_folder(bin_of_wheel, tmp_path):
    course = bin_of_wheel / "mha-course"
    command = [course, "--no-browser", "--ServerApp.port=0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        address = next(line for line in server.stderr if "http://127.0.0.1:" in line)
        server.terminate()
    assert "/lab/tree/my_course/00_start_here.ipynb?token=" in address
    copies = tmp_path / "my_course"
    assert [path.name for path in sorted(copies.glob("*.ipynb"))] == [x.name for x in LESSONS]
    program = bin_of_wheel / Path(sys.executable).name
    for script in ([SCRIPT, LESSONS[0].name], [RIGHT]):
        done = subprocess.run(
            [program, "-P", "-c", *script], cwd=copies, capture_output=True, text=True, check=True
        )
        assert "REPORT correct" in done.stdout or str(bin_of_wheel.parent) in done.stdout
    subprocess.run([course, "site", "00", "--out", "site"], cwd=tmp_path, check=True)
    assert (tmp_path / "site" / "00_start_here.html").exists()


@pytest.mark.setup
@pytest.mark.parametrize("name", launch.NEED_CLONE)
def test_what_needs_a_clone_says_so(bin_of_wheel, tmp_path, name):
    command = [bin_of_wheel / "mha-course", name, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"mha_course: {name} needs a clone.")
    assert list(tmp_path.iterdir()) == []


def test_what_is_started_imports_nothing_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    environment = launch._environment(tmp_path / "bin" / "python")
    assert "PYTHONPATH" not in environment
    assert environment["MPLCONFIGDIR"] == str(tmp_path / "matplotlib")
