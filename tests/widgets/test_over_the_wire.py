"""Every widget is made and moved over the wire, with our versions and with Colab's."""

import ast
import os
import time

import pytest
from elsewhere import COLAB, STUB
from jupyter_client.manager import run_kernel
from lessons import modules_named
from widget_cases import CASES, START, first_move

from mha_course.cli.authoring import ROOT
from mha_course.cli.jupyter_hooks import WIDGET_VIEW
from mha_course.widgets.base import CourseWidget

PARTS = {"Lab", "Menu", "PageLab", "Player"}  # which other widgets are built on


def subclasses(widget):
    """Return the names of all classes that are built on a widget."""
    names = set()
    for each in widget.__subclasses__():
        names |= {each.__name__} | subclasses(each)
    return {name for name in names if not name.startswith("_")}


def test_every_widget_has_a_case():
    modules_named("lab", "film", "widget")
    assert {*CASES} == subclasses(CourseWidget) - PARTS


@pytest.fixture(scope="module", params=["here", pytest.param("Colab", marks=pytest.mark.elsewhere)])
def folder(request):
    """The packages that come before the installed ones: none, or Colab's versions."""
    return None if request.param == "here" else request.getfixturevalue("colab_versions")


class Kernel:
    """A kernel, and the messages a front end sends to it."""

    def __init__(self, client):
        self.client = client

    def run(self, code):
        """Run code, and return the messages that it sent; what it raises fails the test."""
        sent = self._until_idle(self.client.execute(code))
        errors = [message["content"] for message in sent if message["msg_type"] == "error"]
        assert not errors, "\n".join(errors[0]["traceback"])
        return sent

    def value(self, expression):
        sent = self.run(f"print(repr({expression}))")
        return "".join(
            one["content"]["text"] for one in sent if one["msg_type"] == "stream"
        ).strip()

    def move(self, model, state):
        """Set traits of a model as a browser does, and return the traits that came back."""
        content = {
            "comm_id": model,
            "data": {"method": "update", "state": state, "buffer_paths": []},
        }
        message = self.client.session.msg("comm_msg", content)
        self.client.shell_channel.send(message)
        sent = self._until_idle(message["header"]["msg_id"])
        assert not [one["content"] for one in sent if one["msg_type"] in ("error", "stream")]
        data = [one["content"]["data"] for one in sent if one["msg_type"] == "comm_msg"]
        return {
            name
            for one in data
            if one.get("method") == "update"
            for name in [*one["state"], *(path[0] for path in one["buffer_paths"])]
        }

    def _until_idle(self, parent, seconds=60):
        sent, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            message = self.client.get_iopub_msg(timeout=seconds)
            if message["parent_header"].get("msg_id") == parent:
                sent.append(message)
                if (
                    message["msg_type"] == "status"
                    and message["content"]["execution_state"] == "idle"
                ):
                    return sent
        raise TimeoutError(f"not idle after {seconds} s")


@pytest.fixture(scope="module")
def kernel(folder):
    path = os.pathsep.join(map(str, [*([folder] if folder else []), ROOT]))
    own = {"PYTHONPATH": path, "MHA_COURSE_PROGRESS": "off", "MPLBACKEND": "agg"}
    with run_kernel(env=os.environ | own, cwd=ROOT) as client:
        started = Kernel(client)
        started.run(
            (STUB if folder else "")
            + "import ipywidgets as W, anywidget, IPython, warnings"
            + START
        )
        if folder:
            versions = "[each.__version__ for each in (W, IPython, anywidget, np)]"
            names = ("ipywidgets", "ipython", "anywidget", "numpy")
            assert started.value(versions) == str([COLAB[name] for name in names])
        yield started


@pytest.mark.parametrize("name", CASES)
def test_it_is_made_displayed_and_answers(name, kernel, folder):
    call, state, holds, answer = CASES[name]
    sent = kernel.run(f"made = {call}\nmade")
    models = [one["content"] for one in sent if one["msg_type"] == "comm_open"]
    (shown,) = [one["content"]["data"] for one in sent if one["msg_type"] == "execute_result"]
    assert shown[WIDGET_VIEW]["model_id"] in {model["comm_id"] for model in models}
    assert {"image/png", "text/html"} & set(shown)
    assert shown["text/plain"].startswith(f"{name}: ")
    assert not [one["content"]["text"] for one in sent if one["msg_type"] == "stream"]
    if folder:
        # Colab draws no other widgets than its own unless asked
        assert kernel.value("bool(managers)") == "True"
    before = kernel.value("repr(made)")
    if state is None:  # a lab, or a panel
        controls, values = ast.literal_eval(
            kernel.value("(made.options['controls'], made.state['values'])")
        )
        state = {"event": {"serial": 1, "moved": first_move(controls, values)}}
    came = kernel.move(kernel.value("made.model_id").strip("'"), state)
    assert kernel.value(f"bool({holds})") == "True"
    assert answer is None or answer in came
    if answer:
        assert kernel.value("repr(made)") != before
    kernel.run("made.close() if hasattr(made, 'close') else None")
