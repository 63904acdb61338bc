"""What each lesson costs where there is little, as on mybinder.org (1 CPU, 2 GB): time of CPU, and
peak memory.

    python tests/benchmarks/notebooks.py [NN ...] [--cpus 1] [--write]

Each lesson runs in a process of its own, kernel included, which is held to so many CPUs. With
--write the table goes
to binder/MEASURED.md. Linux and macOS; macOS cannot hold a process to a CPU.
"""

import argparse
import itertools
import os
import platform
import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import browsing
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "binder" / "MEASURED.md"
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in which ru_maxrss counts
MIB = 2**20


def row(path):
    """Run a lesson; return its name, seconds of CPU and MiB of its kernel."""
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    kernel = resource.getrusage(resource.RUSAGE_CHILDREN)
    return path.stem, kernel.ru_utime + kernel.ru_stime, kernel.ru_maxrss * UNIT / MIB


def server():
    """Start JupyterLab; return its name, seconds of CPU until it answers, and MiB."""
    import psutil  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        lab = browsing.Lab(Path(folder))
        process = psutil.Process(lab.process.pid)
        work, memory = sum(process.cpu_times()[:2]), process.memory_info().rss / MIB
        lab.stop()
    return "JupyterLab, until it answers", work, memory


def table(paths):
    """Return the table as Markdown, printing each line as it comes."""
    lines = ["| lesson | seconds of CPU | peak memory, MiB |", "|---|---|---|"]
    print("\n".join(lines), flush=True)
    rows = []
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as processes:
        for found in itertools.chain([server()], processes.map(row, paths)):
            rows.append(found)
            lines.append("| {} | {:.0f} | {:.0f} |".format(*found))
            print(lines[-1], flush=True)
    _, work, memory = zip(*rows, strict=True)
    lines.append(f"| all lessons | {sum(work[1:]):.0f} | {max(memory):.0f} at most |")
    print(lines[-1])
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("numbers", nargs="*", metavar="NN")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(
            0, sorted(os.sched_getaffinity(0))[: options.cpus]
        )  # what is started here inherits it
    lessons = sorted((ROOT / "notebooks").glob("*.ipynb"))
    found = table(
        [path for path in lessons if not options.numbers or path.name[:2] in options.numbers]
    )
    if options.write:
        said = ", ".join(
            f"{name} {version(name)}" for name in ("torch", "jupyterlab", "ipywidgets")
        )
        words = f"One run of each lesson on {options.cpus} CPU ({platform.machine()}), Python "
        words += f"{platform.python_version()}, {said}. mybinder.org gives 1 CPU and 2 GB. "
        words += (
            "Peaks are those of one lesson at a time: where memory is short, shut its kernel down "
            "before the next. "
        )
        words += "`python tests/benchmarks/notebooks.py --write` measures again."
        TARGET.write_text(f"# What each lesson needs\n\n{words}\n\n{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
