"""What a class has gained: its answers to the inventory, read from the source of notebooks."""

from __future__ import annotations

import ast
import csv
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from mha_course.cli.answers import as_python, code_cells
from mha_course.cli.workers import Task, run_all
from mha_course.exercises import concept_inventory as course
from mha_course.markup import prose, row, table

COLUMNS = ("concept", "before", "after", "gain", "learners")
NAMES = ("when", "answers")
BROKEN = (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError)


def find_calls(notebook: bytes) -> list[tuple[str, str]]:
    """Return the calls of ``inventory`` that would be kept: when, and the letters.

    What stands in a function or below a condition may never have run, and does not count.
    """
    nodes = list[ast.AST]()
    with suppress(*BROKEN):
        for _, source in code_cells(notebook):
            with suppress(*BROKEN):
                lines = ast.parse(as_python(source)).body
                kept = [line for line in lines if isinstance(line, (ast.Expr, ast.Assign))]
                nodes += [node for line in kept for node in ast.walk(line)]
    found = list[tuple[str, str]]()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name("inventory") | ast.Attribute(attr="inventory")):
                given = dict(zip(NAMES, node.args, strict=False))
                given |= {each.arg: each.value for each in node.keywords if each.arg}
                with suppress(*BROKEN):  # such as a variable
                    when, answers = (ast.literal_eval(given[name]) for name in NAMES)
                    if when in course.WHENS and (letters := course.read_letters(answers)):
                        found.append((when, letters))
    return found


def write_gain(out: Path, notebooks: Iterable[tuple[str, bytes]], confined: bool) -> None:
    """Write gain.csv, and the gain in class.html, where somebody has answered the inventory.

    Args: notebooks are learners, each with the content of what was handed in.
    """
    holders = (each for each in notebooks if b"inventory" in each[1])
    tasks = (Task((at, each[0]), each[1], each[0]) for at, each in enumerate(holders))
    done = run_all(find_calls, partial(next, tasks, None), seconds=30, confined=confined)
    calls = defaultdict[str, dict[str, str]](dict)
    for task in sorted(done, key=lambda task: int(task.key[0])):
        if isinstance(task.result, list):
            calls[task.key[1]] |= dict(task.result)  # the last of each
    answered = [each for each in calls.values() if each]
    (out / "gain.csv").unlink(missing_ok=True)  # of an earlier run
    if not answered:
        return
    both = [(each["before"], each["after"]) for each in answered if len(each) > 1]
    lines = [(*each, len(both)) for each in course.class_gains(both)]
    with (out / "gain.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows((COLUMNS, *lines))
    survived = "".join(f"<li>{prose(text)}</li>" for text in course.survivors(both))
    rows = (row(map(str, line)) for line in lines)
    section = f"<h2>What the class has gained</h2><p>{course.summary(both)}</p>"
    section += f"{table('', COLUMNS, rows)}<h3>What is still believed</h3><ol>{survived}</ol>"
    page = (out / "class.html").read_bytes().replace(b"\n</main>", f"\n{section}\n</main>".encode())
    (out / "class.html").write_bytes(page)
