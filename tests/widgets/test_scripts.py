"""The scripts of widgets: node loads each, and tests what is not drawn."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from labs import LABS

from mha_course import lessons, widgets
from mha_course.widgets import base

HERE = Path(__file__).parent
ROOMS = [Path(base.__file__).parent, Path(lessons.__file__).parent]
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")


def node(*arguments, **options):
    return subprocess.run(
        [NODE, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
    )


def test_what_is_not_drawn_does_what_it_says():
    told = node("--test", *map(str, sorted((HERE / "js").glob("*.test.mjs"))))
    assert told.returncode == 0, told.stdout
    assert int(re.search(r"^# pass (\d+)$", told.stdout, re.MULTILINE)[1]) >= 20


def test_every_script_finds_what_it_imports():
    paths = [path.as_uri() for room in ROOMS for path in sorted(room.rglob("*.js"))]
    told = node(
        "--input-type=module",
        "--eval",
        f"for (const path of {json.dumps(paths)}) await import(path);",
    )
    assert told.returncode == 0, told.stderr


SCRIPTED = {
    name: kind
    for name, kind in vars(widgets).items()
    if name in widgets.__all__ and hasattr(kind, "_esm")
} | LABS


@pytest.mark.parametrize("name", SCRIPTED)
def test_the_joined_script_of_a_widget_loads_and_draws(name, tmp_path):
    text = str(SCRIPTED[name]._esm)
    assert not re.search(r"^(import|export (?!default))", text, re.MULTILINE)
    assert len(re.findall(r"^export default", text, re.MULTILINE)) == 1
    (tmp_path / "joined.mjs").write_text(text, encoding="utf-8")
    call = "import('./joined.mjs').then((module) => console.log(typeof module.default.render))"
    told = node("--eval", call, cwd=tmp_path)
    assert told.stdout.strip() == "function", told.stderr
