"""All lessons of the course in order, and their exercises and questions by name.

A lesson is loaded when one of its exercises is needed: ``check("softmax", …)`` loads only lesson 4.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

from mha_course.errors import ShapeError
from mha_course.exercises.attention_mistakes import STEP_MISTAKES
from mha_course.exercises.spec import Exercise, Lesson, Mistake
from mha_course.questions import page_questions

# The folder of each lesson, and its exercises in order, so that an exercise is found without
# loading them all.
FOLDERS: dict[str, tuple[str, ...]] = {
    "l00_start_here": ("attend",),
    "l01_projection": ("project", "self_attention", "project_qkv"),
    "l02_head_splitting": (
        "heads_in_a_loop", "split_heads", "split_fused_qkv", "one_head_queries",
    ),
    "l03_scaling": ("scaled_scores", "score_form"),
    "l04_softmax": ("softmax", "masked_softmax", "entropy"),
    "l05_weighted_sum": ("weighted_sum",),
    "l06_concatenation": ("merge_heads", "head_contributions", "ov_circuit"),
    "l07_multi_head_attention": (
        "multi_head_attention", "MultiHeadAttention", "fused_mha", "parameter_count",
        "fold_value_bias",
    ),
    "l08_masks": (
        "causal_mask", "padding_mask", "combine_masks", "causal_mask_for_cache", "find_leaks",
        "to_attend", "additive_mask",
    ),
    "l09_cross_attention": ("cross_attention",),
    "l10_positions": ("sinusoidal_encoding", "rope"),
    "l11_kv_cache": (
        "decode_step", "repeat_kv", "latent_scores", "kv_cache_bytes", "gather_pages",
    ),
    "l12_flash_attention": ("online_softmax", "tiled_attention", "merge_partials"),
    "l13_encoder_block": ("layer_norm", "encoder_block"),
    "l14_vision": ("patchify", "add_class_token"),
    "l15_language_model": (
        "next_token_targets", "generate", "next_token_probabilities", "accept_or_redraw",
    ),
    "l16_why_many_heads": ("build_subtractor",),
    "l17_what_heads_do": (
        "relation_score", "ablate_heads", "contribution_norms", "other_weights",
    ),
    "l18_real_models": ("gpt2_qkv", "gpt2_attention", "to_half_split"),
    "l19_bug_hunt": (),
}  # fmt: skip
FOLDER_OF = {name: folder for folder, names in FOLDERS.items() for name in names}
NAMES = tuple(FOLDER_OF)
QUESTIONS = page_questions()
# Of all lessons, which are loaded on first use: see ``__getattr__``.
LESSONS: tuple[Lesson, ...]
LESSON_OF: Mapping[str, Lesson]
MISTAKES: tuple[Mistake, ...]


class _Exercises(Mapping[str, Exercise]):
    """Exercises by name; each one's lesson is loaded on first use."""

    def __getitem__(self, name: str) -> Exercise:
        return _exercise(name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


EXERCISES = _Exercises()


def _module(folder: str) -> ModuleType:
    # The one import that goes upward: lessons are above this package, and are loaded by name.
    return importlib.import_module(f"mha_course.lessons.{folder}.exercises")


@cache
def _exercise(name: str) -> Exercise:
    exercises: Sequence[Exercise] = _module(FOLDER_OF[name]).LESSON.exercises
    return next(exercise for exercise in exercises if exercise.name == name)


@cache
def mistakes_of(name: str) -> tuple[Mistake, ...]:
    """Return an exercise's possible mistakes: those in its steps, and its lesson's own."""
    return (*STEP_MISTAKES, *getattr(_module(FOLDER_OF[name]), "MISTAKES", ()))


def number_of_lesson(name: str) -> int:
    """Return the number of the lesson that has an exercise."""
    return [*FOLDERS].index(FOLDER_OF[name])


def find_exercise(name: Any, place: str = "check") -> Exercise:
    """Return the exercise with this name.

    Raises: ShapeError, with this place, if there is none.
    """
    if isinstance(name, str) and name in NAMES:
        return _exercise(name)
    meant = name.__name__ if isinstance(name, FunctionType | type) else name
    matches = get_close_matches(meant, NAMES, n=1) if isinstance(meant, str) else []
    answer = ", answer" if place == "check" else ""
    raise ShapeError(
        place,
        "no exercise has this name",
        expected=", ".join(NAMES),
        got=f"{name!r:.60}" if isinstance(name, str) else type(name).__name__,
        fix=f'{place}("{matches[0]}"{answer})' if matches else None,
    )


@cache
def __getattr__(name: str) -> Any:
    match name:
        case "LESSONS":
            return tuple(_module(folder).LESSON for folder in FOLDERS)
        case "LESSON_OF":
            lessons = __getattr__("LESSONS")
            return {exercise.name: lesson for lesson in lessons for exercise in lesson.exercises}
        case "MISTAKES":
            of_lessons = [getattr(_module(folder), "MISTAKES", ()) for folder in FOLDERS]
            return (*STEP_MISTAKES, *chain(*of_lessons))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
