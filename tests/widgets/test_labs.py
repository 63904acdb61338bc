"""The labs tell the truth: every control is moved, and compared with PyTorch."""

import json
import math

import pytest
import torch
from labs import LABS
from torch.nn import functional as F
from widget_cases import first_move, make

from mha_course import masks
from mha_course.attention import attention
from mha_course.errors import ShapeError
from mha_course.lessons.l03_scaling import lab as scaling_lab
from mha_course.lessons.l03_scaling import scaling
from mha_course.lessons.l03_scaling.lab import ScalingLab
from mha_course.lessons.l04_softmax.lab import SoftmaxLab
from mha_course.widgets import MaskLab, PlaneLab
from mha_course.widgets.labs.mask import BY_HAND, COURSE, FINITE, PRESETS
from mha_course.widgets.labs.plane import REACH, TARGET
from mha_course.widgets.labs.plane import TOKENS as ARROWS

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


# Controls whose value may be another than the one that was sent: lists, and what others set bounds
# to.
RECONCILED = {"mask", "weights", "scores", "num_kv_heads", "tile"}


@pytest.mark.parametrize("name", LABS)
def test_every_value_of_every_control_is_drawn_and_the_start_again(name):
    lab = make(name)
    start, seen = lab.state, set()
    for control in lab._controls.values():
        values = [control.write(value) for value in control.values] or [control.start]
        if control.kind in ("linear", "whole"):
            values += [control.low, control.high]
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
    before = lab.png()
    ask(lab, **first_move(name, lab.options["controls"], lab.state["values"]))
    assert lab.png() != before


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
    wrong = ScalingLab(scores=lambda q, k: q @ k.mT)
    assert "have spread 8" in wrong.text
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
    assert lab.png()[1:4] == b"PNG"
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
    def naive(s):
        return s.exp() / s.exp().sum(-1, keepdim=True)

    lab = SoftmaxLab(scores, TOKENS, softmax=naive, word="it")
    right = panel(lab, "matrix")["values"]
    assert lab.text.endswith("Computed by your softmax.")
    lab.set(shift=10)
    assert tensor(panel(lab, "matrix")["values"]).sub(tensor(right)).abs().max() < 1e-3
    lab.set(shift=1000)
    assert panel(lab, "matrix")["values"][3] == [None] * 6
    assert "the weights are not numbers (NaN)" in lab.text
    assert lab.png()[1:4] == b"PNG"


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
        (lambda s: MaskLab(s, TOKENS, mask=[[1, 0], [1]]),
         "mask must be a table of 0 and 1. expected 6 rows of 6, got expected sequence of length "
         "2 at dim 1 (got 1)"),
        (lambda s: ScalingLab(scores=3), "scaled_scores must be a function. expected a callable, "
                                         "got int"),
        (lambda s: PlaneLab().set(tokens=[[0.5, "x"]]),
         "every token needs a point. expected finite numbers (3, 2), got [[0.5, 'x']]"),
        (lambda s: ScalingLab().set(divide_by="5"), "divide_by has no such value. expected one of "
                                                    "'√D', 'nothing', 'D', '√C', got '5'"),
        (lambda s: LABS["TilingLab"](s, TOKENS).set(causal=3),
         "causal has no such value. expected True or False, got 3"),
        (lambda s: PlaneLab().set(length=math.nan), "length has no such value. expected a "
                                                    "finite number, got nan"),
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
    given = scores.to(device, dtype)[None, None]
    lab = MaskLab(given, TOKENS, mask=torch.ones(6, 6, dtype=torch.bool, device=device))
    drawn = tensor(panel(lab, "matrix", 1)["values"])
    assert torch.allclose(drawn, scores.double().softmax(-1), atol=2e-2)
    lab.set(fill=FINITE)
    told = "value cannot be converted" in lab.state["trouble"]
    assert told == (dtype == torch.float16)  # where -1e9 does not exist


# ---- masks ----


