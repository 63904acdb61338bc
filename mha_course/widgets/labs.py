"""The labs: one idea each, a few controls, one picture, and a sentence that reads it."""

from mha_course.widgets.labs_base import Lab
from mha_course.widgets.labs_mask import MaskLab
from mha_course.widgets.labs_scores import ScalingLab, SoftmaxLab
from mha_course.widgets.labs_values import SplitLab, WeightedSumLab

__all__ = ["Lab", "MaskLab", "ScalingLab", "SoftmaxLab", "SplitLab", "WeightedSumLab"]
