"""Lesson 12, FlashAttention."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l12_flash_attention.lab import TilingLab
else:
    __getattr__ = load_on_demand(__name__, TilingLab="lab")

__all__ = ["TilingLab"]
