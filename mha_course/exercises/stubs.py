"""Is it still the stub of the notebook? Asked of an answer, and of source that is not run."""

from __future__ import annotations

import ast
import dis
import inspect
from types import CodeType
from typing import Any

from torch import nn

_WITHOUT_EFFECT = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}


def _is_empty(code: CodeType) -> bool:
    """Return True for code that only returns None or dots, as that of ``...`` and ``pass`` does."""
    steps = list(dis.get_instructions(code))
    returned = {step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")}
    return {step.opname for step in steps} <= _WITHOUT_EFFECT and returned <= {None, Ellipsis}


def is_stub(answer: Any) -> bool:
    """Return True for an empty function, and a class with an empty forward or no method at all."""
    if isinstance(answer, type):
        forward = getattr(answer, "forward", nn.Module.forward)
        empty = not any(map(inspect.isfunction, vars(answer).values()))
        return empty if forward is nn.Module.forward else is_stub(forward)
    code = getattr(answer, "__code__", None)
    return answer is None or answer is Ellipsis if code is None else _is_empty(code)


def is_stub_source(node: ast.AST | None) -> bool:
    """Return the same of a statement that defines an answer, whatever decorates it."""
    match node:
        case ast.ClassDef():
            methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
            plain = all(isinstance(part, ast.Expr | ast.Pass) for part in node.body)
            bases = {ast.unparse(base).split(".")[-1] for base in node.bases}
            forward = methods.get("forward")
            return is_stub_source(forward) if forward else plain and bases <= {"Module"}
        case ast.FunctionDef():
            try:
                module = compile(ast.Module([node], []), "", "exec")
            except (SyntaxError, ValueError, RecursionError, MemoryError):  # it parses, no more
                return False
            codes = [code for code in module.co_consts if isinstance(code, CodeType)]
            return all(_is_empty(code) for code in codes if code.co_name == node.name)
        case ast.With():
            return all(is_stub_source(part) for part in node.body)
        case ast.Assign(value=ast.Constant(value)):
            return value in (None, ...)
        case ast.Expr(ast.Constant()) | ast.Pass():
            return True
    return False


def stub_name(source: str) -> str | None:
    """Return the name that a cell defines first, if this is still a stub."""
    try:
        first = ast.parse(source).body[0]
    except (SyntaxError, IndexError):
        return None
    if isinstance(first, ast.FunctionDef | ast.ClassDef) and is_stub_source(first):
        return first.name
    return None