def test_presets_are_the_masks_of_the_course(scores):
    lab = MaskLab(scores, TOKENS)
    expected = {
        "none": torch.ones(6, 6, dtype=torch.bool),
        "causal": masks.causal_mask(6),
        "padding": masks.padding_mask([4], 6)[0, 0].expand(6, 6),
        "left padding, causal": torch.tensor([[2 <= s <= t for s in range(6)] for t in range(6)]),
        "window": torch.tensor([[abs(s - t) <= 2 for s in range(6)] for t in range(6)]),
    }
    assert set(expected) == set(PRESETS) - {"painted"}
    for name, mask in expected.items():
        lab.set(preset=name)
        assert torch.equal(lab.mask, mask)
        assert lab.mask.dtype == torch.bool
        assert f"{int(mask.sum())} of 36 pairs may attend" in lab.text
    lab.set(preset="window", n=0)
    assert torch.equal(lab.mask, torch.eye(6, dtype=torch.bool))


def test_every_convention_reads_back_as_the_painted_mask(scores, draw):
    lab = MaskLab(scores, TOKENS)
    painted = draw(6, 6, seed=4) > 0
    view = ask(lab, mask=painted.int().tolist())
    assert view["values"]["preset"] == PRESETS.index("painted")
    assert torch.equal(lab.mask, painted)
    small = [one for one in view["panels"] if one.get("size") == "small"]
    written = [torch.tensor(one["values"]) != 0 for one in small]
    for convention, cells in zip(("sdpa", "multihead", "seaborn"), written, strict=False):
        assert torch.equal(masks.to_attend(cells, convention), painted)
    additive = torch.zeros(6, 6).masked_fill(written[3], -math.inf)
    assert torch.equal(additive, masks.additive_mask(painted, torch.float32))
    meanings = ["True = may attend", "True = ignore", "True = do not draw", "-inf"]
    assert [one["on"] for one in small] == meanings
    assert panel(lab, "matrix")["values"] == painted.int().tolist()


def test_weights_under_a_mask_are_those_of_attention(scores, draw):
    mask = draw(6, 6, seed=4) > 0
    mask[2] = False
    lab = MaskLab(scores, TOKENS, mask=mask)
    eye = torch.eye(6, dtype=torch.float64)[None, None]
    _, expected = attention(scores.double()[None, None] * 6**0.5, eye, eye, mask)
    assert torch.allclose(tensor(panel(lab, "matrix", 1)["values"]), expected[0, 0], atol=1e-3)
    assert panel(lab, "matrix", 1)["hidden"] == (~mask).int().tolist()


def test_a_row_that_sees_nothing(scores):
    lab = MaskLab(scores, TOKENS)
    lab.set(preset="left padding, causal", n=2)
    row = {}
    for fill in (COURSE, BY_HAND, FINITE):
        lab.set(fill=fill)
        row[fill] = panel(lab, "matrix", 1)["values"][0], lab.text
        assert "2 rows see nothing (“the₁”, “cat”)" in lab.text
        assert lab.png()[1:4] == b"PNG"
    assert row[COURSE][0] == [0] * 6
    assert row[BY_HAND][0] == [None] * 6
    assert row[FINITE][0] == [pytest.approx(1 / 6, abs=1e-3)] * 6
    assert row[COURSE][1].endswith("the weights there are all 0.")
    assert "NaN" in row[BY_HAND][1]
    assert row[FINITE][1].endswith("0.17: a row that may see nothing sees everything.")


def test_painting_after_a_preset_and_a_preset_after_painting(scores):
    lab = MaskLab(scores, TOKENS, mask=masks.causal_mask(6))
    assert lab.values["preset"] == "painted"
    lab.set(n=3)
    assert torch.equal(lab.mask, masks.causal_mask(6))  # n is of no use to a painted mask
    lab.set(preset="padding")
    assert torch.equal(lab.mask, masks.padding_mask([3], 6)[0, 0].expand(6, 6))
    lab.set(mask=torch.ones(1, 1, 6, 1, dtype=torch.bool))
    assert (lab.values["preset"], bool(lab.mask.all())) == ("painted", True)
    assert ask(lab, mask=[[1, 0]])["trouble"].startswith("MaskLab: mask must be (T, S)")


