"""What a split and a merge do in memory, number by number."""

from mha_course.widgets.layout_player.widget import LayoutPlayer

__all__ = ["LayoutPlayer"]
