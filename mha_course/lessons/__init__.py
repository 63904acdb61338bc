"""One folder for each lesson; what several lessons use lies in the core, beside this folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def load_on_demand(package: str, **modules: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a lesson whose labs, by keyword, lie in modules of its own.

    They are loaded when somebody asks for them: the exercises of the same folder need no widgets.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return load


# At the end, since this loads the exercises of all lessons, whose folders call the function above:
# so whichever of lessons and exercises is imported first finds the other.
import mha_course.exercises  # noqa: E402, F401
