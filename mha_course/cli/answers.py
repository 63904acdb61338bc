"""Find the answers in a learner's notebook, and the statements each one needs.

Nothing is run here. A notebook also trains models and draws, which takes minutes, so an answer gets
only the statements that bind or change a name it needs, and what those need in turn.
"""

from __future__ import annotations

import ast
import json
import linecache
import re
import symtable
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from IPython.core.inputtransformer2 import TransformerManager

from mha_course.exercises.catalogue import EXERCISES, LESSONS
from mha_course.sources import binds, looked_up

BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)  # what ast.parse raises
# The magics whose cells and lines run as Python in the notebook's own namespace.
PLAIN_MAGIC = re.compile(r"\A(?:\s*%%(?:time|capture)\b.*\n)+|^%time[ \t]+", re.MULTILINE)
RUNS_A_FILE = re.compile(r"run_line_magic\('(?:run|pylab|load)'")
BOUND_BY_BROKEN = re.compile(r"^\s*(?:(?:async )?(?:def|class) (\w+)|(\w+) *=(?!=))", re.MULTILINE)
SETTING = re.compile("set_|use_|seed|manual_seed")  # how setters of global state begin
ANYTHING = "*"  # a name that stands for all of them
NAMESPACES = {"globals", "locals", "vars"}
READING = {"get", "keys", "values", "items", "copy"}  # methods of a dict that change nothing
# What is called only to show something: by name, or by package.
SHOWING = {"print", "display", "check", "hint", "predict", "progress", "solution", "trace"}
DRAWING = {"mha_course", "matplotlib", "seaborn", "IPython", "ipywidgets"}
_NUMBERS = count(1)  # of cells, so that a traceback never mixes up two notebooks
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass
class Cell:
    """A cell of a notebook, as stored."""

    source: str
    kind: str = "code"
    is_setup: bool = False  # the course's own, with its page's imports


@dataclass(eq=False)
class Statement:
    """One top-level statement of a cell; its node is None if the cell is not Python."""

    source: str
    node: ast.stmt | None
    file: str  # what a traceback calls its cell
    is_setup: bool
    uses: frozenset[str] = frozenset()
    changes: set[str] = field(default_factory=set)

    @property
    def is_shell(self) -> bool:
        """Whether it is a magic or a shell line; these are not run."""
        return "get_ipython" in self.uses

    @property
    def first_line(self) -> str:
        """Its first line, as a message shows it."""
        return self.source.strip().split("\n")[0][:80]


@dataclass(frozen=True)
class Answer:
    """The answer in the last check of an exercise, and its place among the statements."""

    exercise: str
    expression: str
    end: int


def read_cells(notebook: bytes) -> list[Cell]:
    """Return the cells of a notebook. Raises: whatever JSON raises, if it is not a notebook."""
    return [
        Cell(
            "".join(cell.get("source", "")),
            cell["cell_type"],
            "setup" in (cell.get("metadata") or {}).get("tags", ()),
        )
        for cell in json.loads(notebook)["cells"]
    ]


def read_statements(cells: Iterable[Cell]) -> list[Statement]:
    """Return the statements of the code cells, with the names that each uses and changes."""
    statements = []
    for cell in (cell for cell in cells if cell.kind == "code"):
        source = _as_python(cell.source)
        file = f"your code, cell {next(_NUMBERS)}"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        try:
            nodes = ast.parse(source).body
        except BROKEN:
            names = {name for pair in BOUND_BY_BROKEN.findall(source) for name in pair if name}
            statements.append(Statement(source, None, file, cell.is_setup, changes=names))
            continue
        for node in nodes:
            text = ast.unparse(node)
            uses = frozenset(_looked_up(text))
            statements.append(Statement(text, node, file, cell.is_setup, uses))
    _find_changes(statements)
    return statements


def _as_python(source: str) -> str:
    """Return a cell as Python, with IPython's magics as calls."""
    source = PLAIN_MAGIC.sub("", source)
    try:
        ast.parse(source)
    except BROKEN:
        with suppress(*BROKEN, RuntimeError):  # with more lines than IPython handles
            return str(TransformerManager().transform_cell(source))
    return source


def _looked_up(source: str) -> Iterator[str]:
    with suppress(*BROKEN):  # such as a return outside a function
        yield from looked_up(source)


def _find_changes(statements: Sequence[Statement]) -> None:
    """Note which names each statement binds or may change, also through functions."""
    nodes = [statement.node for statement in statements if statement.node]
    imported = dict[str, str]()  # by name: the package
    for alias, module in (pair for node in nodes for pair in _imports(node)):
        imported[(alias.asname or alias.name).split(".")[0]] = module.split(".")[0]
    functions = {node.name for node in nodes if isinstance(node, DEFINITIONS)}
    effects = defaultdict[str, set[str]](set)  # by function or object: what a call may change
    for _ in range(2):  # a function may call one that is defined further down
        for statement in statements:
            node = statement.node
            shows = isinstance(node, ast.Expr) and _shows(node.value, imported)
            if node is None or shows or isinstance(node, ast.Assert):
                continue
            bound, declared = _bound(statement.source)
            changed = declared | (_mutated(node, imported, functions) & {*statement.uses, ANYTHING})
            changed = changed.union(*(effects[name] for name in statement.uses))
            runs_later = isinstance(node, DEFINITIONS)
            statement.changes |= bound if runs_later else bound | changed
            for name in bound:
                effects[name] |= changed if runs_later else changed - bound - {ANYTHING}


def _imports(node: ast.AST) -> Iterator[tuple[ast.alias, str]]:
    """Yield each name that is imported in a statement, with its module."""
    for inner in ast.walk(node):
        if isinstance(inner, IMPORTS):
            for alias in inner.names:
                yield alias, inner.module or "" if isinstance(inner, ast.ImportFrom) else alias.name


