"""Set-up on a fresh machine, its repairs, its messages, and the learner's copies."""

import ast
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import venv as venv_module
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pip
import pytest

import mha_course
from mha_course import __main__ as entry
from mha_course.cli import launch


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course that needs no packages, in a folder with a space in its name."""
    root = tmp_path / "my course"
    (root / "notebooks").mkdir(parents=True)
    for name in ("00_start_here", "01_projection"):
        (root / "notebooks" / f"{name}.ipynb").write_text(f'"{name} as shipped"')
    (root / "tests").mkdir()
    (root / "requirements.txt").write_text("# nothing\n")
    (root / "tests/requirements.txt").write_text("# no tools\n")
    for name, place in (("ROOT", root), ("COURSE", root), ("LESSONS", root / "notebooks")):
        monkeypatch.setattr(launch, name, place)
    monkeypatch.setattr(launch, "_answers", lambda address: False)
    monkeypatch.setitem(launch.GIB_NEEDED, "cpu", 0.1)
    return root


def forbid_installing(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(f"nothing should be made or installed, and this was: {arguments}")

    for name in ("_make_venv", "_install"):
        monkeypatch.setattr(launch, name, refuse)


@pytest.fixture
def light(course, monkeypatch):
    """Make environments at once, with the pip that runs here, and count them."""
    made, lent = [], Path(pip.__file__).parent

    def make_venv(venv):
        made.append(venv)
        venv_module.create(venv, clear=True, symlinks=os.name != "nt")
        packages = next(venv.rglob("site-packages"))
        (packages / "needed.py").touch()
        (packages / "needed-1.dist-info").mkdir()
        (packages / "needed-1.dist-info" / "METADATA").write_text("Name: needed\nVersion: 1\n")
        (packages / "needed-1.dist-info" / "RECORD").write_text("needed.py,,\n")
        (packages / "pip").symlink_to(lent)
        for metadata in lent.parent.glob("pip-*.dist-info"):
            # not a link: an upgrade may delete what lies in it
            shutil.copytree(metadata, packages / metadata.name)

    monkeypatch.setattr(launch, "_make_venv", make_venv)
    return made


@pytest.mark.setup
def test_set_up_once_then_never_again(course, monkeypatch):
    python = launch.set_up()
    inside = "import sys; sys.exit(sys.prefix == sys.base_prefix)"
    assert subprocess.run([python, "-c", inside], check=False).returncode == 0
    assert has_pip(python)
    assert (course / ".venv/package.json").read_text() == "{}"  # Node reads no other
    news = json.loads((course / ".venv/share/jupyter/lab/settings/overrides.json").read_text())
    assert news["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    forbid_installing(monkeypatch)
    assert launch.set_up() == python


def has_pip(python):
    command = [python, "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# How it is damaged, and whether the environment must be remade or only mended.
DAMAGES = {
    "pip was stopped": (lambda venv, _: (venv / "mha_course.json").unlink(), True),
    "half deleted": (lambda venv, _: next(venv.rglob("needed.py")).unlink(), True),
    "a broken interpreter": (
        lambda venv, python: (python.unlink(), python.write_text("nothing")), True),
    "other requirements": (
        lambda venv, _: (venv.parent / "requirements.txt").write_text("# still none\n"), False),
    "half a stamp": (lambda venv, python: (venv / "mha_course.json").write_text('{"req'), True),
    "other tools": (
        lambda venv, _: (venv.parent / "tests/requirements.txt").write_text("# new\n"), False),
}  # fmt: skip


@pytest.mark.setup
@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_was_interrupted_is_repaired(course, light, damage):
    python = launch.set_up(tools=True)
    venv = course / ".venv"
    leftover = venv / "leftover"
    leftover.touch()
    break_it, made_anew = DAMAGES[damage]
    break_it(venv, python)
    assert launch.set_up(tools=True) == python
    assert has_pip(python)
    assert leftover.exists() != made_anew
    assert len(light) == 1 + made_anew


@pytest.mark.setup
def test_tools_come_when_tests_need_them_and_stay(course, light, monkeypatch):
    launch.main(["setup"])
    assert (course / "my_course/00_start_here.ipynb").exists()
    installed = []
    monkeypatch.setattr(launch, "_install", lambda _, files, kind: installed.append(files) or True)
    for command in (["setup", "--tools"], ["setup"], ["setup", "--tools"]):
        launch.main(command)
    assert installed == [[course / "requirements.txt", course / "tests/requirements.txt"]]
    assert len(light) == 1


@pytest.mark.setup
def test_an_update_without_network_leaves_what_was_there(course, light, monkeypatch, capsys):
    python = launch.set_up()
    leftover = course / ".venv/leftover"
    leftover.touch()
    without_network(monkeypatch)
    (course / "requirements.txt").write_text("surely-not-installed==1.0\n")
    for _ in range(2):
        assert message(capsys, "setup") == (
            "mha_course: pip could not install the requirements; its lines above say why. fix: "
            "check the network and the disk, and run the same command again\n"
        )
    assert leftover.exists()
    (course / "requirements.txt").write_text("# nothing\n")
    forbid_installing(monkeypatch)
    assert launch.set_up() == python


@pytest.mark.setup
def test_a_second_start_does_not_disturb_the_first(course, light, capsys):
    with launch._only_start(course / ".venv.lock"):
        assert "another process is setting up the course here" in message(capsys, "setup")
        assert light == []
    launch.set_up()
    assert len(light) == 1


@pytest.mark.setup
def test_a_target_in_pips_settings_is_set_aside(course, light, monkeypatch, tmp_path):
    wheel = tmp_path / "given-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {
            "given.py": "",
            "given-1.dist-info/METADATA": "Name: given\nVersion: 1\n",
            "given-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n",
            "given-1.dist-info/RECORD": "",
        }.items():
            archive.writestr(name, text)
    (course / "requirements.txt").write_text(f"{wheel}\n")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    assert subprocess.run([launch.set_up(), "-c", "import given"], check=False).returncode == 0


def test_help_needs_no_set_up(course, capsys):
    for name in launch.COMMANDS:
        with suppress(SystemExit):
            launch.main([name, "--help"])
        assert name in capsys.readouterr().out
    assert not (course / ".venv").exists()


def message(capsys, *arguments):
    assert launch.main(arguments) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_no_venv_module(course, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name)
    )
    said = message(capsys, "setup")
    assert "expected the modules venv and ensurepip" in said
    assert f"sudo apt install python{sys.version_info.major}.{sys.version_info.minor}-venv" in said


def test_no_disk(course, monkeypatch, capsys):
    monkeypatch.setitem(launch.GIB_NEEDED, "cpu", 1e9)
    assert "is nearly full. expected 1000000000.0 GiB free" in message(capsys, "setup")
    free = SimpleNamespace(free=int(2.4999 * 2**30))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    monkeypatch.setitem(launch.GIB_NEEDED, "cpu", 2.5)
    assert "expected 2.5 GiB free, got 2.49 GiB" in message(capsys, "setup")


def test_a_proxy_with_a_bad_address_is_no_network(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy:abc")
    assert not launch._answers(launch.CPU_INDEX)


def without_network(monkeypatch):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")


def test_a_file_in_the_way(course, capsys):
    (course / ".venv").write_text("mine")
    assert "is in the way. expected a folder or nothing" in message(capsys, "setup")
    assert (course / ".venv").read_text() == "mine"


def test_copies_are_never_written_over(course):
    first = launch.copy_lessons()
    assert first.read_text() == '"00_start_here as shipped"'
    rules = course / "my_course/AGENTS.md"
    assert "Be their tutor" in rules.read_text(encoding="utf-8")
    for mine in (first, rules):
        mine.write_text("my work")
    (course / "my_course/01_projection.ipynb").unlink()
    launch.copy_lessons()
    assert first.read_text() == rules.read_text() == "my work"
    assert (course / "my_course/01_projection.ipynb").exists()


def test_reset_brings_back_one_lesson_and_keeps_mine(course, capsys):
    mine = launch.copy_lessons()
    for work in ("first try", "second try"):
        mine.write_text(work)
        assert launch.main(["reset", "0"]) == 0
        assert mine.read_text() == '"00_start_here as shipped"'
    kept = sorted((course / "my_course").glob("*.kept-*"))
    assert [path.read_text() for path in kept] == ["first try", "second try"]
    assert "Your lesson is kept as my_course/00_start_here.kept-2.ipynb." in capsys.readouterr().out
    assert message(capsys, "reset", "99").startswith("mha_course: there is no lesson 99.")


def test_a_start_names_the_lessons_that_changed_since_they_were_copied(course, capsys):
    launch.copy_lessons().write_text("my work")
    launch.copy_lessons()
    assert capsys.readouterr().out == ""  # it is my copy that changed
    (course / "notebooks/00_start_here.ipynb").write_text("new")
    launch.copy_lessons()
    assert capsys.readouterr().out.startswith("Changed since you copied them: 00. Your copies")
    launch.main(["reset", "0"])
    capsys.readouterr()
    (course / "notebooks/01_projection.ipynb").write_text("new")
    (course / "my_course/.copied.json").write_text("{")  # nothing is known then
    assert launch.copy_lessons().read_text() == "new"
    assert capsys.readouterr().out == ""


def test_one_command_sets_the_address_in_every_file(course, capsys):
    texts = {
        "pyproject.toml": '[project.urls]\nRepository = "https://github.com/OWNER/mha-course"\n',
        "README.md": "git clone https://github.com/OWNER/mha-course && cd mha-course\n",
        "CITATION.cff": "repository-code: https://github.com/OWNER/mha-course\n",
        "notebooks/00_start_here.ipynb": '"https://owner.github.io/mha-course/ × mha-course"\n',
    }
    for name, text in texts.items():
        (course / name).write_text(text, encoding="utf-8")
    assert launch.main(["address", "Ada/attention.2"]) == 0
    found = "".join((course / name).read_text(encoding="utf-8") for name in texts)
    assert found == (
        '[project.urls]\nRepository = "https://github.com/Ada/attention.2"\n'
        "git clone https://github.com/Ada/attention.2 && cd attention.2\n"
        "repository-code: https://github.com/Ada/attention.2\n"
        '"https://ada.github.io/attention.2/ × mha-course"\n'
    )
    assert "expected OWNER/NAME, got Ada" in message(capsys, "address", "Ada")
    assert launch.main(["address", "OWNER/mha-course"]) == 0
    for name, text in texts.items():
        assert (course / name).read_text(encoding="utf-8") == text


def test_opening_is_local_with_the_token_on(course, started, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert launch.main(["--no-browser", "--port", "9999"]) == 3
    assert started[0] == "jupyterlab"
    assert (course / "my_course/00_start_here.ipynb").exists()
    for option in (
        "--LabApp.default_url=/lab/tree/my_course/00_start_here.ipynb",
        "--ServerApp.ip=127.0.0.1",
        "--ContentsManager.pre_save_hook=mha_course.cli.jupyter_hooks.drop_widget_views",
        "--LabApp.custom_css=True",
        f"--ServerApp.tornado_settings={{'static_custom_path': {[launch.STYLE]}}}",
    ):
        assert option in started
    assert not [option for option in started if "token" in option]
    assert started[-3:] == ["--no-browser", "--port", "9999"]
    assert ("--allow-root" in started) == (sys.platform != "win32")
    assert (Path(launch.STYLE) / "custom.css").is_file()


@pytest.fixture
def started(monkeypatch):
    """A stand-in for what starts in an existing environment; it ends with status 3."""
    modules = []
    monkeypatch.setattr(launch, "set_up", lambda **_: Path("python"))
    monkeypatch.setattr(
        launch, "_in_venv", lambda python, *arguments, **_: modules.extend(arguments) or 3
    )
    return modules


@pytest.mark.parametrize(
    ("arguments", "notebooks", "marks"),
    [
        (["--fast"], False, []),
        ([], True, []),
        (["--all"], True, ["-m", "not weekly", "-rs"]),
        (["--weekly"], True, ["-m", "", "-rs"]),
    ],
    ids=["fast", "everyday", "all", "weekly"],
)
def test_testing_runs_the_tests_and_the_notebooks_strictly(started, arguments, notebooks, marks):
    assert launch.main(["test", *arguments, "-k", "masks", "tests/test_masks.py"]) == 3
    assert started[0] == "pytest"
    own, further = started[:-3], started[-3:]
    assert further == ["-k", "masks", "tests/test_masks.py"]
    assert ("--nbval" in own) == ("testpaths=tests notebooks" in own) == notebooks
    assert "--nbval-lax" not in own
    assert own[own.index("-m") :] == marks if marks else "-m" not in own


def test_a_command_that_is_not_or_does_not_go_with_another(started, capsys):
    for arguments in (["test", "--fast", "--all"], ["setup", "--fast"], ["lessons"]):
        with pytest.raises(SystemExit):
            launch.main(arguments)
    assert started == []
    assert "not allowed with argument --fast" in capsys.readouterr().err


def test_an_interrupt_is_one_line(course, monkeypatch, capsys):
    monkeypatch.setattr(launch, "set_up", mock.Mock(side_effect=KeyboardInterrupt))
    assert launch.main(["setup"]) == 130
    assert (
        capsys.readouterr().err == "\nmha_course: stopped. Run the same command again to go on.\n"
    )


def test_old_pythons_can_read_what_tells_them_that_they_are_old():
    for module in (mha_course, entry):
        nodes = [*ast.walk(ast.parse(Path(module.__file__).read_text()))]
        newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr)
        assert not [node for node in nodes if isinstance(node, newer)]
        assert not [x for x in nodes if getattr(x, "returns", None) or getattr(x, "annotation", 0)]


def test_what_was_started_ends_with_its_launcher():
    start = (
        "import sys; from pathlib import Path; from mha_course.cli import launch; "
        "launch._in_venv(Path(sys.executable), 'http.server', '0')"
    )
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", start]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, env=unbuffered, cwd=launch.ROOT) as launcher:
        port = int(re.search(rb"port (\d+)", launcher.stdout.readline())[1])
        with socket.create_connection(("localhost", port)):
            launcher.terminate()
        launcher.wait(10)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("localhost", port))


def test_python_2_is_told_that_it_is_old(monkeypatch):
    monkeypatch.delattr(shutil, "which")
    assert entry.find_python() == []


@pytest.mark.parametrize(("version", "word"), [((3, 8), "old"), ((3, 15), "new")])
def test_a_python_that_does_not_suit(version, word, monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(entry, "find_python", list)
    assert entry.main() == 1
    assert capsys.readouterr().err.startswith(
        f"mha_course: this Python is too {word}. expected Python 3.11 to 3.14, got "
        f"3.{version[1]}, fix: "
    )


def test_a_python_that_suits_is_found_and_used(monkeypatch):
    monkeypatch.setattr(
        shutil, "which", lambda name: sys.executable if name in ("python3.12", "py") else None
    )
    assert entry.find_python()[0] == sys.executable
    monkeypatch.setattr(sys, "version_info", (3, 8))
    monkeypatch.setattr(sys, "argv", ["mha_course", "setup"])
    calls = []
    monkeypatch.setattr(subprocess, "call", lambda command, **options: calls.append(command) or 0)
    assert entry.main() == 0
    assert calls[-1][-3:] == ["-m", "mha_course", "setup"]


def test_the_cpu_index_is_asked_only_where_it_helps(course, monkeypatch):
    commands = []

    def fake(command, **options):
        commands.append([str(part) for part in command])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", fake)
    monkeypatch.setattr(sys, "platform", "linux")
    for kind, answers in (("cpu", True), ("cpu", False), ("cuda", True)):
        monkeypatch.setattr(launch, "_answers", lambda address, answers=answers: answers)
        launch._install(course / ".venv/bin/python", [course / "requirements.txt"], kind)
    assert [launch.CPU_INDEX in command for command in commands] == [True, False, False]
