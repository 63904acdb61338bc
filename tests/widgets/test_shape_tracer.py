"""The shape tracer shows what the trace holds, in words and in a browser."""

import json
import re

import pytest
import torch
from players import go, now, stays_inside

from mha_course.attention import MultiHeadAttention
from mha_course.colours import AXES
from mha_course.tracing import trace
from mha_course.variants import FusedQKV
from mha_course.widgets.shape_tracer.widget import ShapeTracer, payload, sentence


def straight_to_heads(x, num_heads):
    batch, tokens, width = x.shape
    wide = x + 0.0
    # each head gets pieces of several tokens
    return wide.reshape(batch, num_heads, tokens, width // num_heads)


def split(x, num_heads):
    batch, tokens, width = x.shape
    return x.view(batch, tokens, num_heads, width // num_heads)


def falls(x):
    apart = x.view(2, 5, 4, 6).transpose(1, 2)
    return apart.view(2, 5, 24)


@pytest.fixture(scope="module")
def reference():
    return trace(MultiHeadAttention(24, 4), torch.zeros(2, 5, 24), axes="B S C", sizes={"H": 4})


def test_the_browser_gets_the_axes_of_products_with_their_colours():
    made = trace(lambda x: x.flatten(0, 1).unsqueeze(0), torch.zeros(2, 4, 5, 6), axes="B H S D")
    axes, _, colors = json.loads(json.dumps(payload(made)))["steps"][-1]["form"]
    assert (axes[:2], colors[:2]) == (["1", "B*H"], [["#ffffff"], [AXES["B"], AXES["H"]]])


def test_a_call_that_stopped_and_one_without_steps():
    with pytest.raises(RuntimeError) as caught:
        trace(falls, torch.zeros(2, 5, 24), axes="B S C")
    stopped = caught.value.trace
    assert sentence(stopped).endswith("; then it stopped.")
    assert payload(stopped)["failure"] == stopped.failure
    assert repr(ShapeTracer(trace(lambda x: x, torch.zeros(2, 5, 24)))) == "ShapeTracer: no steps."


# ---- in a browser ----


@pytest.fixture
def show(widget_page):
    """Show a trace in its own page: ``show(trace, width=1280)``."""
    return lambda made, **options: widget_page(ShapeTracer(made), **options)


def said(page):
    return page.locator("#one .said").inner_text()


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_nothing_below_the_sentence_moves_from_step_to_step(show, reference, width):
    page = show(reference, width=width)
    body = page.locator("#one .body")
    tops = set()
    for step in reference.steps:
        go(page, step.index)
        tops.add(round(body.bounding_box()["y"]))
    page.locator("#one .play").click()
    tops.add(round(body.bounding_box()["y"]))
    assert len(tops) == 1


def test_a_step_in_words_and_its_line_lit(show, reference):
    page = show(reference)
    for step in reference.steps:
        go(page, step.index)
        shape = ", ".join(
            f"{axis} {size}" for axis, size in zip(step.axes, step.shape, strict=True)
        )
        assert said(page).startswith(
            f"Step {step.index + 1} of {len(reference.steps)}: {step.op} makes "
        )
        assert f" of shape {shape}, " in said(page)
        assert page.locator(".heading").inner_text() == reference.sources[step.source].name
        assert page.locator(".line.current .number").inner_text() == str(step.lineno)
        lit = page.locator(".line.current").bounding_box()
        list_ = page.locator(".lines").bounding_box()
        assert list_["y"] <= lit["y"] <= list_["y"] + list_["height"] - 10
        assert page.locator(".flow > .block .chip").all_inner_texts() == shape.split(", ")
        assert (
            page.locator(".pill.now")
            .get_attribute("aria-label")
            .startswith(f"Step {step.index + 1}: {step.op}")
        )


def test_the_facts_of_a_step(show, reference):
    page = show(reference)
    scores = reference.step("scores")
    go(page, scores.index)
    assert "FLOPs" not in page.locator(".facts").inner_text()  # folded away
    page.locator(".facts summary").press(" ")
    assert now(page) == scores.index  # the fold opened, and nothing played
    facts = page.locator(".facts").inner_text()
    for words in (
        "new",
        "contiguous",
        "800 bytes",
        "float32 on cpu",
        "2,400 FLOPs (multiply-add = 2)",
        "2 hidden copies",
    ):
        assert words in facts
    go(page, 2)
    facts = page.locator(".facts").inner_text()
    assert "view: same memory, strides (120, 6, 24, 1)" in facts
    assert "not contiguous" in facts


def test_a_click_goes_where_it_points(show, reference):
    page = show(reference)
    page.locator(".pill").nth(10).click()
    assert now(page) == 10
    page.locator(".link").first.click()
    assert now(page) == reference.steps[10].inputs[0].source
    page.keyboard.press("ArrowRight")  # the keys still work, though what was clicked is gone
    assert now(page) == reference.steps[10].inputs[0].source + 1
    first = next(
        step for step in reference.steps if step.source == reference.steps[now(page)].source
    )
    page.locator(".line.ran", has_text=str(first.lineno)).first.click()
    assert now(page) == first.index
    page.wait_for_function("model.saved > 0")


def sheets_of_tokens(page):
    """Return over how many sheets the numbers of each token are spread, by their shades."""
    shades = page.locator(".flow > .block path[fill-opacity]").evaluate_all(
        "all => all.map(node => [+node.getAttribute('fill-opacity'), node.getAttribute('d')])"
    )
    return [len(set(re.findall(r"M(\S+) ", path))) for _, path in sorted(shades)]


def test_shades_show_which_token_a_number_belongs_to(show):
    x = torch.zeros(2, 5, 24)
    right, wrong = trace(split, x, 4, axes="B S C"), trace(straight_to_heads, x, 4, axes="B S C")
    page = show(right)
    assert right.steps[0].axes == ("B", "S", "H", "D")
    assert sheets_of_tokens(page) == [1, 1, 1, 1, 1]  # a sheet for each token
    page = show(wrong)
    go(page, 1)
    # a sheet for each "head", where tokens run on into the next
    assert sheets_of_tokens(page) == [1, 2, 2, 2, 1]
    assert page.locator(".warning").inner_text().startswith("Warning view-without-transpose\n")
    assert page.locator(".pill .warns").count() == 1


@pytest.mark.parametrize("width", [420, 760, 1900])
@pytest.mark.parametrize(("number", "size", "heads"), [(2, 24, 4), (32, 768, 12)])
def test_nothing_sticks_out_at_any_width(show, width, number, size, heads):
    made = trace(FusedQKV(size, heads), torch.zeros(number, 33, size), axes="B S C")
    page = show(made, width=width)
    for at in range(len(made.steps)):
        go(page, at)
        stays_inside(page, ".mha-tracer")
    code, stage = page.locator(".code").bounding_box(), page.locator(".stage").bounding_box()
    assert (stage["y"] == code["y"]) == (width > 760)
