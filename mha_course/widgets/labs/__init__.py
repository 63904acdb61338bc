"""The labs: one idea each, a few controls, one picture, and a sentence that reads it."""

from mha_course.widgets.labs.ablation import SilenceLab
from mha_course.widgets.labs.cache import CacheLab
from mha_course.widgets.labs.flash import BlocksLab
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.mask import MaskLab
from mha_course.widgets.labs.rotary import RotaryLab
from mha_course.widgets.labs.sampling import SamplingLab
from mha_course.widgets.labs.scaling import ScalingLab, SoftmaxLab
from mha_course.widgets.labs.weighted_sum import SplitLab, WeightedSumLab

__all__ = [
    "BlocksLab",
    "CacheLab",
    "Lab",
    "MaskLab",
    "RotaryLab",
    "SamplingLab",
    "ScalingLab",
    "SilenceLab",
    "SoftmaxLab",
    "SplitLab",
    "WeightedSumLab",
]
