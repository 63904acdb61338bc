"""The labs: one idea each, a few controls, one picture, and a sentence that reads it.

Every lab that a file of this folder defines is found by itself: to add a lab is to add a file.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from mha_course.widgets.labs.lab import Lab


def _found() -> dict[str, type[Lab]]:
    modules = [import_module(module.name) for module in pkgutil.iter_modules(__path__, f"{__name__}.")]
    own = [(module, value) for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {
        value.__name__: value
        for module, value in own
        if issubclass(value, Lab) and value is not Lab and value.__module__ == module.__name__
    }


LABS = _found()
globals().update(LABS)
__all__ = ["LABS", "Lab"]
__all__ += list(LABS)
