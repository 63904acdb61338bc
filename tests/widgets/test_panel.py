"""Panels answer to their controls, keep a static static, and saved notebooks need no kernel."""

import asyncio
import base64
import copy
import html
import threading

import ipywidgets as W
import matplotlib.pyplot as plt
import numpy as np
import pytest

from mha_course import plots
from mha_course.cli.jupyter_hooks import WIDGET_VIEW, drop_widget_views
from mha_course.widgets import Panel


def draw(size, word):
    if size == 3:
        raise ValueError("<three> is not drawn")
    return plots.heatmap(np.eye(size)), f"An identity of {size} for “{word}”."


@pytest.fixture
def panel():
    return Panel(draw, size=W.IntSlider(value=2, min=1, max=9), word=W.Text(value="it"))


def pixels(panel):
    return panel._repr_mimebundle_()[0]["image/png"]


def test_a_control_changes_picture_and_sentence(panel):
    before = pixels(panel)
    panel._controls["size"].value = 5
    assert pixels(panel) != before
    assert repr(panel) == "Panel: An identity of 5 for “it”."
    assert "An identity of 5" in panel._image.value
    assert not plt.get_fignums()


def test_the_static_picture_is_there_with_alt_text_and_a_sentence(panel, capsys):
    data, metadata = panel._repr_mimebundle_()
    assert base64.b64decode(data["image/png"])[1:4] == b"PNG"
    assert data["text/plain"] == "Panel: An identity of 2 for “it”."
    assert metadata["image/png"]["alt"] == "An identity of 2 for “it”."
    assert data[WIDGET_VIEW]["model_id"] == panel.model_id
    panel.show()
    assert "At the start: An identity of 2 for “it”." in capsys.readouterr().out


def test_an_error_is_shown_in_place_escaped_and_the_next_move_recovers(panel):
    panel._controls["size"].value = 3
    assert html.escape("ValueError: <three> is not drawn") in panel._image.value
    assert "<three>" not in panel._image.value
    panel._controls["size"].value = 4
    panel._controls["word"].value = "<script>alert(1)</script>"
    assert "An identity of 4" in panel._image.value
    assert "<script>" not in panel._image.value


def test_a_control_moved_in_another_thread_is_drawn_in_the_main_one(monkeypatch):
    """JupyterLab reports controls in a thread of their own, while the main one may be drawing."""
    threads = []

    def note(size):
        threads.append(threading.current_thread())
        assert not plt.get_fignums()  # else another thread could show it half drawn
        picture = plots.heatmap(np.eye(size)), f"{size}"
        assert not plt.get_fignums()
        return picture

    async def use():
        panel = Panel(note, size=W.IntSlider(value=2))
        await asyncio.to_thread(setattr, panel._controls["size"], "value", 4)
        await asyncio.sleep(0)
        return panel

    assert repr(asyncio.run(use())) == "Panel: 4"
    assert set(threads) == {threading.main_thread()}


def test_saving_drops_live_views_that_have_a_static_picture():
    static = {"output_type": "display_data", "data": {WIDGET_VIEW: {}, "image/png": "x", "text/plain": "Panel"}}
    alone = {"output_type": "display_data", "data": {WIDGET_VIEW: {}, "text/plain": "IntSlider()"}}
    stream = {"output_type": "stream", "name": "stdout", "text": "hello"}
    model = {"type": "notebook", "content": {"cells": [{"outputs": [static, alone, stream]}, {"source": "no outputs"}]}}
    before = copy.deepcopy(model)
    drop_widget_views(model=model, path="lesson.ipynb")
    assert WIDGET_VIEW not in static["data"]
    assert static["data"]["image/png"] == "x"
    assert model["content"]["cells"][0]["outputs"][1:] == before["content"]["cells"][0]["outputs"][1:]


@pytest.mark.parametrize("model", [{"type": "file", "content": "text"}, {"type": "notebook", "content": None}, {}])
def test_saving_leaves_all_else_alone(model):
    before = copy.deepcopy(model)
    drop_widget_views(model=model)
    assert model == before
