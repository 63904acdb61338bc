"""Lesson 9's picture has a cell for every number."""

from mha_course.lessons.l09_cross_attention.pictures import cross_attention


def test_the_drawing_holds_every_cell():
    drawn = cross_attention(5, 7)
    assert len(drawn.patches) == 4 * (5 + 7 + 5 + 7 + 7 + 5) + 5 * 7
