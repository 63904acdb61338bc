"""Interactive pictures, each with a static picture that needs no kernel."""

from mha_course.widgets.head_explorer.widget import HeadExplorer
from mha_course.widgets.labs.ablation import AblationLab
from mha_course.widgets.labs.mask import MaskLab
from mha_course.widgets.labs.plane import PlaneLab
from mha_course.widgets.layout_player.widget import LayoutPlayer
from mha_course.widgets.panel import Panel
from mha_course.widgets.shape_tracer.widget import ShapeTracer

__all__ = [
    "AblationLab", "HeadExplorer", "LayoutPlayer", "MaskLab", "Panel", "PlaneLab", "ShapeTracer",
]  # fmt: skip
