"""For maintainers: train what ships, execute the notebooks."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from mha_course import example
from mha_course.cli import launch
from mha_course.cli.jupyter_hooks import WIDGET_VIEW, is_progress
from mha_course.errors import ShapeError, require

ROOT = launch.ROOT
LESSONS = launch.LESSONS
COLAB = {"colab": {"provenance": [], "toc_visible": True}}
COLAB_GPU = {"accelerator": "GPU", "colab": {"gpuType": "T4", **COLAB["colab"]}}
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
WIDGETS = r"\w*(?:Lab|Explorer|Player|Tracer|Scene|Panel|Film)"  # how their classes are named
EXERCISE = re.compile(r"\*\*(?:Exercise `\w+`|Case \d+|From memory)\*\* [●○]+ (\d+) minutes")
MOVES = re.compile(rf"\b{WIDGETS}\(")
HIDDEN = {"setup", "drawing"}  # tags of cells whose source readers need not see
WIDGET = re.compile(rf"{WIDGETS}: (?!no steps)")  # its text
ON_SITE = re.compile(r'<p><a href="[^"]*">Move it on the reading site</a></p>')
PAGE = re.compile(r"\]\((https://[^)]+/\d\d_\w+\.html)\)")  # of a lesson, in its first cell
SHIPPED_SEED = 10


def render_command(numbers: Sequence[str]) -> None:
    """Execute lessons in place, top to bottom; all of them if no numbers are given."""
    for path in lessons(numbers):
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"rendered {path.name}")


def lessons(numbers: Sequence[str]) -> list[Path]:
    """Return the notebooks of some lessons, such as ``"3"`` or ``"03"``, or of all.

    Raises: ShapeError if there is no such lesson.
    """
    paths = {path.name[:2]: path for path in sorted(LESSONS.glob("*.ipynb"))}
    for number in numbers:
        expected = f"one of {', '.join(paths)}"
        place = f"lesson {number}"
        known = number.zfill(2) in paths
        require(known, place, "there is none", expected=expected, got=number, fix="choose one")
    return [paths[number.zfill(2)] for number in numbers] or list(paths.values())


def render(text: str) -> str:
    """Execute a lesson and return it in the form in which it is kept.

    Raises: nbclient's CellExecutionError where a cell fails.
    """
    notebook = nbformat.reads(text, as_version=4)
    execute(notebook)
    link_to_site(notebook)
    return nbformat.writes(notebook) + "\n"


def link_to_site(notebook: NotebookNode) -> None:
    """Add a link below each widget's static picture to the live one on the site."""
    page = PAGE.search(notebook.cells[0].source)
    if not page:
        return
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if WIDGET.match(data.get("text/plain", "")) and "text/html" in data:
                link = f'<p><a href="{page[1]}#{cell.id}">Move it on the reading site</a></p>'
                data["text/html"] = ON_SITE.sub("", data["text/html"]).rstrip("\n") + "\n" + link


def execute(notebook: NotebookNode, **environment: str) -> None:
    """Execute a lesson, top to bottom, with these variables set, and normalise it."""
    client_of(notebook).execute(env=os.environ | environment)
    normalise(notebook)


def client_of(notebook: NotebookNode) -> NotebookClient:
    """Return what executes a lesson from its own folder."""
    options: dict[str, Any] = {"timeout": 300, "kernel_name": "python3"}
    options |= {"store_widget_state": False, "resources": {"metadata": {"path": LESSONS}}}
    quiet = ["--IPKernelApp.log_level=40"]  # no warning about unencrypted sockets
    return NotebookClient(notebook, extra_arguments=quiet, **options)


def normalise(notebook: NotebookNode) -> None:
    """Drop progress bars and all that varies between runs or needs a kernel; join split output. Ask
    Colab for a GPU if a cell looks for one.
    """
    uses_gpu = any("torch.cuda.is_available()" in cell.source for cell in notebook.cells)
    colab = COLAB_GPU if uses_gpu else COLAB
    notebook.metadata = nbformat.from_dict(
        colab | {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        fold_source(cell)
        joined: list[NotebookNode] = []
        for output in cell.outputs:
            if (
                joined
                and output.output_type == joined[-1].output_type == "stream"
                and output.name == joined[-1].name
            ):
                joined[-1].text += output.text
                continue
            if not is_progress(output):
                output.get("data", {}).pop(WIDGET_VIEW, None)
                joined.append(output)
        cell.outputs = joined
    notebook.cells[0].source = re.sub(
        r"About \d+ minutes[^.]*\.", minutes_line(notebook), notebook.cells[0].source
    )


def minutes(notebook: NotebookNode) -> tuple[int, int]:
    """Return a lesson's minutes, rounded up to five: for its core path, and for all of it.

    A word counts 1/110, a shown line of code 1/12, an exercise what it says, and a widget 2. From a
    heading that begins with "Deeper:" to the next of its level, nothing is on the core path.
    """
    total = {False: 0.0, True: 0.0}
    deeper = False
    below = 0
    for cell in notebook.cells:
        heading = (
            re.match(r"(#+) (Deeper:)?", cell.source) if cell.cell_type == "markdown" else None
        )
        if heading and (heading[2] or len(heading[1]) <= below):
            deeper = bool(heading[2])
            below = len(heading[1]) if heading[2] else 0
        if cell.cell_type == "markdown":
            words = re.sub(r"!\[[^]]*]|\]\([^)]*\)|<[^>]*>", " ", cell.source).split()
            total[deeper] += len(words) / 110 + sum(
                int(stated) for stated in EXERCISE.findall(cell.source)
            )
        else:
            shown = not HIDDEN & set(cell.metadata.get("tags", ()))
            total[deeper] += shown * sum(map(bool, map(str.strip, cell.source.splitlines()))) / 12
            total[deeper] += 2 * len(MOVES.findall(cell.source))
    core = total[False]
    with_deeper = total[False] + total[True]
    return 5 * math.ceil(core / 5), 5 * math.ceil(with_deeper / 5)


def minutes_line(notebook: NotebookNode) -> str:
    """Return the sentence in a lesson's opening that says how long it takes."""
    core, with_deeper = minutes(notebook)
    return f"About {core} minutes" + (
        f", {with_deeper} with *Deeper*." if with_deeper > core else "."
    )


def fold_source(cell: NotebookNode) -> None:
    """Hide a tagged cell's source, in JupyterLab's way and Colab's; show all other source."""
    if HIDDEN & set(cell.metadata.get("tags", ())):
        cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
    else:
        for name in ("jupyter", "cellView"):
            cell.metadata.pop(name, None)


def main(argv: Sequence[str]) -> int:
    """Train the running example's model, or render lessons; return the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m mha_course")
    parser.add_argument("command", choices=("render", "train"))
    parser.add_argument("numbers", nargs="*", help="of lessons to render, such as 00 03; or all")
    chosen = parser.parse_args(argv)
    try:
        if chosen.command == "render":
            render_command(chosen.numbers)
        else:
            example.save(example.train_model(SHIPPED_SEED)[0])
    except (ShapeError, CellExecutionError) as error:
        print(f"mha_course: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
