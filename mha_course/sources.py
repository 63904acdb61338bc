"""Source code for a page: only the computation."""

from __future__ import annotations

import ast
import inspect
import symtable
import textwrap
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

Source = Callable[..., Any] | type


def plain_source(obj: Source, *, opening: bool = False, checks: bool = False) -> str:
    """Return the source of a function, method or class without docstrings and checks.

    A check is a statement that only calls ``require…`` or ``errors.require…``. All other lines are
    unchanged. A body with nothing else stays as it is.

    Args: opening keeps the first paragraph of each docstring; checks keeps the checks.
    """
    lines = inspect.getsource(obj).splitlines()
    numbered = dict(enumerate(lines, start=1))
    for body in _bodies(_parsed(obj)):
        texts = [statement for statement in body if _is_text(statement)]
        dropped = texts + [s for s in body if not checks and _only_checks(s)]
        if len(dropped) == len(body):
            continue
        for statement in dropped:
            for number in _numbers(statement):
                del numbered[number]
        if opening:
            for text in texts:
                numbered |= _opening(text, lines)
    return "\n".join(numbered[number] for number in sorted(numbered)) + "\n"


def plain_body(function: Callable[..., Any]) -> str:
    """Return a function's body without its docstring and checks, from the left margin."""
    first = _parsed(function).body[0].body[0]  # type: ignore[attr-defined]
    lines = plain_source(function).splitlines()
    return textwrap.dedent("\n".join(lines[first.lineno - 1 :]))


def with_imports(obj: Source) -> str:
    """Return a function's or class's source, after the imports it needs elsewhere."""
    source = inspect.getsource(obj)
    module = inspect.getmodule(obj)
    imported = {}  # by bound name: its module and its import
    statements = ast.parse(inspect.getsource(module)).body if module else []
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom):
            place = node.module if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                imported[alias.asname or alias.name] = (place, ast.unparse(alias))
    imports_from: dict[str | None, list[str]] = {"": []}
    for name in sorted({*looked_up(source)} - {obj.__name__}):
        if name in imported:
            place, text = imported[name]
            imports_from.setdefault(place, []).append(text)
        elif hasattr(module, name):
            imports_from.setdefault(obj.__module__, []).append(name)
    lines = [f"import {name}" for name in imports_from.pop("")]
    lines += [f"from {place} import {', '.join(names)}" for place, names in imports_from.items()]
    return "\n".join([*lines, "", "", source] if lines else [source])


def looked_up(source: str) -> Iterator[str]:
    """Yield the names that statements use but do not bind."""
    tables = [symtable.symtable(source, "", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        outer = table.get_type() == "module"
        names = [x for x in table.get_symbols() if x.is_referenced() or x.is_declared_global()]
        yield from (name.get_name() for name in names if outer or name.is_global())


def binds(source: str) -> set[str]:
    """Return the names that statements bind: by assignment, import, def or class."""
    symbols = symtable.symtable(source, "", "exec").get_symbols()
    return {x.get_name() for x in symbols if x.is_assigned() or x.is_imported()}


def _parsed(obj: Source) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(obj)))


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list):  # a lambda's body is no list
                yield body


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _only_checks(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = ast.unparse(call.func).removeprefix("errors.")
    return name.lstrip("_").startswith("require")


def _numbers(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _opening(text: ast.stmt, lines: list[str]) -> dict[int, str]:
    """Return the lines of a docstring's first paragraph, closed, by line number."""
    written = [lines[number - 1] for number in _numbers(text)]
    paragraph = list(takewhile(str.strip, written))
    if len(paragraph) < len(written):
        paragraph[-1] += '"""'
    return dict(enumerate(paragraph, start=text.lineno))