# ---- the plane ----


def rows_of(lab):
    """Return the scores and the shares that are shown, (3, 3) each."""
    rows = panel(lab, "shares")["rows"]
    assert [[part["name"] for part in row["parts"]] for row in rows] == [list("abc")] * 3
    shares = [[part["value"] for part in row["parts"]] for row in rows]
    return tensor([row["numbers"] for row in rows]), tensor(shares)


def weights_of(q, k):
    """Return the weights as PyTorch's kernel computes them."""
    return F.scaled_dot_product_attention(q, k, torch.eye(3).double())


def test_the_plane_shows_what_torch_computes(draw):
    lab = PlaneLab()
    for x in (ARROWS, 1.5 * draw(3, 2).clamp(-2, 2)):
        lab.set(tokens=x)
        scores, weights = rows_of(lab)
        assert torch.allclose(scores, x @ x.T, atol=5e-3)
        assert torch.allclose(weights, weights_of(x, x), atol=1e-3)
        contexts = tensor([one["at"] for one in panel(lab, "arrows")["dots"]])
        assert torch.allclose(contexts, F.scaled_dot_product_attention(x, x, x), atol=2e-3)
        largest = weights.amax(-1).mean()
        assert f"The largest share of a row is {largest:.2f} on average." in lab.text


def test_a_tip_moves_alone_and_length_moves_all():
    lab = PlaneLab()
    ask(lab, tokens=[None, [-1.0, 0.5], None])
    assert lab.values["tokens"] == [[1, 0], [-1, 0.5], [0, 2]]
    _, before = rows_of(lab)
    ask(lab, length=1.5)
    assert lab.values["tokens"] == [[1.5, 0], [-1.5, 0.75], [0, 3]]
    assert bool((rows_of(lab)[1].amax(-1) > before.amax(-1)).all())  # longer: sharper
    lab.set(length=0)
    ask(lab, tokens=[None, None, [0.0, 99.0]])
    short = lab.values["tokens"]
    assert short == [pytest.approx([0.2, 0]), pytest.approx([-0.2, 0.1]), [0, REACH]]
    lab.set(length=99)
    assert lab.values["tokens"] == short  # else one would leave the picture
    told = ask(lab, tokens=[[0, 1], [0], None])["trouble"]
    expected = "every token needs a point. expected finite numbers (3, 2), got [[0, 1], [0], "
    assert told.startswith(f"PlaneLab: {expected}")


@pytest.mark.parametrize(("turn", "stretch"), [(120, 1.5), (-60, 0.5)])
def test_projections_are_those_of_a_linear(turn, stretch):
    lab = PlaneLab(projections=True)
    linear = torch.nn.Linear(2, 2, bias=False).double().requires_grad_(False)
    radians = math.radians(turn)
    cos, sin = stretch * math.cos(radians), stretch * math.sin(radians)
    linear.weight.copy_(torch.tensor([[cos, -sin], [sin, cos]]))
    lab.set(queries_turn=turn, queries_stretch=stretch, keys_turn=-30)
    set_by_control = lab.state["panels"]
    q, k = linear(ARROWS), torch.tensor(lab.values["keys"], dtype=torch.float64)
    scores, weights = rows_of(lab)
    assert torch.allclose(scores, q @ k.T, atol=5e-3)
    assert torch.allclose(weights, weights_of(q, k), atol=1e-3)
    assert ("✓ Reached" in lab.text) == bool(weights[0, 2] >= TARGET) == (turn == 120)
    lab.set(queries_turn=0, queries_stretch=1)
    ask(lab, queries=[None, q[1].tolist(), None])  # one is dragged, and all turn with it
    assert lab.values["queries_turn"] == turn
    assert lab.values["queries_stretch"] == pytest.approx(stretch)
    assert lab.state["panels"] == set_by_control