def _bound(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a statement binds, and those that its functions declare global."""
    try:
        bound = binds(source)
    except BROKEN:  # some Pythons give import * no symbols
        return {ANYTHING}, set()
    if re.match(r"from .* import \*", source):
        bound.add(ANYTHING)
    declared = set()
    tables = symtable.symtable(source, "", "exec").get_children()
    while tables:
        inner = tables.pop()
        tables += inner.get_children()
        names = (x for x in inner.get_symbols() if x.is_declared_global() and x.is_assigned())
        declared |= {name.get_name() for name in names}
    return bound, declared


def _mutated(node: ast.AST, imported: dict[str, str], functions: set[str]) -> set[str]:
    """Return the names whose objects a statement, or a function when it is called, may change."""
    names = set()
    repeats = isinstance(node, ast.For | ast.While | ast.With)  # set for the body
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                names.add(_root(inner))
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                names.add(_root(inner))
            case ast.Expr(ast.Call() as call):
                handled = _handled(call, imported, functions)
                names |= handled - {ANYTHING} if repeats else handled
            case ast.Call(ast.Name("exec")):
                names.add(ANYTHING)
            case ast.Call(ast.Attribute(value, method)) if method not in READING:
                names |= {_root(value)} - imported.keys()  # cache.pop()
    return {ANYTHING} if names & NAMESPACES or RUNS_A_FILE.search(ast.unparse(node)) else names


def _handled(call: ast.Call, imported: dict[str, str], functions: set[str]) -> set[str]:
    """Return the names that a call may change, if nothing keeps its result."""
    if _shows(call, imported):
        return set()
    function = call.func
    root = _root(function)
    method = function.attr if isinstance(function, ast.Attribute) else root
    if SETTING.match(method) and (root in imported or isinstance(function, ast.Name)):
        return {ANYTHING}  # torch.set_default_dtype(torch.float64)
    names = set()
    if isinstance(function, ast.Attribute):
        names.add(root)
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        names |= {name.id for name in ast.walk(argument) if isinstance(name, ast.Name)}
    if method in ("setattr", "delattr"):
        return names
    return names - imported.keys() - functions


def _shows(node: ast.AST, imported: dict[str, str]) -> bool:
    root = _root(node)
    return root in SHOWING or imported.get(root) in DRAWING


def _root(node: ast.AST) -> str:
    """Return the name that an expression such as ``a.b[0].c()`` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def find_answers(statements: Sequence[Statement]) -> list[Answer]:
    """Return what each exercise's last check was given, in the order of the course.

    An exercise that is defined but never checked comes last, if the notebook checks its lesson: a
    helper may share its name with another lesson's exercise.
    """
    checks = dict[str, Answer]()
    defined = set[str]()
    for at, statement in enumerate(statements):
        for name, expression in _checks(statement.node):
            checks[name] = Answer(name, expression, at)
        node = statement.node
        if node is None or isinstance(node, (*DEFINITIONS, ast.Assign, ast.With, ast.If, ast.Try)):
            defined |= statement.changes & EXERCISES.keys()
    for lesson in LESSONS:
        names = {exercise.name for exercise in lesson.exercises}
        if not checks or names & checks.keys():
            for name in names & defined - checks.keys():
                checks[name] = Answer(name, name, len(statements))
    return [checks[name] for name in EXERCISES if name in checks]


def _checks(node: ast.stmt | None) -> Iterator[tuple[str, str]]:
    """Yield exercise and answer, as written, from each call of check that counts."""
    for inner in ast.walk(node) if node else ():
        match inner:
            case ast.Call(
                func=ast.Name("check") | ast.Attribute(attr="check"),
                args=[ast.Constant(str(name)), given],
                keywords=rest,
            ) if name in EXERCISES and not any(keyword.arg == "record" for keyword in rest):
                yield name, ast.unparse(given)


def needed(answer: Answer, statements: Sequence[Statement]) -> tuple[list[Statement], set[str]]:
    """Return the statements that an answer needs before its check, in order, and all names.

    A function looks up names when it is called, so a name counts wherever it is bound.
    """
    names = {ANYTHING, *_looked_up(answer.expression)}
    chosen = set[int]()
    grows = True
    while grows:
        grows = False
        for at, statement in enumerate(statements[: answer.end]):
            if at not in chosen and statement.changes & names:
                chosen.add(at)
                names |= statement.uses
                grows = True
    return [statements[at] for at in sorted(chosen)], names


def course_functions(answer: Answer, chosen: Sequence[Statement]) -> list[str]:
    """Return the course functions that an answer uses, such as ``attention.split_heads``.

    It may use what the page's set-up cell imports, except the exercise itself.
    """
    imported = dict[str, bool]()  # by name: whether it may be used
    texts = [answer.expression]
    for statement in chosen:
        pairs = list(_imports(statement.node)) if statement.node else []
        for alias, module in pairs:
            name = alias.asname or alias.name.split(".")[0]
            if module.split(".")[0] == "mha_course":
                imported[name] = statement.is_setup and alias.name != answer.exercise
        if statement.node and not isinstance(statement.node, IMPORTS):
            texts.append(statement.source)
    used = set()
    for node in (inner for text in texts for inner in ast.walk(ast.parse(text))):
        match node:
            case ast.Attribute(ast.Name(name), attr) if name in imported:
                used.add(f"{name}.{attr}")
            case ast.Name(name) if name in imported and not imported[name]:
                used.add(name)
    return sorted(used - {x.split(".")[0] for x in used if "." in x})
