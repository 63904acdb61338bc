"""What each lesson costs where there is little, as on mybinder.org (1 CPU, 2 GB): time of CPU, and
peak memory.

    python tests/benchmarks/notebooks.py

Each lesson runs in its own process, kernel included, on one CPU. The table goes
to binder/MEASURED.md. Linux and macOS; macOS cannot pin a process to a CPU.
"""

import os
import platform
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in which ru_maxrss counts
TEXT = """# What each lesson needs

One run of each lesson on 1 CPU ({machine}), Python {python}, torch {torch}, ipywidgets
{ipywidgets}.
mybinder.org gives 1 CPU and 2 GB. Peaks are those of one lesson at a time: where memory is short,
shut its kernel down before the next. `python tests/benchmarks/notebooks.py` measures again.

| lesson | seconds of CPU | peak memory, MiB |
|---|---|---|
{rows}
"""


def row(path):
    """Run a lesson; return its line of the table: seconds of CPU and MiB of its kernel."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    kernel = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = kernel.ru_maxrss * UNIT / 2**20
    return f"| {path.stem} | {kernel.ru_utime + kernel.ru_stime:.0f} | {memory:.0f} |"


def main():
    if hasattr(os, "sched_setaffinity"):  # what is started here inherits it
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    lessons = sorted((ROOT / "notebooks").glob("*.ipynb"))
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        rows = list(processes.map(row, lessons))
    text = TEXT.format(
        rows="\n".join(rows),
        machine=platform.machine(),
        python=platform.python_version(),
        torch=version("torch"),
        ipywidgets=version("ipywidgets"),
    )
    (ROOT / "binder" / "MEASURED.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
