"""Lesson 7, Multi-head attention."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l07_multi_head_attention.lab import SplitLab
    from mha_course.lessons.l07_multi_head_attention.scene.widget import AttentionScene
else:
    __getattr__ = load_on_demand(__name__, SplitLab="lab", AttentionScene="scene.widget")

__all__ = ["AttentionScene", "SplitLab"]
