"""What is saved in a notebook: static figures instead of live widgets."""

import copy

import pytest

from mha_course.cli.jupyter_hooks import WIDGET_VIEW, drop_widget_views


def test_saving_drops_live_views_that_have_a_static_picture():
    static = {
        "output_type": "display_data",
        "data": {WIDGET_VIEW: {}, "text/html": "x", "text/plain": "Panel"},
    }
    alone = {"output_type": "display_data", "data": {WIDGET_VIEW: {}, "text/plain": "IntSlider()"}}
    stream = {"output_type": "stream", "name": "stdout", "text": "hello"}
    model = {
        "type": "notebook",
        "content": {"cells": [{"outputs": [static, alone, stream]}, {"source": "no outputs"}]},
    }
    before = copy.deepcopy(model)
    drop_widget_views(model=model, path="lesson.ipynb")
    assert static["data"] == {"text/html": "x", "text/plain": "Panel"}
    assert (
        model["content"]["cells"][0]["outputs"][1:] == before["content"]["cells"][0]["outputs"][1:]
    )


@pytest.mark.parametrize(
    "model", [{"type": "file", "content": "text"}, {"type": "notebook", "content": None}, {}]
)
def test_saving_leaves_all_else_alone(model):
    before = copy.deepcopy(model)
    drop_widget_views(model=model)
    assert model == before
