"""Set up the course, open it, test it, restore a lesson. Only the standard library is needed."""

from __future__ import annotations

import argparse
import errno
import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

from mha_course.questions import due_line

PACKAGE = Path(__file__).resolve().parents[1]
IN_WHEEL = PACKAGE / "course"  # where a wheel keeps the notebooks, README.md and pyproject.toml
FROM_WHEEL = IN_WHEEL.exists()  # by pip; otherwise this is a clone
COURSE = IN_WHEEL if FROM_WHEEL else PACKAGE.parent  # is read
ROOT = Path.cwd() if FROM_WHEEL else PACKAGE.parent  # is written to
LESSONS, COPIES = COURSE / "notebooks", "my_course"
COMMAND = "mha-course" if FROM_WHEEL else "python3 -m mha_course"
STYLE = (PACKAGE / "cli" / "style").as_posix()  # where the style sheet is
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_INDEX = "https://download.pytorch.org/whl/cu130"
STAMP = "mha_course.json"  # in .venv, once all is installed
NEED_CLONE = ("setup", "test", "render", "train", "address")
COMMANDS = {  # each with what help says of it
    "setup": "install what the course needs into .venv, copy the lessons, and stop",
    "test": "set up and test the package and every notebook; other options go to pytest",
    "reset": "restore one lesson, and keep your copy",
    "render": "execute notebooks in place (for maintainers)",
    "train": "train the model of the running example (for maintainers)",
    "address": "set the repository's address in every file (for maintainers)",
    "slides": "build lecture decks in decks/ (for lecturers)",
    "site": "write the reading site (for lecturers)",
    "grade": "judge the notebooks of a class (for lecturers)",
}
MODULES = {  # which are run in the environment
    "render": ("mha_course.cli.authoring", "render"),
    "train": ("mha_course.cli.authoring", "train"),
    "slides": ("mha_course.cli.slides",),
    "site": ("mha_course.cli.site",),
    "grade": ("mha_course.cli.grading",),
}
GIB_NEEDED = {"cpu": 2.5, "cuda": 9.0}
# Prints how many modules of the installed packages are missing: part of .venv may be deleted.
MISSING = """from importlib.metadata import distributions
files = (file for each in distributions() for file in each.files or ())
print(sum(not file.locate().exists() for file in files if file.suffix == ".py"))"""
EXTENTS = {  # of the tests, each with its line of help
    "fast": "only the quick tests of the package",
    "all": "also browsers, a second device, and slow tests",
    "weekly": "also training, Binder's environment, and every lesson with Colab's versions",
}
MARKS = {"all": "not weekly", "weekly": ""}  # which markers pytest runs


