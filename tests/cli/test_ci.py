"""The script that checks everything: all steps run, and one that fails fails the run."""

import os
import shutil
import subprocess

import pytest

from mha_course.cli.authoring import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt" or not shutil.which("bash"), reason="no bash")
# Stands for every program: notes how it was called, and fails where it should.
PROGRAM = """#!{bash}
echo "${{0##*/}} $*" >> "{log}"
[[ "$*" == *"test --all"* ]] && echo "7 passed in 1s"
case "${{0##*/}} $*" in {fails}) exit 1;; esac
exit 0
"""
STEPS = {
    "python3 -m mha_course setup", "python -m ruff check .", "python -m ruff format --check .",
    "python -m mypy",
    "lint-imports --no-cache", "python -m pytest -q --doctest-modules mha_course", "npm ci",
    "eslint --config .venv/node/eslint.config.mjs mha_course", "prettier --check",
    "python3 -m mha_course test --all",
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Run the script with programs that are only noted; return status, output and calls."""
    clone, programs, log = tmp_path / "clone", tmp_path / "programs", tmp_path / "log"
    places = [programs / name for name in ("python3", "chromium", "node", "npm", "env")]
    places += [clone / ".venv/bin" / name for name in ("python", "lint-imports")]
    places += [clone / ".venv/node/node_modules/.bin" / name for name in ("eslint", "prettier")]
    (clone / ".ci").mkdir(parents=True)
    (clone / "tests").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci")
    for name in ("package.json", "eslint.config.mjs", "tests/package-lock.json"):
        shutil.copy(ROOT / name, clone / name)

    def start(fails="''", without=()):
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            text = PROGRAM.format(bash=shutil.which("bash"), log=log, fails=fails)
            if place.name == "env":  # it runs what follows the settings
                text = (
                    f'#!{shutil.which("bash")}\nwhile [[ "$1" == *=* ]]; do shift; done\nexec '
                    f'"$@"\n'
                )
            place.write_text(text)
            place.chmod(0o755)
        for name in ("dirname", "mkdir", "cp"):
            (programs / name).symlink_to(shutil.which(name))
        for name in without:
            (programs / name).unlink()
        done = subprocess.run(
            [shutil.which("bash"), clone / ".ci" / "run"], env={"PATH": str(programs)},
            capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, log.read_text()

    return start


def test_every_step_is_run(run):
    status, output, calls = run()
    assert status == 0
    assert [step for step in STEPS if step not in calls] == []
    assert "failed" not in output
    assert output.splitlines()[-1] == "7 passed in 1s"


@pytest.mark.parametrize(
    "fails",
    [
        "*ruff*check*",
        "*format*",
        "*mypy*",
        "lint-imports*",
        "*doctest*",
        "eslint*",
        "prettier*",
        "*--all",
    ],
)
def test_a_step_that_fails_fails_the_run_and_stops_no_other(run, fails):
    status, output, calls = run(fails)
    assert status == 1
    assert [step for step in STEPS if step not in calls] == []
    assert (".ci/run: failed: " in output) == (fails != "*--all")
    assert output.splitlines()[-1] == "7 passed in 1s"


@pytest.mark.parametrize(
    ("without", "fails", "left_out"),
    [
        (["npm"], "''", "eslint and prettier need Node 20.19 or newer: left out"),
        ([], "node*", "eslint and prettier need Node 20.19 or newer: left out"),
        ([], "npm*", "eslint and prettier could not be installed: left out"),
        (
            [],
            "*playwright*|*tests/requirements.txt",
            "tests/requirements.txt could not be installed: what needs it",
        ),
    ],
)
def test_what_cannot_be_had_is_left_out_with_a_line(run, without, fails, left_out):
    status, output, calls = run(fails, without)
    assert status == 0
    assert f".ci/run: {left_out}" in output
    assert ("eslint --config" in calls) == ("eslint" not in left_out)


def test_without_a_set_up_there_is_nothing_to_check(run):
    status, _, calls = run("*setup")
    assert status == 1
    assert "ruff" not in calls
