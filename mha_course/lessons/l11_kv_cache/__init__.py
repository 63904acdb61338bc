"""Lesson 11, KV cache and fewer KV heads."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l11_kv_cache.lab import CacheLab
else:
    __getattr__ = load_on_demand(__name__, CacheLab="lab")

__all__ = ["CacheLab"]