class SetupError(Exception):
    """A set-up that cannot go on; the message says what to do."""


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit status; each failure is one message."""
    try:
        return _run(list(argv))
    except (SetupError, OSError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nmha_course: stopped. Run the same command again to go on.", file=sys.stderr)
        return 130


def _run(argv: list[str]) -> int:
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        return open_lab(set_up(), argv)
    name, *further = argv
    if FROM_WHEEL and name in NEED_CLONE:
        raise SetupError(
            f"{name} needs a clone. expected the course's folder with its tests, got the package "
            f"that pip installed, fix: git clone {repository()}, and run python3 -m mha_course "
            f"{name} in it"
        )
    if name in MODULES:
        asks = not {"-h", "--help"}.isdisjoint(further)
        if asks and not FROM_WHEEL and not (ROOT / ".venv" / STAMP).exists():
            print(f"{name}: {COMMANDS[name]}. Its options are shown once the course is set up.")
            return 0
        module, *arguments = MODULES[name]  # its paths are the caller's
        return _in_venv(set_up(), module, *arguments, *further, folder=Path.cwd())
    parser = _parser()
    chosen, further = parser.parse_known_args(argv)
    if name == "test":
        return run_tests(set_up(tools=True), further, chosen.extent)
    if further:
        parser.error(f"unrecognized arguments: {' '.join(further)}")
    if name == "reset":
        return reset_lesson(chosen.lesson)
    if name == "address":
        set_address(chosen.repository)
    else:
        set_up(tools=chosen.tools)
        copy_lessons()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Without a command: set up and open the course in JupyterLab; further options "
        "go to JupyterLab.",
    )
    commands = parser.add_subparsers(metavar="command", title="commands")
    parsers = {
        name: commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        for name, text in COMMANDS.items()
    }
    text = "also install what tests and editing need"
    parsers["setup"].add_argument("--tools", action="store_true", help=text)
    parsers["reset"].add_argument("lesson", help="its number, such as 03")
    parsers["address"].add_argument("repository", metavar="OWNER/NAME", help="on GitHub")
    extent = parsers["test"].add_mutually_exclusive_group()
    for name, text in EXTENTS.items():
        extent.add_argument(f"--{name}", dest="extent", action="store_const", const=name, help=text)
    return parser


def set_up(*, tools: bool = False) -> Path:
    """Make .venv hold exactly requirements.txt, and return its Python.

    Does nothing when it already does. Args: tools adds tests/requirements.txt.
    """
    if FROM_WHEEL:
        return Path(sys.executable)
    requirements = [ROOT / "requirements.txt"]
    if tools:
        requirements.append(ROOT / "tests" / "requirements.txt")
    venv = ROOT / ".venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    digests = {hashlib.sha256(path.read_bytes() + bytes(venv)).hexdigest() for path in requirements}
    stamp = venv / STAMP
    *installed, missing = stamp.read_text(errors="replace").split("\n") if stamp.exists() else [""]
    is_whole = bool(installed) and missing == _missing(python)
    if is_whole and digests <= {*installed}:
        return python
    with _only_start(venv.with_name(".venv.lock")):
        _fill(venv, python, requirements, anew=not is_whole)
        # With what is missing now: some package may list modules that it does not have.
        stamp.write_text("\n".join([*digests, _missing(python)]))
        print("The course is set up.", flush=True)
        _say_how_to_use_the_gpu(python, requirements[0])
    return python


@contextmanager
def _only_start(path: Path) -> Iterator[None]:
    """Refuse a second start while one sets up the course; where files cannot be locked, go on."""
    with path.open("w") as file:
        try:
            if sys.platform == "win32":
                import msvcrt  # noqa: PLC0415 (only Windows has it)

                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl  # noqa: PLC0415 (Windows does not have it)

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise SetupError(
                    "another process is setting up the course here. fix: wait until it has ended, "
                    "and run the same command again"
                ) from error
        yield


def _fill(venv: Path, python: Path, requirements: Sequence[Path], *, anew: bool) -> None:
    """Install into the environment, which is remade if it was incomplete."""
    print("Setting up the course in .venv. This happens once and takes a few minutes.", flush=True)
    kind = _torch_kind()
    if anew:
        _require_disk(GIB_NEEDED[kind])
        _make_venv(venv)
    stamp = venv / STAMP
    before = "" if anew else stamp.read_text()
    stamp.unlink(missing_ok=True)  # a pip that is killed leaves half a package behind
    if not _install(python, requirements, kind):
        stamp.write_text(before)
        raise SetupError(
            "pip could not install the requirements; its lines above say why. fix: check the "
            "network and the disk, and run the same command again"
        )
    _quieten(venv)


def _say_how_to_use_the_gpu(python: Path, requirements: Path) -> None:
    if sys.platform != "win32" or not shutil.which("nvidia-smi"):
        return
    lines = requirements.read_text().splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    print(
        f'To use the NVIDIA GPU: "{python}" -m pip install {torch}+cu130 --extra-index-url '
        f"{CUDA_INDEX}"
    )


def _torch_kind() -> str:
    nvidia = shutil.which("nvidia-smi") or Path("/proc/driver/nvidia").exists()
    return "cuda" if nvidia and sys.platform == "linux" else "cpu"  # MPS has no float64


def _require_disk(gib: float) -> None:
    free = shutil.disk_usage(ROOT).free / 2**30
    if free < gib:
        raise SetupError(
            f"the disk of {ROOT} is nearly full. expected {gib} GiB free, got "
            f"{math.floor(100 * free) / 100:.2f} GiB, fix: make room and run the same command again"
        )


def _output(python: Path, *arguments: str) -> str | None:
    """Return what this Python prints, or None if it fails or does not start."""
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(
            [python, *arguments], stderr=subprocess.DEVNULL, text=True
        ).strip()
    return None


def _missing(python: Path) -> str:
    """Return how many modules are missing, or None if this Python does not run."""
    return _output(python, "-I", "-c", MISSING) or ""


def _make_venv(venv: Path) -> None:
    base = getattr(sys, "_base_executable", None) or sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            f"this Python cannot make environments. expected the modules venv and ensurepip, got "
            f"{base} without them, fix: on Debian or Ubuntu, sudo apt install "
            f"python{version}-venv; then run the same command again"
        )
    if venv.is_symlink() or venv.is_file():
        raise SetupError(
            f"{venv} is in the way. expected a folder or nothing, got a file or link, fix: move "
            f"it away"
        )
    result = subprocess.run(
        [base, "-m", "venv", "--clear", venv], capture_output=True, text=True, check=False
    )
    if result.returncode:
        reason = (result.stderr or result.stdout).strip().splitlines() or ["no reason given"]
        raise SetupError(f"the environment could not be made in {venv}: {reason[-1]}")


def _install(python: Path, requirements: Sequence[Path], kind: str) -> bool:
    """Install the requirements with pip, and return whether that worked."""
    # An empty target sets aside one in pip's settings, which would install elsewhere.
    options = ["--disable-pip-version-check", "--retries=2", "--target="]
    options += [f"--requirement={path}" for path in requirements]
    if sys.platform == "linux" and kind == "cpu" and _answers(f"{CPU_INDEX}/torch/"):
        options += ["--extra-index-url", CPU_INDEX]
    environment = {**os.environ, "PIP_USER": "0"}
    command = [str(python), "-m", "pip", "install", *options]
    return subprocess.run(command, env=environment, check=False).returncode == 0


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=3):
            return True
    except (OSError, ValueError, HTTPException):  # such as a proxy's bad address
        return False


def _quieten(venv: Path) -> None:
    """Turn off JupyterLab's question about news, and a warning of Node's about the module type of
    its script.
    """
    (venv / "package.json").write_text("{}")
    settings = venv / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    overrides = {"@jupyterlab/apputils-extension:notification": quiet}
    (settings / "overrides.json").write_text(json.dumps(overrides))


def copy_lessons() -> Path:
    """Copy the lessons the learner lacks, name those that have changed, and return the first.

    AGENTS.md comes with them: it asks an assistant to be a tutor.

    An update never overwrites a learner's copy: ``reset`` brings the new version.
    """
    copies = ROOT / COPIES
    try:
        copies.mkdir(exist_ok=True)
    except PermissionError as error:
        raise SetupError(
            f"you work on copies of the lessons, which go into {copies}. expected a folder that "
            f"can be written to, got {error.strerror}, fix: copy the course into a folder of your "
            f"own and run the same command there"
        ) from error
    record = copies / ".copied.json"  # the digest of each lesson when it was copied
    digests = dict[str, str]()
    with suppress(OSError, ValueError):
        digests = json.loads(record.read_text())
    changed = []
    for lesson in sorted(LESSONS.glob("*.ipynb")):
        target = copies / lesson.name
        digest = hashlib.sha256(lesson.read_bytes()).hexdigest()
        if not target.exists():
            temporary = target.with_suffix(".part")
            shutil.copyfile(lesson, temporary)
            temporary.replace(target)
            digests[lesson.name] = digest
            record.write_text(json.dumps(digests))
        elif digests.get(lesson.name, digest) != digest:
            changed.append(lesson.name[:2])
    for_assistants = copies / "AGENTS.md"
    if not for_assistants.exists():
        shutil.copyfile(PACKAGE / "data" / "AGENTS.md", for_assistants)
    if changed:
        print(
            f"Changed since you copied them: {', '.join(changed)}. Your copies stay as they are. "
            f"{COMMAND} reset {changed[0]} brings the new one and keeps your copy.",
            flush=True,
        )
    return copies / "00_start_here.ipynb"


def reset_lesson(number: str) -> int:
    """Restore one lesson and keep the learner's copy."""
    lessons = {path.name[:2]: path for path in sorted(LESSONS.glob("*.ipynb"))}
    lesson = lessons.get(number.zfill(2))
    if lesson is None:
        raise SetupError(
            f"there is no lesson {number}. expected one of {', '.join(lessons)}, got {number}"
        )
    mine = ROOT / COPIES / lesson.name
    if mine.exists():
        count = 1
        while (backup := mine.with_name(f"{mine.stem}.kept-{count}.ipynb")).exists():
            count += 1
        mine.rename(backup)
        print(f"Your lesson is kept as {backup.relative_to(ROOT)}.")
    copy_lessons()
    print(f"{mine.relative_to(ROOT)} is as it was.")
    return 0


