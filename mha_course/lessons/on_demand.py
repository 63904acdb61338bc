"""Labs and scenes are loaded when somebody asks for them: exercises of the same folder need no widgets."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def load_on_demand(package: str, **modules: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names, by keyword, lie in modules of its own."""

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return load
