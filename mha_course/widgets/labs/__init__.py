"""Labs: one idea each, a few controls, one picture, and a sentence that reads it.

Those of one lesson lie with it.
"""

from mha_course.widgets.labs.ablation import AblationLab
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.mask import MaskLab
from mha_course.widgets.labs.plane import PlaneLab

__all__ = ["AblationLab", "Lab", "MaskLab", "PlaneLab"]
