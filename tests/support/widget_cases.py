"""How each widget is made, and how a browser moves it: for every test that covers all of them."""

import functools
import inspect

from labs import LABS

from mha_course.widgets.labs.lab import PageLab

START = """
import numpy as np, torch
from mha_course import plots
from mha_course.attention import MultiHeadAttention
from mha_course.example import new_model
from mha_course.lessons.l13_encoder_block.film import TrainingFilm
from mha_course.lessons.l14_vision import shapes
from mha_course.lessons.l14_vision.vision import VisionTransformer
from mha_course.lessons.l15_language_model.causal_model import CausalLanguageModel
from mha_course.models.language import WORDS
from mha_course.tracing import trace
from mha_course.lessons.l07_multi_head_attention.scene.widget import AttentionScene
from mha_course.widgets import *
scores = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
words = "the grey cat sat on it".split()
small = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1}
def split(x): return x.view(1, 3, 2, 4).transpose(1, 2)
followed = trace(split, torch.zeros(1, 3, 8), axes="B S C", sizes={"H": 2})
inputs = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(0))
seen = MultiHeadAttention(8, 2)
def weights(temperature): return (scores / temperature).softmax(-1)
def draw(size): return plots.heatmap(np.eye(size)), f"An identity of {size}."
"""
START += "\n".join(f"from {lab.__module__} import {name}" for name, lab in LABS.items())


# What labs must be given, by the names of their parameters.
GIVEN = {
    "scores": "scores",
    "tokens": "words",
    "model": "CausalLanguageModel(len(WORDS), 32, **small)",
    "transformer": "VisionTransformer()",
    "pictures": "shapes.draw(40, torch.Generator().manual_seed(0))",
}


def call_of(lab):
    needed = [
        each.name
        for each in inspect.signature(lab).parameters.values()
        if each.default is each.empty
    ]
    return f"{lab.__name__}({', '.join(GIVEN[name] for name in needed)})"


@functools.cache
def space():
    """Return the names that the calls below are in."""
    names = {}
    exec(START, names)
    return names


def make(name):
    """Make the widget of a case."""
    return eval(CASES[name][0], space())


def first_move(controls, values):
    """Return what the browser sends where the first control of a lab is moved."""
    spec = next(spec for spec in controls if spec["kind"] != "painted")
    now = values[spec["name"]]
    return {spec["name"]: not now if spec["kind"] == "toggle" else (now + 1) % len(spec["words"])}


# How it is made, what the browser sets, what is true then, and which trait the browser gets back.
# Labs are found.
CASES = {
    "AttentionScene": (
        "AttentionScene(seen.steps(inputs), tokens=words, recompute=lambda: seen(3 * inputs), "
        "follow='it')",
        {"event": {"serial": 1}}, "'q' in made.state['yours']", "state",
    ),
    "HeadExplorer": (
        "HeadExplorer(weights(1), queries=words, recompute=weights)",
        {"event": {"serial": 1, "moved": {"temperature": 5.0}}},
        "abs(made._maps.numbers[0, :1] - weights(5).numpy()).max() < 1e-3", "state",
    ),
    "LayoutPlayer": ("LayoutPlayer(followed)", {"position": 2}, "made.position == 2", None),
    "Panel": ("Panel(draw, size=range(2, 12))", None, "made.text == 'An identity of 3.'", "state"),
    "ShapeTracer": ("ShapeTracer(followed)", {"position": 1}, "made.position == 1", None),
    "TrainingFilm": (
        "TrainingFilm(new_model(0), steps=9)", {"position": 9}, "made.position == 2", None
    ),
    **{
        name: (call_of(lab), None, "made.state['serial'] == 1", "state")
        for name, lab in LABS.items() if not issubclass(lab, PageLab)
    },
    "MaskLab": (
        "MaskLab(scores, words)", {"state": {"serial": 1, "values": {"mask": [[1] * 6] * 6}}},
        "made.mask.all()", None,
    ),
    "PlaneLab": ("PlaneLab()", {"state": {"serial": 1}}, "made.state['serial'] == 1", None),
}  # fmt: skip
