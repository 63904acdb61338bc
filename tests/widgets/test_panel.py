"""Panels answer to their controls, and keep a static picture."""

import asyncio
import html
import threading

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
    return Panel(draw, size=range(2, 12), word=["it", "<script>alert(1)</script>"])


def ask(panel, number=1, **moved):
    """Do what the browser does when a control moves: it sends the index of a value."""
    panel.event = {"serial": number, "moved": moved}


def pixels(panel):
    return panel._repr_mimebundle_()[0]["text/html"]


def drawn(panel):
    (picture,) = panel.state["panels"]
    return picture["html"]


def test_a_control_changes_picture_and_sentence(panel):
    before = pixels(panel)
    ask(panel, size=3)
    assert pixels(panel) != before
    assert repr(panel) == "Panel: An identity of 5 for “it”."
    assert panel.state["text"] == panel.text
    assert "An identity of 5" in drawn(panel)
    assert not plt.get_fignums()


def test_the_pictures_of_all_states_leave_the_one_that_is_shown(panel):
    ask(panel, size=3)
    before = pixels(panel)
    assert panel.without_kernel()
    assert pixels(panel) == before


def test_controls_are_chosen_by_what_they_choose_from():
    panel = Panel(draw, size=range(4, 20), word={"a cat": "cat", "a dog": "dog"})
    assert [(spec["kind"], spec["label"]) for spec in panel.options["controls"]] == [
        ("slider", "size"),
        ("menu", "word"),
    ]
    assert repr(panel) == "Panel: An identity of 4 for “cat”."
    assert Panel(draw, size=[4, 5], word="ab").options["controls"][0]["kind"] == "choice"


def test_an_error_is_shown_in_place_and_the_next_move_recovers(panel):
    ask(panel, size=1)
    assert panel.state["trouble"] == "ValueError: <three> is not drawn"
    assert "An identity of 2" in drawn(panel)
    ask(panel, 2, size=2, word=1)
    assert panel.state["trouble"] == ""
    assert "An identity of 4" in drawn(panel)
    assert "<script>" not in drawn(panel)
    assert html.escape("<script>") in drawn(panel)
    assert "<script>" not in pixels(panel)


def test_an_error_at_the_start_is_shown_and_the_next_move_recovers():
    panel = Panel(lambda size: (plots.heatmap(np.eye(2) * (1 / size)), f"1 / {size}"), size=[0, 2])
    data, _ = panel._repr_mimebundle_()
    assert "⚠ ZeroDivisionError: division by zero" in data["text/html"]
    ask(panel, size=1)
    assert panel.text == "1 / 2"


def test_moves_in_other_threads_are_drawn_in_the_main_one():
    """JupyterLab reports controls in a separate thread, while the main one may be drawing."""
    made = []

    def note(size):
        made.append((size, threading.current_thread()))
        assert not plt.get_fignums()  # else another thread could show it half drawn
        picture = plots.heatmap(np.eye(2)), f"{size}"
        assert not plt.get_fignums()
        return picture

    async def use():
        panel = Panel(note, size=range(51))
        thread = threading.Thread(target=ask, args=(panel,), kwargs={"size": 40})
        thread.start()
        thread.join()  # as happens while the main thread draws
        assert [size for size, _ in made] == [0]
        await asyncio.sleep(0)
        await asyncio.to_thread(ask, panel, 2, size=50)
        await asyncio.sleep(0)
        return panel

    assert repr(asyncio.run(use())) == "Panel: 50"
    assert made == [(size, threading.main_thread()) for size in (0, 40, 50)]


def test_texts_from_people_stay_in_their_line():
    def note(word):
        if len(word) > 9:
            raise ValueError(word)
        return plots.heatmap(np.eye(2)), word

    panel = Panel(note, word=["a\u202eb\nc", "\u202e" + "w" * 5000])
    assert panel.text == "a�b c"
    assert "a�b c" in drawn(panel)
    ask(panel, word=1)
    assert panel.state["trouble"].startswith("ValueError: �www")
    assert len(panel.state["trouble"]) < 400
