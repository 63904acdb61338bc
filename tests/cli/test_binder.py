"""Binder's image, built as repo2docker does: requirements.txt, then postBuild, in a clone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mha_course.cli.authoring import ROOT

pytestmark = pytest.mark.weekly
KEPT = "PATH LANG LC_ALL SSL_CERT_FILE PIP_INDEX_URL PIP_FIND_LINKS PIP_CONFIG_FILE PIP_NO_INDEX"
ASK = """
import json, pathlib, sys, mha_course, torch
from nbformat import read, sign
notary = sign.NotebookNotary()
paths = sorted(pathlib.Path("notebooks").glob("*.ipynb"))
signed = [notary.check_signature(read(path, 4)) for path in paths]
version = torch.__version__.split("+")[0]
print(json.dumps([mha_course.__file__, torch.version.cuda, version, all(signed), len(signed)]))
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if not (ROOT / ".git").exists() or shutil.which("bash") is None:
        pytest.skip("a clone and bash are needed")
    home = tmp_path_factory.mktemp("jovyan")
    subprocess.run(["git", "clone", "-q", ROOT, home / "course"], check=True)
    subprocess.run([sys.executable, "-m", "venv", home / "env"], check=True)
    kept = {name: os.environ[name] for name in KEPT.split() if name in os.environ}
    kept |= {"HOME": str(home), "PATH": f"{home / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    kept |= {"PIP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "MHA_COURSE_PROGRESS": "off"}

    def run(*command):
        done = subprocess.run(
            command, cwd=home / "course", env=kept, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    run("pip", "install", "-q", "-r", "binder/requirements.txt")
    run("binder/postBuild")
    return run


def test_the_package_is_there_and_the_lessons_are_trusted(image):
    place, cuda, torch, trusted, count = json.loads(image("python", "-W", "ignore", "-c", ASK))
    assert place.endswith("course/mha_course/__init__.py")
    assert cuda is None, "torch for a GPU would not fit"
    assert f"torch=={torch}\n" in (ROOT / "binder" / "requirements.txt").read_text()
    assert trusted
    assert count == len(list((ROOT / "notebooks").glob("*.ipynb")))


def test_the_server_reads_its_settings(image):
    said = json.loads(image("jupyter", "server", "--show-config-json"))
    assert (
        said["ContentsManager"]["pre_save_hook"] == "mha_course.cli.jupyter_hooks.drop_widget_views"
    )
    assert said["LabApp"]["custom_css"] is True
    (style,) = said["ServerApp"]["tornado_settings"]["static_custom_path"]
    assert Path(style, "custom.css").is_file()


@pytest.mark.parametrize("lesson", ["00_start_here"])
def test_a_lesson_runs_there(image, lesson):
    image("jupyter", "execute", f"notebooks/{lesson}.ipynb")
