"""How each widget is made, and how a browser moves it: for every test that looks at all of them."""

START = """
import numpy as np, torch
from mha_course import plots
from mha_course.models import CausalLanguageModel, language
from mha_course.tracing import trace
from mha_course.widgets import *
scores, words = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)), "the grey cat sat on it".split()
small = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1}
def split(x): return x.view(1, 3, 2, 4).transpose(1, 2)
followed = trace(split, torch.zeros(1, 3, 8), axes="B S C", sizes={"H": 2})
def weights(temperature): return (scores / temperature).softmax(-1)
def draw(size): return plots.heatmap(np.eye(size)), f"An identity of {size}."
"""


def lab(call, **moved):
    """Return how a lab is made, what the browser asks of it, and what must hold then."""
    return call, {"request": {"asker": "a", "number": 1, "moved": moved}}, "made.view['number'] == 1", "view"


# How it is made, what the browser sets, what is true then, and which trait the browser gets back.
CASES = {
    "BlocksLab": lab("BlocksLab(scores, words)", tile=1),
    "CacheLab": lab("CacheLab()", tokens=1),
    "HeadExplorer": (
        "HeadExplorer(weights(1), queries=words, recompute=weights)", {"request": {"serial": 1, "temperature": 5.0}},
        "abs(made._maps.heads(0, 0)[0] - weights(5).numpy()).max() < 1e-3", "packet",
    ),
    "LayoutPlayer": ("LayoutPlayer(followed)", {"position": 2}, "made.position == 2", None),
    "MaskLab": lab("MaskLab(scores, words)", preset=0),
    "Panel": ("Panel(draw, size=W.IntSlider(2))", {"value": 5}, "made.text == 'An identity of 5.'", "value"),
    "RotaryLab": lab("RotaryLab()", distance=1),
    "SamplingLab": lab("SamplingLab(CausalLanguageModel(len(language.WORDS), 32, **small))", temperature=1),
    "ScalingLab": lab("ScalingLab()", divide_by=0),
    "ShapeTracer": ("ShapeTracer(followed)", {"position": 1}, "made.position == 1", None),
    "SilenceLab": lab("SilenceLab()", l1_h1=True),
    "SoftmaxLab": lab("SoftmaxLab(scores, words)", temperature=2),
    "SplitLab": lab("SplitLab()", num_heads=1),
    "WeightedSumLab": lab("WeightedSumLab()", weights=[0.1, 0.1, 0.1, 0.1, 0.6]),
}  # fmt: skip
MOVED = {"Panel": "made._controls['size']"}  # which model the browser moves, where it is not the widget itself
