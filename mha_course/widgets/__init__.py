"""Pictures that answer to controls, each with a static twin that needs no kernel."""

from mha_course.widgets.blocks import BlocksLab
from mha_course.widgets.cache import CacheLab
from mha_course.widgets.heads import HeadExplorer
from mha_course.widgets.labs import MaskLab, ScalingLab, SoftmaxLab, SplitLab, WeightedSumLab
from mha_course.widgets.layout import LayoutPlayer
from mha_course.widgets.panel import Panel
from mha_course.widgets.rotary import RotaryLab
from mha_course.widgets.sampling import SamplingLab
from mha_course.widgets.silence import SilenceLab
from mha_course.widgets.tracer import ShapeTracer

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
