"""The labs tell the truth: every control is moved, and compared with PyTorch."""

import json
import math

import pytest
import torch
from labs import LABS
from widget_cases import first_move, make

from mha_course import masks
from mha_course.attention import attention
from mha_course.errors import ShapeError
from mha_course.lessons.l03_scaling import lab as scaling_lab
from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l03_scaling.lab import ScalingLab
from mha_course.lessons.l04_softmax.lab import SoftmaxLab
from mha_course.widgets import MaskLab, PlaneLab
from mha_course.widgets.labs.lab import PageLab

TOKENS = ["the", "cat", "the", "it", "dogs", ","]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Measure narrow heads only: the wide ones take seconds."""
    monkeypatch.setattr(scaling_lab, "WIDTHS", (8, 16, 64))


@pytest.fixture
def scores(draw):
    return 2 * draw(6, 6, dtype=torch.float32)


def ask(lab, **moved):
    """Send what a front end would send, and return the answer."""
    lab.event = {"serial": lab.state["serial"] + 1, "moved": moved}
    return lab.state


def panel(lab, kind, n=0):
    return [one for one in lab.state["panels"] if one["kind"] == kind][n]


def tensor(numbers):
    """Return numbers that were sent; NaN was sent as None."""
    return torch.tensor(
        [[math.nan if x is None else x for x in row] for row in numbers], dtype=torch.float64
    )


# Controls whose value may be another than the one that was sent.
RECONCILED = {"num_kv_heads", "tile"}


@pytest.mark.parametrize("name", [name for name in LABS if not issubclass(LABS[name], PageLab)])
def test_every_value_of_every_control_is_drawn_and_the_start_again(name):
    lab = make(name)
    start, seen = lab.state, set()
    for control in lab._controls.values():
        values = [control.write(value) for value in control.values] or [control.start]
        for sent in values:
            view = ask(lab, **{control.name: sent})
            assert not view["trouble"]
            assert view["values"][control.name] == sent or control.name in RECONCILED
            assert view["panels"]
            json.dumps(view, allow_nan=False)
            seen.add(json.dumps(view["panels"]))
            assert repr(lab) == f"{type(lab).__name__}: {view['text']}"
            assert view["text"].endswith(".")
    assert len(seen) >= min(3, len(lab._controls))
    again = ask(lab, **lab.options["start"])
    assert (again["panels"], again["text"]) == (start["panels"], start["text"])


@pytest.mark.parametrize("name", LABS)
def test_the_static_figure_has_all_panels_and_follows(name):
    lab = make(name)
    titles = {ax.get_title(loc="left").replace("\n", " ") for ax in lab.picture().axes}
    assert titles == {one["title"] for one in lab.state["panels"]}
    if not isinstance(lab, PageLab):
        before = lab.svg()
        ask(lab, **first_move(lab.options["controls"], lab.state["values"]))
        assert lab.svg() != before


@pytest.mark.parametrize(
    "sent", [{"nothing": 1}, {"head_dim": 99}, {"head_dim": "2"}, {"head_dim": -1}, None, 7]
)
def test_nonsense_from_the_browser_is_told_in_place(sent):
    lab = ScalingLab()
    before = lab.state["panels"]
    lab.event = {"serial": 1, "moved": sent}
    assert lab.state["trouble"]
    assert lab.state["panels"] == before
    assert not ask(lab, head_dim=0)["trouble"]


# ---- scaling ----


@pytest.mark.parametrize("divide_by", ["√D", "nothing", "D", "√C"])
@pytest.mark.parametrize("width", [8, 64])
def test_scaling_shows_what_the_experiment_measures(width, divide_by):
    lab = ScalingLab()
    lab.set(head_dim=width, divide_by=divide_by)
    divisor = {"√D": width**0.5, "nothing": 1, "D": width, "√C": (width * 8) ** 0.5}[divide_by]
    found = scaling.saturation(width, divisor)
    assert panel(lab, "bars")["values"] == pytest.approx(found.weights[0, :12].tolist(), rel=1e-3)
    told = dict(row[:2] for row in panel(lab, "table")["rows"])
    assert told["spread of the scores"] == f"{found.spread:.2f}"
    above = (found.weights[:, 0] > 0.99).double().mean()
    assert told["rows with a share above 0.99"] == f"{above:.0%}"
    lines = panel(lab, "lines")
    drawn = {line["name"]: line["values"][lines["at"]] for line in lines["lines"]}
    assert drawn["largest share, mean"] == pytest.approx(found.top, rel=1e-3)


def test_ones_own_scaling_is_one_more_way():
    right = ScalingLab(scores=lambda q, k: q @ k.transpose(-2, -1) / q.size(-1) ** 0.5)
    assert right.values["divide_by"] == "yours"
    assert right.text.startswith("D = 64, yours: ")
    assert right.text.endswith("Computed by your scaled_scores.")
    yours = right.state["panels"]
    right.set(divide_by="√D")
    assert panel(right, "bars")["values"] == pytest.approx(yours[0]["values"])
    assert panel(right, "table")["rows"] == yours[1]["rows"]
    assert "have spread 8" in ScalingLab(scores=lambda q, k: q @ k.mT).text
    unfinished = ScalingLab(scores=lambda q, k: None)
    told = "Your scaled_scores returns nothing yet, so the course's was used."
    assert unfinished.text.endswith(told)
    assert unfinished.state["panels"][1] == yours[1]


def test_ones_own_function_that_fails_is_told_and_the_next_move_recovers():
    def fails(q, k):
        raise ValueError("two\nlines")

    lab = ScalingLab(scores=fails)
    assert lab.state["trouble"] == "your scaled_scores: ValueError: two lines"
    assert lab.state["panels"] == []
    assert repr(lab) == f"ScalingLab: ⚠ {lab.state['trouble']}"
    assert lab.svg().startswith(b"<svg")
    lab.set(divide_by="√D")
    assert (lab.state["trouble"], len(lab.state["panels"])) == ("", 3)
    lab.set(divide_by="yours")
    assert lab.state["trouble"]
    assert len(lab.state["panels"]) == 3  # the last picture stays
    flat = ScalingLab(scores=lambda q, k: q @ k.mT.flatten(0, 1))
    assert "your scaled_scores" in flat.state["trouble"]
    shape = ScalingLab(scores=lambda q, k: torch.ones(3))
    told = "the result must be a tensor of the right shape. expected (400, 1, 1, 64), got (3,)"
    assert shape.state["trouble"] == f"your scaled_scores: {told}"


# ---- softmax ----


@pytest.mark.parametrize("shift", [-1000, 0, 10])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("dim", [-1, -2])
def test_softmax_is_torchs(scores, dim, temperature, shift):
    lab = SoftmaxLab(scores, TOKENS)
    over = f"the {'keys (dim=-1)' if dim == -1 else 'queries (dim=-2)'}"
    lab.set(word=3, temperature=temperature, shift=shift, over=over)
    expected = (scores.double() / temperature).softmax(dim)  # the shift changes nothing
    drawn = panel(lab, "matrix")
    assert torch.allclose(tensor(drawn["values"]), expected, atol=2e-3)
    assert panel(lab, "bars", 1)["values"] == drawn["values"][3]
    for along, name in ((1, "rows_sum"), (0, "columns_sum")):
        sums = [float(x) for x in drawn[name]]
        assert sums == pytest.approx(expected.sum(along).tolist(), abs=6e-3)
    assert f"the row sums to {expected[3].sum():.2f}" in lab.text
    if dim == -1:
        entropy = f"entropy {torch.special.entr(expected[3]).sum():.2f}, where 0 is all on one"
        assert f"{entropy} word and {math.log(6):.2f} spread evenly" in lab.text


def test_ones_own_softmax_that_overflows_shows_it(scores):
    lab = SoftmaxLab(
        scores, TOKENS, softmax=lambda s: s.exp() / s.exp().sum(-1, keepdim=True), word="it"
    )
    right = panel(lab, "matrix")["values"]
    assert lab.text.endswith("Computed by your softmax.")
    lab.set(shift=10)
    assert tensor(panel(lab, "matrix")["values"]).sub(tensor(right)).abs().max() < 1e-3
    lab.set(shift=1000)
    assert panel(lab, "matrix")["values"][3] == [None] * 6
    assert "the weights are not numbers (NaN)" in lab.text
    assert lab.svg().startswith(b"<svg")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: SoftmaxLab(s, TOKENS[:5]), "scores has the wrong T and S. expected (T=5, S=5), "
                                              "got (T=6, S=6)"),
        (lambda s: SoftmaxLab(s[None].repeat(4, 1, 1), TOKENS),
         "scores must have 2 axes. expected (T=6, S=6), got (4, 6, 6), fix: scores[0, 0], one "
         "head of one sentence"),
        (lambda s: SoftmaxLab(s, "thecat"), "tokens must be a list of words. expected 1 to 32 "
                                            "tokens, got 'thecat'"),
        (lambda s: MaskLab(s, ["x"] * 33), "tokens must be a list of words. expected 1 to 32 "
                                           "tokens, got 33 tokens"),
        (lambda s: SoftmaxLab(s, TOKENS, word="dog"),
         "word must be one of the tokens. expected the, cat, it, dogs, ,, got 'dog'"),
        (lambda s: MaskLab(s / 0, TOKENS),
         "scores must be finite. expected finite numbers, got inf or NaN among them, fix: the "
         "scaled scores, before a mask hides any"),
        (lambda s: MaskLab(s, TOKENS, mask=torch.ones(6, 6)),
         "mask must be bool, True = may attend. expected torch.bool, got torch.float32, fix: "
         "mask.bool() if it holds 1 for may attend, mask == 0 if it is additive (0 and -inf)"),
        (lambda s: ScalingLab(scores=3), "scaled_scores must be a function. expected a callable, "
                                         "got int"),
        (lambda s: PlaneLab().set(length=1), "its controls move in the browser only. expected a "
                                             "move there, got {'length': 1}"),
        (lambda s: ScalingLab().set(divide_by="5"), "divide_by has no such value. expected one of "
                                                    "'√D', 'nothing', 'D', '√C', got '5'"),
        (lambda s: LABS["TilingLab"](s, TOKENS).set(causal=3),
         "causal has no such value. expected True or False, got 3"),
        (lambda s: ScalingLab().set(heads=2), "no control has this name. expected head_dim, "
                                              "divide_by, got heads"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(scores, make, message):
    with pytest.raises(ShapeError) as caught:
        make(scores)
    assert str(caught.value).partition("Lab: ")[2] == message


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_float_on_any_device(scores, dtype, device):
    lab = SoftmaxLab(scores.to(device, dtype)[None, None], TOKENS)
    expected = scores.double().softmax(-1)
    assert torch.allclose(tensor(panel(lab, "matrix")["values"]), expected, atol=2e-2)
    everything = torch.ones(6, 6, dtype=torch.bool, device=device)
    masked = MaskLab(scores.to(device, dtype), TOKENS, mask=everything)
    assert torch.allclose(tensor(panel(masked, "matrix", 1)["values"]), expected, atol=2e-2)


# ---- masks ----


def test_weights_under_a_mask_are_those_of_attention(scores, draw):
    mask = draw(6, 6, seed=4) > 0
    mask[2] = False
    lab = MaskLab(scores, TOKENS, mask=mask)
    eye = torch.eye(6, dtype=torch.float64)[None, None]
    _, expected = attention(scores.double()[None, None] * 6**0.5, eye, eye, mask)
    assert torch.allclose(tensor(panel(lab, "matrix", 1)["values"]), expected[0, 0], atol=1e-3)
    assert panel(lab, "matrix", 1)["hidden"] == (~mask).int().tolist()


def test_a_row_that_sees_nothing(scores):
    mask = masks.causal_mask(6)
    mask[[0, 3]] = False
    lab = MaskLab(scores, TOKENS, mask=mask)
    assert panel(lab, "matrix", 1)["values"][0] == [0] * 6
    assert lab.text == (
        f"{mask.sum()} of 36 pairs may attend. 2 rows see nothing (“the₁”, “it”): the weights "
        "there are all 0."
    )


def test_the_painted_mask_is_the_one_that_the_browser_shows(scores):
    lab = MaskLab(scores, TOKENS)
    painted = torch.eye(6, dtype=torch.bool)
    lab.state = lab.state | {"values": lab.state["values"] | {"mask": painted.int().tolist()}}
    assert torch.equal(lab.mask, painted)
