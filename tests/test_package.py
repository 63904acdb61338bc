"""The house: which room may import which, what loads when, how long things are, and that the tools are content."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mha_course"
# From the top floor down: a room imports only from rooms below its own.
FLOORS = [
    {"__main__"},
    {"authoring"},
    {"slides"},
    {"widgets"},
    {"widgets.layout", "widgets.panel", "widgets.tracer", "widgets.heads", "widgets.labs"},
    {"widgets.blocks", "widgets.cache", "widgets.rotary", "widgets.silence", "widgets.sampling", "widgets.labs_mask"},
    {"widgets.labs_scores", "widgets.labs_values"},
    {"widgets.labs_base"},
    {"widgets.layout_cells", "widgets.live", "widgets.heads_still", "widgets.labs_twin"},
    {"widgets.heads_packing", "widgets.heads_page", "widgets.labs_hull", "widgets.labs_panels"},
    {"widgets.heads_asking", "widgets.heads_numbers", "widgets.labs_controls"},
    {"exercises.judging", "exercises.predicting", "exercises"},
    {"exercises.staging"},
    {"exercises.recognising", "exercises.describing", "exercises.hinting", "exercises.keeping"},
    {"exercises.mistakes", "exercises.catalogue", "exercises.hints", "exercises.lessons", "exercises.running"},
    {"exercises.mistakes_beyond", "exercises.mistakes_models", "exercises.probes_beyond"},
    {"exercises.noting", "exercises.probes", "exercises.questions"},
    {
        "exercises.questions_block",
        "exercises.questions_cache",
        "exercises.questions_flash",
        "exercises.questions_heads",
        "exercises.questions_language",
        "exercises.questions_masks",
        "exercises.questions_sequences",
        "exercises.questions_vision",
    },
    {"exercises.steps", "exercises.asking"},
    {"exercises.references", "exercises.beyond"},
    {"tiling", "slide_parts"},
    {
        "diagrams",
        "charts",
        "sequence_pictures",
        "cache_pictures",
        "block_pictures",
        "heads_pictures",
        "overlays",
        "language_pictures",
    },
    {"conventions", "mask_pictures"},
    {"plots"},
    {"tracing"},
    {"tracing.trace"},
    {"tracing.recording", "tracing.comparing"},
    {"tracing.pointwise", "tracing.pieces", "tracing.reports"},
    {"tracing.products"},
    {"tracing.views"},
    {"tracing.diagnosis", "tracing.patterns"},
    {"tracing.reshaping", "tracing.call"},
    {"tracing.naming", "tracing.places", "tracing.steps", "tracing.written"},
    {"heads_shipped"},
    {"depth", "watching", "heads_tables", "vision", "other_maps"},
    {"measures", "grouping", "language"},
    {"example", "translation", "parsing"},
    {"grammar", "endish"},
    {"models"},
    {"variants"},
    {"decoding", "published"},
    {"masks", "positions", "caching", "flash", "costs", "counting"},
    {"attention"},
    {"arrays", "leaks", "heads_task", "shapes"},
    {"errors", "saving", "serving", "experiments", "launch"},
]
LONG_FILES = {"variants.py", "launch.py", "questions.py", "hints.py", "mistakes.py"}  # each says why in a comment
ALONE = {"launch", "__main__", "saving"}  # run before anything is installed


def modules():
    """Return {name without the package: path}."""
    paths = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in paths.items() if name != "__init__"}


def imports_of(path, package="mha_course"):
    """Return which modules of a package a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix(f"{package}.") in modules() else node.module for name in inner]
        found |= {name.removeprefix(f"{package}.") for name in names if name and name.split(".")[0] == package}
    return found


def test_every_room_has_its_floor():
    assert set(modules()) == set().union(*FLOORS)


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_go_down(name):
    floor = next(level for level, rooms in enumerate(FLOORS) if name in rooms)
    below = set().union(*FLOORS[floor + 1 :])
    if name == "exercises":
        below |= {"exercises.judging", "exercises.predicting"}
    assert imports_of(modules()[name]) <= below


@pytest.mark.parametrize("name", sorted(ALONE))
def test_set_up_needs_the_standard_library_alone(name):
    tree = ast.parse(modules()[name].read_text())
    tops = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    tops |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert tops <= set(sys.stdlib_module_names) | {"mha_course"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("mha_course", ("torch", "numpy", "matplotlib", "ipywidgets")),
        ("mha_course.cli.launch", ("torch", "numpy", "matplotlib", "ipywidgets")),
        ("mha_course.attention", ("matplotlib", "ipywidgets", "IPython")),
    ],
)
def test_importing_loads_no_more_than_it_needs(module, absent):
    code = f"import sys, {module}; sys.exit(' '.join(set({absent}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_files_and_functions_stay_short(path):
    text = path.read_text()
    budget = 150 if path.name == "attention.py" else 250
    if path.name in LONG_FILES:
        assert "# Longer than 250 lines:" in text
    else:
        assert len(text.splitlines()) <= budget
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= 30, f"{path.name}: {node.name} has {length} lines"


def test_at_most_five_exceptions():
    assert len(LONG_FILES) <= 5


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=" ".join,
)
def test_tools_are_content(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_doctests_hold():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--doctest-modules", "mha_course", "--ignore=mha_course/launch.py"],
        cwd=ROOT,
        env={"MPLBACKEND": "agg", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pins_lie_within_the_ranges():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = {Requirement(line).name: line.split("==")[1] for line in lines if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ranges = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    for text in ranges:
        requirement = Requirement(text)
        if requirement.name in pins:
            assert requirement.specifier.contains(pins[requirement.name]), text


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_nothing_else_lies_at_the_top():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    tops = {path.split("/")[0] for path in listed}
    assert tops <= {
        ".ci", ".gitignore", ".pre-commit-config.yaml", "CHANGES.md", "CONTRIBUTING.md", "LICENSE", "README.md",
        "TEACHING.md", "binder", "mha_course", "notebooks", "pyproject.toml", "requirements.txt", "tests",
    }  # fmt: skip
