"""Panels answer to their controls, and keep a static picture."""

import asyncio
import html
import threading

import ipywidgets as W
import matplotlib.pyplot as plt
import numpy as np
import pytest

from mha_course import plots
from mha_course.widgets import Panel


def draw(size, word):
    if size == 3:
        raise ValueError("<three> is not drawn")
    return plots.heatmap(np.eye(size)), f"An identity of {size} for “{word}”."


@pytest.fixture
def panel():
    return Panel(draw, size=W.IntSlider(value=2, min=1, max=9), word=W.Text(value="it"))


def pixels(panel):
    return panel._repr_mimebundle_()[0]["text/html"]


def test_a_control_changes_picture_and_sentence(panel):
    before = pixels(panel)
    panel._controls["size"].value = 5
    assert pixels(panel) != before
    assert repr(panel) == "Panel: An identity of 5 for “it”."
    assert "An identity of 5" in panel._image.value
    assert not plt.get_fignums()


def test_an_error_is_shown_in_place_escaped_and_the_next_move_recovers(panel):
    panel._controls["size"].value = 3
    assert html.escape("ValueError: <three> is not drawn") in panel._image.value
    assert "<three>" not in panel._image.value
    panel._controls["size"].value = 4
    panel._controls["word"].value = "<script>alert(1)</script>"
    assert "An identity of 4" in panel._image.value
    assert "<script>" not in panel._image.value


def test_moves_in_other_threads_are_drawn_in_the_main_one_and_of_many_only_the_newest():
    """JupyterLab reports controls in a thread of their own, while the main one may be drawing."""
    drawn = []

    def note(size):
        drawn.append((size, threading.current_thread()))
        assert not plt.get_fignums()  # else another thread could show it half drawn
        picture = plots.heatmap(np.eye(2)), f"{size}"
        assert not plt.get_fignums()
        return picture

    async def use():
        slider = W.IntSlider(value=0)
        panel = Panel(note, size=slider)

        def drag():
            for value in range(1, 41):
                slider.value = value

        thread = threading.Thread(target=drag)
        thread.start()
        thread.join()  # as while the main thread draws
        await asyncio.sleep(0)
        await asyncio.to_thread(setattr, slider, "value", 50)
        await asyncio.sleep(0)
        return panel

    assert repr(asyncio.run(use())) == "Panel: 50"
    assert drawn == [(size, threading.main_thread()) for size in (0, 40, 50)]


def test_texts_from_people_stay_in_their_line():
    def note(word):
        if len(word) > 9:
            raise ValueError(word)
        return plots.heatmap(np.eye(2)), word

    panel = Panel(note, word=W.Text(value="a\u202eb\nc"))
    assert panel.text == "a�b c"
    assert "a�b c" in panel._image.value
    panel._controls["word"].value = "\u202e" + "w" * 5000
    assert "⚠ ValueError: �www" in panel._image.value
    assert len(panel._image.value) < 400


def test_a_helper_answers_the_browser(panel):
    helper = panel.children[1]
    helper.asked = {"number": 3}
    assert helper.answered == 3
