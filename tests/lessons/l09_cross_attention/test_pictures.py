"""Lesson 9's picture joins the right words."""

from mha_course.lessons.l09_cross_attention.pictures import alignment
from mha_course.plots import ACCENT


def test_lines_join_words_that_belong_together_and_the_longest_stands_out():
    source = ["the", "old", "fox", "slept", "today"]
    drawn = alignment(source, ["todri", "foxu", "oldem"], (4, 2, 1)).axes[0]
    at = {text.get_text(): text.get_position()[0] for text in drawn.texts}
    ends = [tuple(line.get_xdata()) for line in drawn.lines]
    pairs = [("todri", "today"), ("foxu", "fox"), ("oldem", "old")]
    assert ends == [(at[said], at[read]) for said, read in pairs]
    assert [line.get_color() == ACCENT for line in drawn.lines] == [True, False, False]
