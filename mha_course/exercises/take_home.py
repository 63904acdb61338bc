"""Save each answer that passes in ``my_attention.py``, a module next to the notebook.

An answer is copied with what it uses: imports, numbers, and functions from the same notebook. Each
exercise has a region of the file, in lesson order. All other text in it stays.
"""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import re
import symtable
import sys
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from filelock import FileLock

from mha_course.exercises import progress_store
from mha_course.exercises.catalogue import NAMES, find_exercise, number_of_lesson
from mha_course.sources import binds, looked_up

MODULE = "my_attention"
OPENING = '"""What I wrote in the course: every function here has passed its check."""\n'
REGION = re.compile(r"^# region (\w+), lesson \d+\n(.*?)^# endregion\n", re.MULTILINE | re.DOTALL)
# Where to look for what does not name its module: functions of torch and Python, and types.
MODULES = ("torch", "torch.nn.functional", "torch.nn", "torch.types", "math", "typing")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class NotKeptError(Exception):
    """Why an answer cannot be saved, as a clause that follows “because”."""


@dataclass
class Parts:
    """What an answer needs in a file: statements by the names they bind, dependencies first."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: Any, regions: dict[str, str]) -> None:
        """Add the statement that binds a name to a value, after those it needs.

        Args: regions are the file's; a name they bind to the same text is not added again.
        """
        if name in self.texts:
            return
        if isinstance(value, ModuleType):
            path = value.__name__
            self.texts[name] = f"import {path}" + ("" if path == name else f" as {name}")
        elif _is_literal(value):
            self.texts[name] = f"{name} = {value!r}"
        elif place := _place(name, value):
            module, original = place
            renamed = "" if original == name else f" as {name}"
            self.texts[name] = f"from {module} import {original}{renamed}"
        elif isinstance(value, type) or inspect.isfunction(value):
            self._add_definition(name, value, regions)
        else:
            raise NotKeptError(f"it uses {name}, of type {type(value).__name__}")

    def _add_definition(self, name: str, value: Any, regions: dict[str, str]) -> None:
        text, namespace = _definition(value)
        if name in regions and text in regions[name]:
            return
        self.texts[name] = ""  # so that functions that call each other terminate
        for needed in dict.fromkeys(looked_up(text)):
            if needed in namespace and needed != value.__name__:
                self.add(needed, namespace[needed], regions)
        del self.texts[name]
        alias = "" if value.__name__ == name else f"\n\n\n{name} = {value.__name__}\n"
        self.texts[name] = text + alias


def keep(name: str, answer: Any) -> str:
    """Save an answer that passed; return a sentence about it, or "" outside notebooks."""
    if not _in_notebook() or progress_store.switched_off():
        return ""
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            FileLock(f".{MODULE}.lock", timeout=progress_store.TIMEOUT),
        ):
            return write(name, answer, Path(f"{MODULE}.py"))
    except NotKeptError as reason:
        return f"It was not kept in {MODULE}.py, because {reason}."
    except Exception as error:  # from the file, or from objects that raise on any access
        return f"It could not be kept in {MODULE}.py ({error})."
    finally:
        sys.modules.pop(MODULE, None)  # the next import then reads the new file
        invalidate_caches()


def solved(name: str) -> Any:
    """Return the learner's saved answer to an exercise, or else the course's function.

    Pages that build on an earlier exercise use this, so that they also run without the file.
    Raises: ShapeError if there is no such exercise.
    """
    reference = find_exercise(name, "solved").reference
    if MODULE not in sys.modules and not find_spec(MODULE):
        return reference
    try:
        return getattr(import_module(MODULE), name, reference)
    except Exception as error:  # from anything else in the file
        print(f"{MODULE}.py cannot be imported ({error}): the course's own {name} is used.")
        return reference


def write(name: str, answer: Any, file: Path) -> str:
    """Write an answer into a file. Raises: NotKeptError, OSError."""
    sentence = f"It is kept in {file.name}."
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else OPENING
        ast.parse(before)
    except (SyntaxError, ValueError):
        names = (file.with_suffix(f".broken-{n}.py") for n in count(1))
        aside = next(name for name in names if not name.exists())
        file.replace(aside)
        before = OPENING
        sentence += f" The old file was not valid Python, and is now {aside.name}."
    regions = dict(REGION.findall(before))
    if str(getattr(answer, "__module__", "")).startswith("mha_course."):
        raise NotKeptError("it is the course's own")
    definitions = Parts()
    definitions.add(name, answer, {key: text for key, text in regions.items() if key != name})
    # The answer's own old region may bind the same names: it is replaced, so it cannot clash.
    others = REGION.sub(lambda region: "" if region[1] == name else region[0], before)
    text = _without_clashes(definitions.texts, name, others)
    after = _with_region(_under_other_names(before, name, text), name, text)
    ast.parse(after)
    temporary = file.with_suffix(".part")  # so that a killed kernel leaves the old file intact
    temporary.write_text(after, encoding="utf-8")
    temporary.replace(file)
    return sentence


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):  # such as <function …>, inf and tensor(…)
        return False


def _place(name: str, value: Any) -> tuple[str, str] | None:
    """Return a module and the name by which a value can be imported from it."""
    name = getattr(value, "__name__", name)  # Device, a union of types, has none of its own
    for module in (getattr(value, "__module__", None), *MODULES):
        loaded = sys.modules.get(module or "")
        if loaded and module not in ("__main__", MODULE) and getattr(loaded, name, None) is value:
            return str(module), name
    return None


def _definition(value: Any) -> tuple[str, dict[str, Any]]:
    """Return the text of a cell's function or class, and its cell's namespace."""
    # inspect.getsource fails for a class in a notebook cell, but its methods know their file.
    value = inspect.unwrap(value)
    functions = [value] if inspect.isfunction(value) else vars(value).values()
    function: Any = next(filter(inspect.isfunction, functions), None)
    code = getattr(function, "__code__", None)
    lines = linecache.getlines(code.co_filename) if code else []
    try:
        nodes = ast.parse("".join(lines)).body
    except SyntaxError:  # a cell with magics
        nodes = []
    # The last definition of a name in a cell is the one that was checked.
    for node in reversed(nodes):
        if isinstance(node, Definition) and node.name == value.__name__:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if code and first <= code.co_firstlineno <= (node.end_lineno or first):
                text = "".join(lines[first - 1 : node.end_lineno])
                if re.search("^# (end)?region", text, re.MULTILINE):
                    raise NotKeptError("one of its lines begins with “# region” or “# endregion”")
                return text.rstrip() + "\n", function.__globals__
    raise NotKeptError(f"{value.__name__} is not a function or class at the top level of a cell")


def _without_clashes(texts: dict[str, str], answer: str, others: str) -> str:
    """Join statements; a name that others bind to different text gets a numeric suffix."""
    bound = _bindings(others)
    joined = "\n\n\n".join(text.rstrip("\n") for text in _in_order(texts)) + "\n"
    for name, text in texts.items():
        meant = ast.dump(ast.parse(text))
        if name != answer and bound.get(name, meant) != meant:
            joined = _renamed(joined, name, _numbered(name, {*bound, *texts}))
    return joined


def _under_other_names(before: str, answer: str, text: str) -> str:
    """Rename what other regions bind to an answer's name, such as the course's version."""
    meant = _bindings(text)[answer]
    used = set(_bindings(before))

    def renamed(region: re.Match[str]) -> str:
        body = region[2]
        if region[1] == answer or _bindings(body).get(answer, meant) == meant:
            return region[0]
        return region[0].replace(body, _renamed(body, answer, _numbered(answer, used)))

    return REGION.sub(renamed, before)


def _numbered(name: str, used: set[str]) -> str:
    return next(f"{name}_{n}" for n in count(2) if f"{name}_{n}" not in used)


def _in_order(texts: dict[str, str]) -> Iterator[str]:
    """Yield imports in one block, then numbers in one, then definitions."""
    statements = [*texts.values()]
    imports = [text for text in statements if re.match("import |from ", text)]
    numbers = [text for text in statements if text not in imports and "\n" not in text]
    if imports:
        yield "\n".join(sorted(imports))
    if numbers:
        yield "\n".join(numbers)
    yield from (text for text in statements if text not in imports and text not in numbers)


def _bindings(source: str) -> dict[str, str]:
    """Return the names that statements bind, each with its statement in comparable form."""
    bound = dict[str, str]()
    for node in ast.parse(source).body:
        bound |= dict.fromkeys(binds(ast.unparse(node)), ast.dump(ast.Module([node], [])))
    return bound


def _renamed(source: str, old: str, new: str) -> str:
    """Rename a module-level name wherever it is used. Raises: NotKeptError."""
    # Renaming by token would go wrong in a function with a local variable of this name.
    tables = symtable.symtable(source, "", "exec").get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if old in table.get_identifiers() and not table.lookup(old).is_global():
            raise NotKeptError(f"another {old} is there already")
    # Expressions in f-strings have their own tokens only since Python 3.12.
    in_text = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)]
    if any(old in looked_up(ast.unparse(node)) for node in in_text):
        raise NotKeptError(f"another {old} is there already")
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, after in reversed([*zip(tokens, tokens[1:], tokens[2:], strict=False)]):
        is_keyword = after.string == "=" and before.string in ("(", ",")
        is_original = before.string == "import" and after.string == "as"
        if token.string == old and before.string != "." and not is_keyword and not is_original:
            (row, start), (_, end) = token.start, token.end
            bound = f"{old} as {new}" if before.string == "import" else new
            lines[row - 1] = lines[row - 1][:start] + bound + lines[row - 1][end:]
    return "".join(lines)


def _with_region(before: str, name: str, text: str) -> str:
    """Replace the old region, or insert it in lesson order."""
    region = f"# region {name}, lesson {number_of_lesson(name)}\n{text}# endregion\n"
    regions = list(REGION.finditer(before))
    for match in regions:
        if match[1] == name:
            return before[: match.start()] + region + before[match.end() :]
    for match in regions:
        if match[1] in NAMES and NAMES.index(match[1]) > NAMES.index(name):
            return before[: match.start()] + region + "\n\n" + before[match.start() :]
    return before.rstrip("\n") + "\n\n\n" + region
