"""The package as a whole: what loads when, what is installed and pinned."""

import ast
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mha_course"
# run before anything is installed
ALONE = ("__init__.py", "__main__.py", "cli/__init__.py", "cli/launch.py", "questions.py")


def imported(path):
    """Return the top names of all that a file imports, wherever in the file."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("name", ALONE)
def test_set_up_needs_the_standard_library_alone(name):
    assert imported(PACKAGE / name) <= set(sys.stdlib_module_names) | {"mha_course"}


def run(code):
    """Require that code runs in its own process, without warnings."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("mha_course", ("torch", "numpy", "matplotlib", "ipywidgets")),
        ("mha_course.cli.launch", ("torch", "numpy", "matplotlib", "ipywidgets")),
        ("mha_course.attention", ("matplotlib", "ipywidgets", "IPython")),
        ("mha_course.exercises", ("ipywidgets", "anywidget", "matplotlib", "transformers")),
        ("mha_course.lessons", ("ipywidgets", "anywidget", "matplotlib")),
        ("mha_course.models.published", ("matplotlib", "ipywidgets", "IPython")),
    ],
)
def test_importing_loads_no_more_than_it_needs(module, absent):
    run(f"import sys, {module}; sys.exit(' '.join(set({absent}) & set(sys.modules)) or 0)")


def test_measuring_memory_loads_no_compiler():
    measure = "from mha_course.experiments import costs; costs.peak_bytes(torch.zeros, 3)"
    run(f"import sys, torch; {measure}; assert 'torch._dynamo' not in sys.modules")


def listed(*names):
    """Return {package: its line} of files of requirements."""
    lines = [
        line for name in names for line in (ROOT / name).read_text().splitlines() if "==" in line
    ]
    return {canonicalize_name(Requirement(line).name): line for line in lines}


def test_whatever_is_imported_is_listed():
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    own = {
        "mha_course",
        "my_attention",
        *(path.stem for path in files),
        *(path.parent.name for path in files),
    }
    outside = set().union(*(imported(path) for path in files)) - own - set(sys.stdlib_module_names)
    found = importlib.metadata.packages_distributions()
    assert outside - set(found) <= {"playwright"}  # the one that may be missing
    packages = {
        canonicalize_name(name) for module in outside & set(found) for name in found[module]
    }
    assert packages <= set(listed("requirements.txt", "tests/requirements.txt")) | {"pip"}


def test_pins_lie_within_the_ranges():
    pins = {name: line.split("==")[1] for name, line in listed("requirements.txt").items()}
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) in pins:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), text


@pytest.mark.parametrize(
    "module", ["mha_course.lessons.l07_multi_head_attention.exercises", "mha_course.lessons"]
)
def test_a_lesson_may_be_imported_before_the_exercises(module):
    run(f"import {module}; from mha_course.exercises import NAMES; assert 'split_heads' in NAMES")


def test_functions_are_short():
    long = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and node.end_lineno - node.lineno >= 45:
                long.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert long == []
