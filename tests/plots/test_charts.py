"""Curves draw every line, in its colour, under its name."""

import pytest
import torch

from mha_course import plots


def test_curves_draw_every_line_under_its_name():
    ax = plots.curves(
        [1, 2, 4], {"one": [1, 2, 3], "two": [3.0, 2.0, 1.0]}, xlabel="n", ylabel="times"
    )
    assert [line.get_ydata().tolist() for line in ax.get_lines()] == [[1, 2, 3], [3, 2, 1]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]


def test_lines_keep_their_colour_from_panel_to_panel():
    one = plots.Lines("left", "layer", [1, 2, 4], {"a": [1.0, 2.0, 3.0], "b": [3.0, 2.0, 1.0]})
    other = plots.Lines(
        "right", "depth", [1, 2, 4], {"b": torch.tensor([1.0, 10.0, 100.0])}, log_x=True, log_y=True
    )
    figure = plots.line_panels(one, other)
    left, right = figure.axes
    assert left.lines[1].get_color() == right.lines[0].get_color() != left.lines[0].get_color()
    assert left.lines[1].get_marker() == right.lines[0].get_marker()
    # so one under another is seen
    assert left.lines[0].get_markersize() > left.lines[1].get_markersize()
    assert [line.get_linestyle() for line in left.lines] == ["-", "--"]
    assert (left.get_yscale(), right.get_xscale(), right.get_yscale()) == ("linear", "log", "log")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [text.get_text() for text in right.get_xticklabels()] == ["1", "2", "4"]
    assert list(right.lines[0].get_ydata()) == [1, 10, 100]


def test_learning_draws_every_step_and_the_mean_of_the_last():
    losses = [float(10 - n) for n in range(8)]
    ax = plots.learning_curves({"mean of 4": losses}, marks={3: "here"}, window=4, every_step=True)
    steps, means, mark = ax.lines
    assert list(steps.get_ydata()) == losses
    assert list(means.get_xdata()) == [4, 5, 6, 7, 8]
    assert list(means.get_ydata()) == [sum(losses[n - 3 : n + 1]) / 4 for n in range(3, 8)]
    assert list(mark.get_xdata()) == [3, 3]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["each step", "mean of 4"]
    assert ax.get_ylabel() == "nats a word"


def test_learning_draws_a_line_for_each_name_and_level():
    curve = torch.arange(60.0) / 60
    ax = plots.learning_curves({"one": curve, "two": curve[:25]}, levels={"bound": 0.5625})
    assert [len(line.get_xdata()) for line in ax.lines] == [41, 6, 2]
    assert ax.lines[0].get_ydata() == pytest.approx((torch.arange(41) + 9.5) / 60)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    assert ax.texts[0].get_text().strip() == "bound 0.56"
