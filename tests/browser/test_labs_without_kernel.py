"""Labs in a page without a kernel: each control moves what is drawn, as Python would."""

import pytest
import torch
from labs import LABS
from widget_cases import START, call_of

from mha_course.widgets.labs.ablation import SENTENCES

# Labs whose states are in a table.
TABLES = ("ScalingLab", "SplitLab", "TilingLab", "AblationLab")
# Returns the state once what was asked is answered.
STATE = (
    "async () => { await new Promise((done) => setTimeout(done, 150)); return model.state.state }"
)
# Moves a control, and tells its new value as an event does.
MOVE = """(input) => {
  const fire = (name) => input.dispatchEvent(new Event(name, { bubbles: true }));
  if (input.type === 'checkbox' || input.type === 'radio') { input.click(); }
  else if (input.tagName === 'SELECT') {
    input.selectedIndex = (input.selectedIndex + 1) % input.options.length; fire('change');
  } else {
    input.value = Number(input.value) === Number(input.max) ? input.min
      : Number(input.value) + Number(input.step);
    fire('input');
  }
}"""


def make(name):
    place = dict(LABS)
    exec(START, place)
    if name == "AblationLab":  # 16 states, which a test can draw
        return LABS[name](SENTENCES[:2], layer=1)
    return eval(call_of(LABS[name]), place)


@pytest.mark.parametrize("name", TABLES)
def test_each_control_of_a_lab_with_a_table_shows_what_python_draws(name, widget_page):
    lab = make(name)
    assert not lab.needs_kernel
    start = lab.text
    page = widget_page(lab)
    inputs = page.locator(".mha-lab .controls input, .mha-lab .controls select")
    for number in range(inputs.count()):
        if (
            inputs.nth(number).is_checked()
            if "radio" in inputs.nth(number).evaluate("one => one.type")
            else False
        ):
            continue
        before = page.evaluate(STATE)
        inputs.nth(number).evaluate(MOVE)
        after = page.evaluate(STATE)
        moved = {
            key: value for key, value in after["values"].items() if value != before["values"][key]
        }
        control = inputs.nth(number).get_attribute("data-control")
        lab._show({"moved": {control: moved[control]}})
        assert after["values"] == lab.state["values"]
        assert after["panels"] == lab.state["panels"] != before["panels"]
        assert page.locator(".sentence").inner_text() == lab.text
        assert after["trouble"] == ""
    page.locator(".again").click()
    page.evaluate(STATE)
    assert page.locator(".sentence").inner_text() == start


def test_an_error_of_a_learners_function_is_shown_without_a_kernel_too(widget_page):
    def scores(q, k):
        if q.size(-1) > 64:
            raise ValueError("too wide")
        return q @ k.mT

    lab = LABS["ScalingLab"](scores=scores)
    assert not lab.needs_kernel
    page = widget_page(lab)
    assert page.locator(".trouble").inner_text() == f"⚠ {lab.state['trouble']}"
    assert "too wide" in lab.state["trouble"]
    page.locator("input[type=radio]").nth(0).evaluate(MOVE)
    page.evaluate(STATE)
    assert page.locator(".trouble").is_hidden()


def test_a_lab_with_too_many_states_needs_a_kernel():
    scores = torch.randn(3, 3)
    assert LABS["SoftmaxLab"](scores, ["a", "b", "c"]).needs_kernel
    assert LABS["CacheLab"]().needs_kernel


def test_what_stands_below_a_lab_stays_where_it_is(widget_page):
    lab = LABS["SplitLab"]()
    page = widget_page(lab, width=1016)
    slider = page.locator(".controls input")

    def height_at(place):
        slider.evaluate(
            "(one, to) => { one.value = to; one.dispatchEvent(new Event('input')); }", place
        )
        page.evaluate(STATE)
        return page.evaluate("document.querySelector('.mha-lab').offsetHeight")

    highest = height_at(7)
    assert highest >= height_at(6)
    assert height_at(0) == highest


def test_the_axis_of_shares_is_fixed_and_the_bytes_are_a_straight_line(widget_page):
    lab = LABS["ScalingLab"]()
    lab.set(divide_by="√D")
    page = widget_page(lab)
    ticks = page.locator(".lines .tick.end").all_text_contents()
    assert ticks == [
        "0",
        "0.2",
        "0.4",
        "0.6",
        "0.8",
        "1",
    ]
    assert page.locator(".lines .curve.faint").count() == 1
    page = widget_page(LABS["CacheLab"]())
    points = page.locator(".lines .curve:not(.faint)").get_attribute("d")
    heights = torch.tensor([float(each.split(" ")[1]) for each in points[1:].split("L")])
    steps = heights.diff()
    assert bool((steps < -1).all())
    assert torch.allclose(steps, steps.mean().expand(7), atol=0.01)
