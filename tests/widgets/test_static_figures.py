"""What shows of every widget without a kernel: a figure with its sentence, and all that a saved notebook needs."""

import copy

import ipywidgets
import pytest
from widget_cases import CASES, START

from mha_course.cli.jupyter_hooks import WIDGET_VIEW, drop_widget_views
from mha_course.plots.figures import figure_html

SPACE = {"W": ipywidgets}  # what the calls in CASES need
exec(START, SPACE)


@pytest.mark.parametrize("name", CASES)
def test_a_widget_is_shown_with_a_static_figure_whose_caption_is_its_sentence(name):
    made = eval(CASES[name][0], SPACE)
    data, metadata = made._repr_mimebundle_()
    assert data["text/plain"] == repr(made) == f"{name}: {made.text}"
    assert data["text/html"] == (made.static or figure_html(made.png(), made.text))
    assert data[WIDGET_VIEW]["model_id"] == made.model_id
    assert (set(data), metadata) == ({"text/plain", "text/html", WIDGET_VIEW}, {})


def test_saving_drops_live_views_that_have_a_static_picture():
    static = {"output_type": "display_data", "data": {WIDGET_VIEW: {}, "text/html": "x", "text/plain": "Panel"}}
    alone = {"output_type": "display_data", "data": {WIDGET_VIEW: {}, "text/plain": "IntSlider()"}}
    stream = {"output_type": "stream", "name": "stdout", "text": "hello"}
    model = {"type": "notebook", "content": {"cells": [{"outputs": [static, alone, stream]}, {"source": "no outputs"}]}}
    before = copy.deepcopy(model)
    drop_widget_views(model=model, path="lesson.ipynb")
    assert WIDGET_VIEW not in static["data"]
    assert static["data"]["text/html"] == "x"
    assert model["content"]["cells"][0]["outputs"][1:] == before["content"]["cells"][0]["outputs"][1:]


@pytest.mark.parametrize("model", [{"type": "file", "content": "text"}, {"type": "notebook", "content": None}, {}])
def test_saving_leaves_all_else_alone(model):
    before = copy.deepcopy(model)
    drop_widget_views(model=model)
    assert model == before