def repository() -> str:
    """Return the repository's URL, from pyproject.toml."""
    project = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def pages(repository: str) -> str:
    """Return the URL where GitHub publishes a repository's reading site."""
    owner, name = repository.split("/")[-2:]
    return f"https://{owner.lower()}.github.io/{name}/"


def set_address(name: str) -> None:
    """Replace the repository's URL with that of OWNER/NAME on GitHub."""
    if not re.fullmatch(r"[\w-]+/[\w.-]+", name):
        raise SetupError(f"this is not a repository. expected OWNER/NAME, got {name}")
    before = repository()
    current = before.removeprefix("https://github.com/")
    changes = {
        current: name,
        pages(before): pages(name),
        f"cd {current.partition('/')[2]}": f"cd {name.partition('/')[2]}",
    }
    files = [ROOT / file for file in ("pyproject.toml", "README.md", "CITATION.cff")]
    for path in [*files, *LESSONS.glob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        for address, replacement in changes.items():
            text = text.replace(address, replacement)
        path.write_text(text, encoding="utf-8", newline="\n")


def open_lab(python: Path, options: Sequence[str]) -> int:
    """Open the first lesson in JupyterLab, on this machine only, with its token on."""
    lesson = copy_lessons()
    print(due_line(lesson.with_name(".progress.json"), time.time()), end="", flush=True)
    settings = [
        "--ServerApp.ip=127.0.0.1",
        f"--LabApp.default_url=/lab/tree/{COPIES}/{lesson.name}",
        f"--ServerApp.root_dir={ROOT}",
        "--ContentsManager.pre_save_hook=mha_course.cli.jupyter_hooks.drop_widget_views",
        "--LabApp.custom_css=True",
        f"--ServerApp.tornado_settings={{'static_custom_path': {[STYLE]}}}",
    ]
    if sys.platform != "win32" and os.geteuid() == 0:  # as in a container
        settings.append("--allow-root")
    return _in_venv(python, "jupyterlab", *settings, *options)


def run_tests(python: Path, further: Sequence[str] = (), extent: str | None = None) -> int:
    """Run the everyday tests and every notebook, or an extent's tests, on up to four processors.

    Args: extent is one of EXTENTS.
    """
    options = ["-n", str(min(os.cpu_count() or 1, 4)), "--dist=loadfile", "--no-loadscope-reorder"]
    if extent != "fast":
        options += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
        options += ["--override-ini", f"testpaths=tests {LESSONS.name}"]
    if extent in MARKS:
        options += ["-m", MARKS[extent], "-rs"]  # and why tests were skipped
    return _in_venv(python, "pytest", *options, *further)


def _in_venv(python: Path, module: str, *arguments: str, folder: Path | None = None) -> int:
    """Run a module of the environment until it ends, in the course's folder or another.

    Nothing is imported from another folder: it may contain a torch.py.
    """
    environment = _environment(python)
    command = [str(python), "-m", module, *arguments]
    if folder or FROM_WHEEL:
        command.insert(1, "-P")
    if folder and not FROM_WHEEL:
        environment["PYTHONPATH"] = str(ROOT)
    process = subprocess.Popen(command, cwd=folder or ROOT, env=environment)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())  # it ends with us
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # the child was interrupted too, and decides
    finally:
        signal.signal(signal.SIGTERM, before)


def _environment(python: Path) -> dict[str, str]:
    """Return the environment of what is started.

    It imports nothing from PYTHONPATH, where another torch may be, and matplotlib keeps its list of
    fonts in .venv: that in the home folder may be another installation's, with fonts that are gone.
    """
    environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
    if FROM_WHEEL:
        return environment
    environment.pop("PYTHONPATH", None)
    return environment | {"MPLCONFIGDIR": str(python.parent.parent / "matplotlib")}
