"""Curves draw every line, in its colour, under its name."""

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


def test_a_line_may_end_before_the_others_and_many_points_have_no_markers():
    panel = plots.Lines("loss", "step", range(20, 61), {"long": range(41), "short": [2, 1]})
    (ax,) = plots.line_panels(panel).axes
    assert [(line.get_xdata()[-1], line.get_markersize()) for line in ax.lines] == [
        (60, 0),
        (21, 0),
    ]
