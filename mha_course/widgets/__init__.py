"""Pictures that answer to controls, each with a static picture that needs no kernel."""

from mha_course.widgets.head_explorer import HeadExplorer
from mha_course.widgets.labs import (
    BlocksLab,
    CacheLab,
    MaskLab,
    RotaryLab,
    SamplingLab,
    ScalingLab,
    SilenceLab,
    SoftmaxLab,
    SplitLab,
    WeightedSumLab,
)
from mha_course.widgets.layout_player import LayoutPlayer
from mha_course.widgets.panel import Panel
from mha_course.widgets.shape_tracer import ShapeTracer

__all__ = [
    "BlocksLab",
    "CacheLab",
    "HeadExplorer",
    "LayoutPlayer",
    "MaskLab",
    "Panel",
    "RotaryLab",
    "SamplingLab",
    "ScalingLab",
    "ShapeTracer",
    "SilenceLab",
    "SoftmaxLab",
    "SplitLab",
    "WeightedSumLab",
]
