"""Lesson 13, Encoder block."""

from typing import TYPE_CHECKING

from mha_course.lessons import load_on_demand

if TYPE_CHECKING:
    from mha_course.lessons.l13_encoder_block.film import TrainingFilm
else:
    __getattr__ = load_on_demand(__name__, TrainingFilm="film")

__all__ = ["TrainingFilm"]
