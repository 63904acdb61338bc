"""A panel's picture on a phone."""

import pytest

from mha_course import plots
from mha_course.widgets import Panel


@pytest.mark.parametrize(("inches", "whole"), [(3, True), (9, False)])
def test_a_picture_is_seen_whole_or_scrolls_if_its_words_would_be_too_small(
    inches, whole, widget_page
):
    def draw(number):
        return plots.token_bars({"one": [1, number]}, ["a", "b"], width=inches), f"{number}."

    page = widget_page(Panel(draw, number=[1, 2]), width=300)
    frame, image = page.locator(".panel.picture > div"), page.locator(".panel.picture img")
    fits = frame.evaluate("node => node.scrollWidth <= node.clientWidth")
    assert fits == whole
    assert (image.bounding_box()["width"] > 400) == (not whole)
