"""The whole of multi-head attention in one picture that answers."""

from mha_course.widgets.attention_scene.widget import AttentionScene

__all__ = ["AttentionScene"]
