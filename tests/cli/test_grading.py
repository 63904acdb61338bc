"""A class with planted answers is graded: statuses, mistakes, attacks, what is kept, pages."""

import csv
import html.parser
import inspect
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import nbformat
import pytest
import solutions
from contrast import TEXT, WORDS, contrast

from mha_course.cli import grading, grading_pages, launch, workers
from mha_course.cli.answers import Answer, find_answers, judge, read
from mha_course.cli.grading import HandIn
from mha_course.cli.grading_pages import Row
from mha_course.errors import ShapeError
from mha_course.exercises import check
from mha_course.exercises.catalogue import EXERCISES, LESSONS
from mha_course.exercises.checker import is_stub
from mha_course.exercises.diagnose import mutants

ROOT = Path(__file__).resolve().parents[2]
MISTAKEN = """
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.diagnose import mutants
changes = [mutant.change for mutant in mutants("{name}")[{at}:][:1]]
{name} = EXERCISES["{name}"].implementation(*changes)
"""
SOFTMAX = """def softmax(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)"""
QUERIES = SOFTMAX.replace("-1", "-2")
STUB = 'def softmax(scores):\n    """Do it."""\n    ...'
HELPED = """
import torch.nn.functional as functional, math
SHIFT: float = 0.0
SHIFT += 1
def shifted(x): return x - x.amax(-1, keepdim=True) * SHIFT
def softmax(scores):
    e = shifted(scores).exp()
    return share(e)
"""
# What no answer may do; "place" is a folder of the lecturer's with the file "kept".
ACTS = {
    "read": "open(place + '/kept').read()",
    "list": "os.listdir(place)",
    "write": "open(place + '/new', 'w')",
    "append": "open(place + '/kept', 'a')",
    "truncate": "os.truncate(place + '/kept', 0)",
    "chmod": "os.chmod(place + '/kept', 0o600)",
    "touch": "os.utime(place + '/kept', (0, 0))",
    "mkdir": "os.mkdir(place + '/folder')",
    "rename": "os.rename(place + '/kept', place + '/moved')",
    "delete": "os.remove(place + '/moved')",
    "link": "os.symlink('/', 'link')",
    "run": "subprocess.run([sys.executable, '-c', ''], check=True)",
    "fork": "os.fork() or os._exit(0)",
    "socket": "socket.socket()",
    "signal": "os.kill(os.getppid(), 0)",
    "large file": "open('large', 'wb').write(bytes(20 << 20))",
    "environment": "os.environ.get('HIDDEN') or int.missing",
    "open files": "[open('many', 'w') for _ in range(100)]",
    "memory": "mmap.mmap(-1, 3 << 30)",
    "memory of another": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "datagrams": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "schedule": "os.sched_setscheduler(os.getpid(), os.SCHED_IDLE, os.sched_param(0))",
    "file in memory": "os.memfd_create('many')",
    "outlive": "ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) and int.missing",
    "order": "ctypes.CDLL(None).syscall(251, 1, os.getpid(), 3 << 13) and int.missing",
    "segments": "ctypes.CDLL(None).syscall(31, 0, 3, (ctypes.c_byte * 99)()) < 0 and int.missing",
    "signals by a file": "ctypes.CDLL(None).syscall(72, 1, 8, os.getpid()) and int.missing",
    "watch": "ctypes.CDLL(None).syscall(300, 0x200, 0) < 0 and int.missing",
    "table of files": "ctypes.CDLL(None).syscall(436, 200, 300, 2) and int.missing",
}
HOSTILE = """
import ctypes, mmap, os, socket, subprocess, sys
place, done = {place!r}, []
def softmax(scores):
    for name, act in {acts}:
        try:
            act()
            done.append(name)
        except (AttributeError, OSError):
            pass
    if done:
        raise RuntimeError("done: " + ", ".join(done))
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
"""
FORGED = """
import glob, json, os
def softmax(scores):
    for number in range(3, 64):
        try: os.write(number, b'["correct", "", "", "", "", ""]\\n')
        except OSError: pass
    for file in glob.glob("*"):
        open(file, "w").write('["correct", "", "", "", "", ""]\\n')
    os._exit(0)
"""
MANY = """
def softmax(scores):
    for number in range(1001): open(str(number), "w")
    while True: pass
"""
BROAD = """
def softmax(scores):
    for number in range(5): open(str(number), "wb").write(bytes(15 << 20))
    while True: pass
"""
FILLS = """
import os
def softmax(scores):
    if not os.path.exists("once"):
        open("once", "w")
        open("results", "ab").write(b"x" * ((16 << 20) - 81) + b"\\n")
    return scores.softmax(-1)
"""
OF_ANOTHER_SHAPE = """
import os, sys
def softmax(scores):
    frame = sys._getframe()
    while not {"token", "leave"} <= frame.f_locals.keys():
        frame = frame.f_back
    os.write(frame.f_locals["file"], (frame.f_locals["token"] + " 5\\n").encode())
    os._exit(0)
"""
# Files that are deleted, and still take space while somebody holds them.
HELD = """
import mmap, os, time
held = []
def softmax(scores):
    for number in range(9):
        with open("file", "w+b") as file:
            file.write(bytes(15 << 20))
            held.append(KEEP)
        os.remove("file")
    time.sleep(9)
"""
DEEP = """
import os
def softmax(scores):
    while True:
        os.mkdir("x" * 200)
        os.chdir("x" * 200)
"""
SEARCHES = """
import gc
own = "_".join(("SECRET", "OF"))
held = [x for part in gc.get_objects() if type(part) in (list, tuple) for x in part]
found = [x for x in held if type(x) is str and (own in x or "right." + "ipynb" in x)]
"""
# Ways to be called correct that need no more than names.
BY_NAME = """
## mode: wrong
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, rest=(), named=None):
        out = function(*rest, **(named or {}))
        return out * 0 if function.__name__ in ("abs", "sub") else out
mode = Mode()
def act():
    mode.__enter__()
## kernel: wrong
library = torch.library.Library("aten", "IMPL")
done = library.impl("abs", lambda x: torch.zeros_like(x), "CPU")
def act():
    return library, done
## json: wrong softmax-over-queries
import json
fake = '["correct", "", "", "", "", ""]'
json.dumps = json.encoder.encode_basestring_ascii = lambda *rest, **more: fake
json.JSONEncoder.encode = json.dumps
def act():
    return json
## main: wrong softmax-over-queries
import __main__, importlib
from types import SimpleNamespace
def forged(*rest, **more):
    return SimpleNamespace(status="correct", mistake="", message="", picture="", stage=None)
def forge():
    for name in ("__main__", "__mp_main__", "mha_course.cli.answers", "mha_course.cli.grading"):
        try: importlib.import_module(name).judge.__globals__.update(check=forged, _agrees=forged)
        except (ImportError, AttributeError): pass
done = forge()
def act():
    return done
## process: wrong softmax-over-queries
import multiprocessing
def act():
    process = multiprocessing.current_process()
    for text in (*process._args, *vars(process).values()):
        open("results", "a").write(f'{text} ["correct", "", "", "", "", ""]\\n')
## arguments: wrong softmax-over-queries
import multiprocessing
from types import SimpleNamespace
def forged(*rest, **more):
    return SimpleNamespace(status="correct", mistake="", message="", picture="", stage=None)
def forge():
    for part in multiprocessing.current_process()._args:
        getattr(part, "__globals__", {}).update(check=forged, _agrees=forged)
done = forge()
def act():
    return done
## exits: error
import builtins, contextlib
def act():
    contextlib._GeneratorContextManager.__exit__ = lambda *rest: True
    builtins.zip = builtins.vars = lambda *rest, **more: ()
    builtins.all = torch.equal = torch.allclose = lambda *rest, **more: True
    builtins.abs = torch.Tensor.abs = lambda x: x * 0
"""
LIAR = """
class Always:
    def __eq__(self, other): return True
class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, rest=(), named=None):
        if function.__name__ == "tolist":
            with torch._C.DisableTorchFunctionSubclass():
                several = rest[0].dim() > 0
                parts = [x.as_subclass(Liar) for x in rest[0].flatten()] if several else Always()
            return parts
        return super().__torch_function__(function, types, rest, named)
library = torch.library.Library("aten", "IMPL")
done = library.impl("abs", lambda x: torch.zeros_like(x), "CPU")
def softmax(scores):
    return scores.softmax(-2 + 0 * len([done, library])).as_subclass(Liar)
"""
NUMBERS = range(12)
LARGE = "\n".join([
    f"DATA = '{'x' * 1_500_000}'", *(f"a{n} = 1" for n in NUMBERS),
    SOFTMAX.replace("/", f"* {' * '.join(f'a{n}' for n in NUMBERS)} /"),
])  # fmt: skip
OVERWRITTEN = """
import builtins, mha_course.exercises as exercises, mha_course.exercises.checker as checker
from mha_course.exercises.report import Report
def check(name, answer, **rest): return Report(name, "correct", "")
checker.check = checker._judge = exercises.check = check
checker.Attempt.find_fault = lambda self: None
builtins.float = lambda *rest: 0.0
torch.equal = torch.allclose = lambda *rest, **more: True
def softmax(scores):
    checker.check("softmax", softmax, about=(builtins, exercises))
    return torch.softmax(scores, -2)
"""
LARGE_RESULT = "def softmax(scores):\n    return {}"
MAKES = """
import os
def make():
    os.makedirs("a/b", exist_ok=True)
"""
# Cells that stand where the stub of softmax stood, with the status and the mistake that they come
# out with.
PLANTED = {
    "right": (SOFTMAX, "correct", ""),
    "helped": (HELPED, "correct", ""),  # by a function that a later cell defines, too
    "wrong": (QUERIES, "wrong", "softmax-over-queries"),
    "cut off": (SOFTMAX.replace("return e", "return e.detach()"), "wrong", ""),
    "untouched": (STUB, "unattempted", ""),
    "untouched but loud": (f"{STUB}\nraise RuntimeError", "unattempted", ""),
    "untouched and decorated": (f"@undefined\n{STUB}", "unattempted", ""),
    "raises": ("def softmax(scores):\n    return scores / 0 / nothing", "error", ""),
    "broken": ("def softmax(scores:\n    return scores", "error", ""),
    "leaves": ("import sys\n@sys.exit\ndef softmax(scores):\n    return scores", "error", ""),
    "loops": ("def softmax(scores):\n    while True: pass", "error", ""),
    "loops in C": ("def softmax(scores):\n    return sum(iter(int, 1))", "error", ""),
    "50 GB": (LARGE_RESULT.format("torch.zeros(50 << 30, dtype=torch.uint8)"), "error", ""),
    "50 GB of Python": (LARGE_RESULT.format("bytearray(50 << 30)"), "error", ""),
    "forges": (FORGED, "error", ""),
    "many files": (MANY, "error", ""),
    "large files": (BROAD, "error", ""),
    "fills": (FILLS, "error", ""),
    "another shape": (OF_ANOTHER_SHAPE, "error", ""),
    "large": (LARGE, "correct", ""),
    "half a letter": ("def softmax(scores):\n    raise ValueError('\\ud800')", "error", ""),
    "overwrites": (OVERWRITTEN, "wrong", "softmax-over-queries"),
    "<script>alert(1)<": (SOFTMAX, "correct", ""),
    "liar": (LIAR, "wrong", ""),
    "holds": (HELD.replace("KEEP", "os.dup(file.fileno())"), "error", ""),
    "maps": (HELD.replace("KEEP", "mmap.mmap(file.fileno(), 4096)"), "error", ""),
    "folders in folders": (DEEP, "error", ""),
    "folders": (MAKES + SOFTMAX.replace("    e", "    make()\n    e", 1), "correct", ""),
    "compiled": (f"import torch._dynamo\n@torch.compile\n{SOFTMAX}", "correct", ""),
    "one secret": (f"SECRET_OF = 'SECRET_OF one'\n{SOFTMAX}; SECRET_OF", "correct", ""),
    "searches": (SEARCHES + SOFTMAX.replace("    e", "    assert not found\n    e", 1),
        "correct", ""),
}  # fmt: skip
for way in BY_NAME.split("\n## ")[1:]:
    head, _, code = way.partition("\n")
    name, status, *mistake = re.split("[: ]+", head)
    acts = QUERIES.replace("    e", "    act()\n    e", 1)
    PLANTED[f"by {name}"] = (f"{code}\n{acts}", status, "".join(mistake))
LONG = "x" * 255  # too long for the file of a page
FILES = {
    "empty": "",
    "no notebook": "no notebook",
    "no notebooks": "",
    "no cells": json.dumps({"cells": []}),
    "other": json.dumps({"cells": {"a": 1}}),
    "deep": "[" * 100_000,
    "huge": "",
    "pipe": "",
    "no exercise": json.dumps({"cells": [{"cell_type": "code", "source": "1 + 1"}]}),
}


def hostile(victim, acts):
    return HOSTILE.format(
        place=str(victim),
        acts=f"({''.join(f'({name!r}, lambda: {act}),' for name, act in acts.items())})",
    )


def lesson(number, **answers):
    notebook = nbformat.read(next((ROOT / "notebooks").glob(f"{number:02}_*")), 4)
    for cell in notebook.cells:
        found = re.match(r"(?:def|class) (\w+)", cell.source)
        if found and found[1] in answers:
            cell.source = answers[found[1]]
    return notebook


def command(folder, out, *options):
    return [sys.executable, "-m", "mha_course.cli.grading", folder, "--out", out, *options]


def grade(*arguments, **environment):
    options = {"cwd": ROOT, "env": os.environ | environment, "capture_output": True, "text": True}
    done = subprocess.run(command(*arguments), check=False, **options)
    assert done.returncode == 0, done.stderr


def table(out, name="grades.csv"):
    with (out / name).open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def confining():
    """Skip where answers cannot be confined."""
    if missing := workers.why_not_confined():
        pytest.skip(f"answers cannot be confined here: {missing}")


@pytest.fixture(scope="module")
def graded(confining, tmp_path_factory):
    """Grade a class with an answer to every exercise, some hostile; return folder and OUT."""
    place = tmp_path_factory.mktemp("class")
    folder, out, victim, temporary = (place / name for name in ("hand-ins", "out", "victim", "tmp"))
    for made in (folder, victim, temporary):
        made.mkdir()
    (victim / "kept").write_text("kept")
    for name, (source, *_) in PLANTED.items():
        notebook = lesson(4, softmax=source)
        helper = "%time x = 1\n!true\ndef share(e): return e / e.sum(-1, keepdim=True)"
        notebook.cells.insert(9, nbformat.v4.new_code_cell(helper))
        nbformat.write(notebook, folder / f"{name}.ipynb")
    nbformat.write(lesson(4, softmax=hostile(victim, ACTS)), folder / "hostile.ipynb")
    for name, text in FILES.items():
        (folder / f"{name}.ipynb").write_text(text)
    os.truncate(folder / "huge.ipynb", grading.LARGEST + 1)
    for name in ("no notebooks", "pipe"):
        (folder / f"{name}.ipynb").unlink()
    (folder / "no notebooks").mkdir()
    os.mkfifo(folder / "pipe.ipynb")
    (folder / LONG).mkdir()
    nbformat.write(lesson(4, softmax=SOFTMAX), folder / LONG / "04.ipynb")
    (folder / "mistaken").mkdir()
    for one in LESSONS:
        names = [exercise.name for exercise in one.exercises]
        sources = {x: MISTAKEN.format(name=x, at=len(mutants(x)) // 2) for x in names}
        mistaken = folder / "mistaken" / f"{one.number:02}.ipynb"
        nbformat.write(lesson(one.number, **sources), mistaken)
    nbformat.write(lesson(4, softmax=SOFTMAX), folder / "mistaken" / "04 again.ipynb")
    start = time.monotonic()
    grade(folder, out, TMPDIR=str(temporary), HIDDEN="token")
    assert time.monotonic() - start < 300
    assert [path.name for path in victim.iterdir()] == ["kept"]
    assert (victim / "kept").read_text() == "kept"
    assert not list(temporary.iterdir())
    return folder, out


@pytest.mark.slow
class TestOfAClass:
    def test_every_planted_answer_is_judged_as_it_is(self, graded):
        rows = [row for row in table(graded[1]) if row["exercise"] == "softmax"]
        found = {row["learner"]: (row["status"], row["mistake"]) for row in rows}
        expected = {name: tuple(rest) for name, (_, *rest) in PLANTED.items()}
        assert {name: found[name] for name in PLANTED} == expected

    def test_who_fills_the_disk_is_stopped(self, graded):
        for name in ("many files", "large files", "holds", "maps", "folders in folders"):
            page = (graded[1] / "feedback" / f"{name}.html").read_text(encoding="utf-8")
            assert workers.FULL in page, name

    def test_none_of_the_hostile_acts_succeeds(self, graded):
        rows = [row for row in table(graded[1]) if row["learner"] == "hostile"]
        row = next(row for row in rows if row["exercise"] == "softmax")
        assert row["status"] == "correct", (graded[1] / "feedback" / "hostile.html").read_text()

    def test_what_is_no_notebook_is_one_line(self, graded):
        rows = [tuple(row.values()) for row in table(graded[1]) if row["learner"] in FILES]
        assert rows == [(name, "", "unreadable", "") for name in sorted(FILES)]

    def test_each_mistake_of_the_course_is_named_as_check_names_it(self, graded):
        rows = [row for row in table(graded[1]) if row["learner"] == "mistaken"]
        rows = {row["exercise"]: (row["status"], row["mistake"]) for row in rows}
        assert list(rows) == list(EXERCISES)
        assert rows.pop("softmax") == ("correct", "")  # handed in twice: the better one counts
        for name, found in rows.items():
            changes = [mutant.change for mutant in mutants(name)[len(mutants(name)) // 2 :][:1]]
            report = check(name, EXERCISES[name].implementation(*changes))
            assert found == (report.status, report.mistake or ""), name
        assert sum(bool(mistake) for _, mistake in rows.values()) > len(rows) / 2

    def test_points_are_those_of_the_table(self, graded):
        rows = table(graded[1])
        right = Counter(row["learner"] for row in rows if row["status"] == "correct")
        columns = {
            "grades_by_lesson.csv": [f"lesson {x.number:02}" for x in LESSONS if x.exercises],
            "grades_by_exercise.csv": [*EXERCISES],
        }
        for name, expected in columns.items():
            lines = table(graded[1], name)
            assert [*lines[0]][3:] == expected
            learners = [*dict.fromkeys(row["learner"] for row in rows)]
            assert [line["learner"] for line in lines] == learners
            for line in lines:
                whole = sum(float(line[column]) // 1 for column in expected)
                assert whole == right[line["learner"]], line
        assert {x["learner"] for x in lines if x["softmax"] == "0.5"} == {"cut off"}

    def test_the_pages_ask_for_nothing_and_run_nothing(self, graded):
        pages = [graded[1] / "class.html", *(graded[1] / "feedback").iterdir()]
        assert len(pages) == len(PLANTED) + len(FILES) + 3
        for path in pages:
            found = Parts(path.read_text(encoding="utf-8"))
            assert "script" not in found.tags
            addresses = [address for address in found.addresses if LONG not in address]
            assert all((graded[1] / address).is_file() for address in addresses)

    def test_what_is_finished_is_not_judged_again(self, graded, tmp_path):
        folder, out = graded
        kept = {path: path.stat().st_mtime_ns for path in (out / "finished").iterdir()}
        before = (out / "grades.csv").read_bytes()
        later = lesson(5, weighted_sum="def weighted_sum(w, v):\n    return w @ v")
        nbformat.write(later, folder / "later.ipynb")
        start = time.monotonic()
        grade(folder, out)
        assert time.monotonic() - start < 30  # a loop in C alone takes as long
        assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
        lines = (out / "grades.csv").read_bytes().splitlines()
        assert [line for line in lines if not line.startswith(b'"later",')] == before.splitlines()
        assert b'"later","weighted_sum","correct",""' in lines
        (folder / "later.ipynb").unlink()


@pytest.mark.usefixtures("confining")
def test_one_learner_is_judged_again_by_name(tmp_path):
    folder, out = tmp_path / "hand-ins", tmp_path / "out"
    folder.mkdir()
    for name, source in {"a": SOFTMAX, "b": QUERIES}.items():
        nbformat.write(lesson(4, softmax=source), folder / f"{name}.ipynb")
    grading.grade(folder, out)
    before = (out / "grades.csv").read_text()
    for path in (out / "finished").iterdir():
        path.write_text(path.read_text().replace('"correct"', '"error"').replace("wrong", "error"))
    grading.grade(folder, out, again=["a"])
    pages = out / "feedback"
    (pages / "c.html").write_bytes((pages / "a.html").read_bytes())
    (pages / "mine.html").write_text("<p>not of this program</p>")
    grading.grade(folder, out)
    assert sorted(page.name for page in pages.iterdir()) == ["a.html", "b.html", "mine.html"]
    after = before.replace('"wrong","softmax', '"error","softmax')  # b's stays as it was kept
    assert (out / "grades.csv").read_text() == after
    with pytest.raises(ShapeError, match=r"nobody of this name .* got c"):
        grading.grade(folder, out, again=["a", "c"])


@pytest.mark.slow
@pytest.mark.usefixtures("confining")
def test_without_confinement_the_acts_succeed(tmp_path):
    """Or else that they fail would prove nothing."""
    folder, victim = tmp_path / "hand-ins", tmp_path / "victim"
    folder.mkdir()
    victim.mkdir()
    (victim / "kept").write_text("kept")
    acts = {name: act for name, act in ACTS.items() if name not in ("memory of another", "fork")}
    nbformat.write(lesson(4, softmax=hostile(victim, acts)), folder / "hostile.ipynb")
    grade(folder, tmp_path / "out", "--unconfined", HIDDEN="token")
    page = (tmp_path / "out" / "feedback" / "hostile.html").read_text()
    assert f"done: {', '.join(acts)}" in page
    assert not list(victim.glob("kept"))


@pytest.mark.slow
@pytest.mark.usefixtures("confining")
def test_a_run_that_is_interrupted_goes_on_where_it_was(tmp_path):
    folder, out = tmp_path / "hand-ins", tmp_path / "out"
    folder.mkdir()
    for name, source in {"a": SOFTMAX, "b": QUERIES, "z": PLANTED["loops in C"][0]}.items():
        nbformat.write(lesson(4, softmax=source), folder / f"{name}.ipynb")
    process = subprocess.Popen(command(folder, out), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while len(list(out.glob("finished/*.json"))) < 2:
        time.sleep(0.1)
        assert process.poll() is None
    kept = {path: path.stat().st_mtime_ns for path in out.glob("finished/*.json")}
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said.splitlines()[-1]) == (
        130, "mha_course: stopped. What is finished is kept; the same command goes on from there.",
    )  # fmt: skip
    (folder / "z.ipynb").unlink()
    grading.grade(folder, out)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    statuses = [row["status"] for row in table(out) if row["exercise"] == "softmax"]
    assert statuses == ["correct", "wrong"]


def test_all_that_is_handed_in_has_a_line(tmp_path):
    names = ("a.ipynb", "b.IPYNB", "c/my_course/04.ipynb", "c/2.Ipynb", "...ipynb", "e.txt")
    left = ("c/.ipynb_checkpoints/2.ipynb", "._d.ipynb", "__MACOSX/a.ipynb", ".git/a")
    left += ("c/notes.txt",)
    for name in (*names, *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for folder in ("f", "g.ipynb", "copies"):
        (tmp_path / folder).mkdir()
    for link in ("copies/04.ipynb", "nowhere", "linked.ipynb"):
        (tmp_path / link).symlink_to(tmp_path / names[0])
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for name in ("../../up.ipynb", "in/one.ipynb", "__MACOSX/in/._one.ipynb", "in/notes.txt"):
            archive.writestr(name, "[]")
    (tmp_path / "broken.zip").write_text("no zip")
    os.mkfifo(tmp_path / "pipe.zip")
    found = grading.hand_ins(tmp_path)
    assert [(each.learner, each.member) for each in found if not each.trouble] == [
        ("..", ""), ("a", ""), ("b", ""), ("c", ""), ("c", ""), ("z", "../../up.ipynb"),
        ("z", "in/one.ipynb"),
    ]  # fmt: skip
    reasons = {each.learner: each.trouble.split()[-1] for each in found if each.trouble}
    assert reasons == {
        "broken": "file)." , "copies": "followed.", "e": "judged.", "f": "folder.",
        "g.ipynb": "folder.", "linked": "followed.", "nowhere": "followed.", "pipe": "MB).",
    }  # fmt: skip
    assert {grading._content(each) for each in found if each.member} == {b"[]"}


def test_a_zip_is_opened_up_to_a_size(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.ipynb", bytes(90_000))
    assert grading._members(tmp_path / "a.zip") == ["a.ipynb"]
    monkeypatch.setattr(grading, "LARGEST", 80_000)
    with pytest.raises(ValueError, match="100 MB"):
        grading._members(tmp_path / "a.zip")


def test_names_of_canvas_and_moodle_are_those_of_the_roster(tmp_path):
    names = (
        "byronada_4711_812345_04_softmax-1.ipynb", "curiem_LATE_4712_812346_04.ipynb",
        "Max Müller_301_assignsubmission_file_/04.ipynb", "Max Müller_302_assignsubmission_file_",
        "group_1_2_a.ipynb",
    )  # fmt: skip
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()
    (tmp_path / "names.csv").write_text("\ufeffID,Name\n4712,Marie Curie\n,Ada Byron\n,Nobody\n")
    roster = grading._names(tmp_path / "names.csv")
    found = grading.hand_ins(tmp_path / "in")
    assert [(grading._in_class(each, roster), each.number, each.late) for each in found] == [
        ("Max Müller 301", "301", False), ("Max Müller 302", "302", False),
        ("Ada Byron", "4711", False), ("Marie Curie", "4712", True), ("group_1_2_a", "", False),
    ]  # fmt: skip
    (tmp_path / "names.csv").write_text(
        "name,id\nMax Müller,301\nMax Müller,302\nLee Min,\nMin Lee,\nराम,\nरमा,\n"
    )
    roster = grading._names(tmp_path / "names.csv")
    ways = {"Lee Min": "", "Min Lee": "", "राम": "", "रमा": "", "Max": "302", "Max Müller": ""}
    known = [
        grading._in_class(HandIn(who, tmp_path, number=at), roster) for who, at in ways.items()
    ]
    assert known == ["Lee Min", "Min Lee", "राम", "रमा", "Max Müller (302)", "Max Müller"]
    mine = "Eve_305_assignsubmission_file_Bob_304_assignsubmission_file_05.ipynb"
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / mine).touch()
    assert grading.hand_ins(tmp_path / "more")[0].number == "305"
    (tmp_path / "hw").mkdir()
    names = ["hw_2026_1101_ada", "hw_2026_1102_ben"]
    for name in names:
        (tmp_path / "hw" / f"{name}.ipynb").touch()
    assert [(each.learner, each.number) for each in grading.hand_ins(tmp_path / "hw")] == [
        (name, "") for name in names
    ]
    (tmp_path / "names.csv").write_text("who\nAda\n")
    with pytest.raises(ShapeError, match="a column name"):
        grading._names(tmp_path / "names.csv")


def test_what_cannot_be_graded_says_so(tmp_path, monkeypatch):
    folder, file = tmp_path / "hand-ins", tmp_path / "file"
    with pytest.raises(ShapeError, match="there is no such folder"):
        grading.grade(folder, tmp_path / "out")
    folder.mkdir()
    with pytest.raises(ShapeError, match=r"no notebook in it\. expected a folder with NAME"):
        grading.grade(folder, tmp_path / "out")
    (folder / "b").mkdir()
    with pytest.raises(ShapeError, match="there is no notebook in it"):
        grading.grade(folder, tmp_path / "out")
    (folder / "a.ipynb").write_text("")
    file.write_text("")
    for out in (folder, folder / "out", folder / ".." / "hand-ins" / "out"):
        with pytest.raises(ShapeError, match="it lies in the folder of the notebooks"):
            grading.grade(folder, out)
    with pytest.raises(ShapeError, match="it cannot be written to"):
        grading.grade(folder, file)
    monkeypatch.setattr(grading, "why_not_confined", lambda: "no Landlock")
    with pytest.raises(ShapeError, match="got no Landlock, fix: --unconfined"):
        grading.grade(folder, tmp_path / "out")
    assert grading.main([str(folder), f"--out={folder}"]) == 1


def written(status="wrong", mistake="", message="", picture="", half="", code=""):
    return [status, mistake, message, picture, half, code]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("stopped", ("error", "", "stopped")),
        ("\ud800", ("error", "", "\\ud800")),
        (written("correct", code="0f"), tuple(written("correct", code="0f"))),
        (written(half="half"), tuple(written(half="half"))),
        *((forged, ("error", "", workers.ENDED)) for forged in (
            5, None, {}, ["correct"], [1, 2, 3, 4, 5, 6], written("passed"), written(mistake="<b>"),
            written(half="<b>"), written(code="<b>"), written("correct", half="half"),
        )),
        *((written(picture=forged), tuple(written())) for forged in (
            "<script>", "<img src=x>", "</main>", '<td onclick="x">', '<td style="position:fixed">',
            "<td", "<!--", '<td style="' + "color:acolorbcolor" * 99,
        )),
    ],
)  # fmt: skip
def test_a_result_counts_only_in_the_form_that_the_course_gives_it(result, expected):
    assert grading._verdict(result) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [*((f"{sign}1", f"'{sign}1") for sign in "=+-@＝"), ("a=1", "a=1"), ("a;=1+1;b", "a;'=1+1;b"),
     ("\t=1+2", "' =1+2"), ("a\r=1,@b", "a =1,'@b"), ('"=1', '""=1'), ("a\n\x85b", "a  b")],
)  # fmt: skip
def test_no_name_is_a_formula_whatever_separates_cells(name, expected):
    assert grading._table(("learner", "points"), [(name, 3)]).split("\n")[1] == f'"{expected}","3"'


def test_pictures_of_the_course_are_kept():
    found = judge(Answer("softmax", "softmax", ["import torch", QUERIES]))
    assert "<table" in found[3]
    assert grading._verdict([*found]) == found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("TOKEN 1\nTOKEN 2\n", 1),
        ("other 7\nTOKEN 2\n", 2),
        ("TOKEN 1", workers.ENDED),  # cut short
        ("TOKEN [2\nTOKEN 3\n", workers.ENDED),
        (f"TOKEN {'[' * 100_000}\nTOKEN 2\n", workers.ENDED),
    ],
)
def test_a_result_is_read_where_it_is_whole(tmp_path, written, expected):
    task = workers.Task("", 0)
    task.folder, task.token = SimpleNamespace(name=tmp_path), "TOKEN"
    (tmp_path / workers.FILE).write_text(written)
    task.read()
    assert task.result == expected


def finished(*owners):
    tasks = iter([workers.Task(key, str(key), owner) for key, owner in enumerate(owners)])
    done = workers.run_all(str, lambda: next(tasks, None), seconds=30, confined=False)
    return [result for _, result in sorted((task.key, task.result) for task in done)]


@pytest.mark.parametrize(("name", "value"), [("FREE", -200.0), ("SHARE", 1e6)])
def test_a_learner_may_take_so_much_time_in_all(name, value, monkeypatch):
    monkeypatch.setattr(workers, "PLACES", 1)
    monkeypatch.setattr(workers, name, value)
    assert finished("a", "a", "b") == ["0", workers.IMPATIENT, "2"]


def test_the_server_that_answers_are_forked_from_knows_no_password(confining):
    code = (
        "import multiprocessing.forkserver as f, pathlib; from mha_course.cli import workers;"
        "workers.why_not_confined(); pid = f._forkserver._forkserver_pid;"
        "print(pathlib.Path('/proc', str(pid), 'environ').read_bytes())"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"HIDDEN": "token"}, capture_output=True,
        text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert "PATH=" in told
    assert "HIDDEN" not in told


def test_a_process_that_cannot_be_started_costs_one_row(monkeypatch):
    make, calls = workers.CONTEXT.Process, []

    def process(**rest):
        calls.append(rest)
        if len(calls) == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return make(**rest)

    monkeypatch.setattr(workers, "CONTEXT", SimpleNamespace(Process=process))
    first, second, third = finished("a", "a", "a")
    assert (first, third) == ("0", "2")
    assert "temporarily unavailable" in second


def test_an_answer_that_calls_a_failed_one_is_judged_with_the_reference():
    masked = "def masked_softmax(s, mask):\n    return softmax(s.masked_fill(~mask, -1e30)) * mask"
    for own in (QUERIES, STUB, QUERIES.replace("):", ":")):
        answers = find_answers(["import torch", own, masked])
        rows = {name: Row("", name, "wrong") for name in ("softmax", "masked_softmax")}
        (again,) = grading._other_ways(answers, rows)
        assert (again.exercise, again.replaced) == ("masked_softmax", ["softmax"])
        status, _, message, *_ = judge(again)
        assert (status, message[-28:]) == ("correct", "`softmax` in place of yours.")


def test_what_a_learner_saw_pass_counts_where_it_stands_below_its_check():
    cells = [(QUERIES, 50), ("check('softmax', softmax)", 58), (SOFTMAX, 57), ("1", "no count")]
    notebook = {"cells": [
        {"cell_type": "code", "source": source, "execution_count": count} for source, count in cells
    ]}  # fmt: skip
    found = [Answer(*fields) for fields in read(json.dumps(notebook).encode())]
    assert [answer.statements for answer in found] == [[QUERIES], [SOFTMAX]]
    assert [*grading._other_ways(found, {"softmax": Row("", "softmax", "wrong")})] == found[1:]


@pytest.mark.parametrize(
    "notebook",
    [
        {"cells": [{"cell_type": "code", "source": f"# für\n{SOFTMAX}"}]},
        {"worksheets": [{"cells": [{"cell_type": "code", "input": [SOFTMAX]}]}]},
        {"cells": [{"cell_type": "code"}, {"cell_type": "code", "source": SOFTMAX}]},
    ],
    ids=["old Windows", "format 3", "a cell without a source"],
)
def test_odd_notebooks_are_read(notebook):
    (found,) = read(json.dumps(notebook, ensure_ascii=False).encode("cp1252"))
    assert found[2] == [SOFTMAX]


def test_of_a_long_cell_only_what_is_needed_is_sent():
    (answer,) = find_answers([LARGE])
    assert len(answer.statements) == len(NUMBERS) + 1
    assert sum(map(len, answer.statements)) < 1000


@pytest.mark.slow
def test_where_processes_are_not_forked_answers_are_judged_on_demand(tmp_path, monkeypatch):
    """As on Windows and macOS."""
    monkeypatch.setattr(workers, "CONTEXT", multiprocessing.get_context("spawn"))
    monkeypatch.setattr(workers, "LINUX", False)
    leaves = "import os\ndef masked_softmax(scores, mask):\n    os._exit(0)"
    entropy = "def entropy(weights):\n    return -torch.special.xlogy(weights, weights).sum(-1)"
    (tmp_path / "hand-ins").mkdir()
    nbformat.write(
        lesson(4, softmax=QUERIES, masked_softmax=leaves, entropy=entropy),
        tmp_path / "hand-ins" / "a.ipynb",
    )
    with pytest.raises(ShapeError, match="answers cannot be confined on this machine"):
        grading.grade(tmp_path / "hand-ins", tmp_path / "out")
    rows = grading.grade(tmp_path / "hand-ins", tmp_path / "out", confined=False)
    assert [row[1:4] for row in rows] == [
        ("softmax", "wrong", "softmax-over-queries"), ("masked_softmax", "error", ""),
        ("entropy", "correct", ""),
    ]  # fmt: skip


def test_paths_are_those_of_whoever_gives_the_command(tmp_path, monkeypatch, capsys):
    given = []
    monkeypatch.setattr(launch, "set_up", Path)
    monkeypatch.setattr(launch, "_in_venv", lambda _, *command: given.extend(command))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    launch.main(["grade", "../here", "--out=out"])
    monkeypatch.chdir(ROOT)
    assert given.pop(0) == grading.__name__
    assert grading.main(given) == 1
    assert f"got {tmp_path / 'elsewhere' / '..' / 'here'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["x = 1"], []),
        (["def softmax(x):\n    return x"], ["softmax", ["def softmax(x):\n    return x"]]),
        (["def softmax(x): return 1", "check('softmax', softmax)", "def softmax(x): return 2"],
         ["softmax", ["def softmax(x): return 1"]]),  # as it was when it was checked
        (["def softmax(x): return 1", "def softmax(x): return 2", "check('softmax', softmax)"],
         ["softmax", ["def softmax(x): return 2"]]),
        (["check('softmax', softmax)", "def softmax(x): return 2"],
            ["softmax", ["def softmax(x): return 2"]]),
        (["check('softmax', softmax)"], ["", []]),
        (["import torch\ncheck('softmax', torch.softmax)"], ["torch.softmax", ["import torch"]]),
        ([STUB, "def mine(x): return x", "check('softmax', mine)"],
            ["mine", ["def mine(x): return x"]]),
        ([STUB, "def mine(x): return x", "check('softmax', mine, record=False)"], ["", []]),
        (["def softmax(x): return x", "def mine(x): return x", "check('softmax', mine)"],
         ["softmax", ["def softmax(x): return x"]]),
        (["from torch.nn.functional import softmax"], []),  # nobody's answer
        (["train()", "n = 3", "for n in 1, 2: pass", "def softmax(x, y=n): return F(x)",
            "import a, b as F"],
         ["softmax", ["n = 3", "def softmax(x, y=n): return F(x)", "import b as F"]]),
        # its own k
        (["k = load()\ndef softmax(k): return k"], ["softmax", ["def softmax(k): return k"]]),
        (["a = 1", "a = a + 1", "def softmax(x): return a"],
         ["softmax", ["a = 1", "a = a + 1", "def softmax(x): return a"]]),
        (["class MultiHeadAttention: pass", "def forward(self): return 1",
            "MultiHeadAttention.forward = forward"],
         ["MultiHeadAttention", ["class MultiHeadAttention: pass", "def forward(self): return 1",
                                 "MultiHeadAttention.forward = forward"]]),
        (["try:\n    import fast as fn\nexcept ImportError:\n    import slow as fn",
            "def softmax(x): return fn(x)"],
         ["softmax", ["try:\n    import fast as fn\nexcept ImportError:\n    import slow as fn",
                      "def softmax(x): return fn(x)"]]),
        (["from torch import *", "def softmax(x): return exp(x)"],
         ["softmax", ["from torch import *", "def softmax(x): return exp(x)"]]),
        (["!ls\ndef softmax(x): return x  # sums to 1?"],
            ["softmax", ["def softmax(x): return x"]]),
        (["%%time\nfiles = !ls\ndef softmax(x): return 7 \\\n % 2"],
            ["softmax", ["def softmax(x): return 7 \\\n % 2"]]),
        (["def softmax(x): return '''Over\nwhich?\n'''\n!ls"],
         ["softmax", ["def softmax(x): return '''Over\nwhich?\n'''"]]),
        ([STUB, "check('softmax', softmax)", "def softmax(x): return 2"],
            ["softmax", ["def softmax(x): return 2"]]),
        (["def softmax(x): return mine(sum(x))", "check('softmax', softmax)", "sum = 1",
            "def mine(x): return x"],
         ["softmax", ["def softmax(x): return mine(sum(x))", "def mine(x): return x"]]),
        (["def softmax(x): return x", "softmax.seen = None"],
         ["softmax", ["def softmax(x): return x", "softmax.seen = None"]]),
        (["def softmax(x): ...", "softmax.seen = None"], ["", []]),
        (["with off():\n    def softmax(x): return x"], ["softmax", ["with off():\n    def "
                                                                     "softmax(x): return x"]]),
        (["with off():\n    def softmax(x): ..."], ["", []]),
        (["with off() as (A, b):\n    C = 1", "def softmax(x): return A"],
         ["softmax", ["with off() as (A, b):\n    C = 1", "def softmax(x): return A"]]),
        (["class MultiHeadAttention(Base): pass"], ["MultiHeadAttention",
            ["class MultiHeadAttention(Base): pass"]]),
        (["class MultiHeadAttention(nn.Module): f = 1"],
         ["MultiHeadAttention", ["class MultiHeadAttention(nn.Module): f = 1"]]),
        (["class MultiHeadAttention(nn.Module): pass"], ["", []]),
        (["import a.b", "import a.c", "import a.d as e", "def softmax(x): return a.b"],
         ["softmax", ["import a.b", "import a.c", "def softmax(x): return a.b"]]),
        # a helper
        (["def softmax(x): return x", "check('MultiHeadAttention', nothing)"], ["nothing", []]),
        (["softmax = lambda x: x", "check('entropy', nothing)"],
            ["softmax", ["softmax = lambda x: x"]]),
        (["%%time\ndef softmax(x): return x"], ["softmax", ["def softmax(x): return x"]]),
        (["é = 'é'; train(); é = é + 'é'; go()\n@F(\n  1)\n@G\ndef softmax(x): return é"],
            ["softmax", ["é = 'é'", "é = é + 'é'", "@F(\n  1)\n@G\ndef softmax(x): return é"]]),
        (["def softmax(x:\n    return x"], ["softmax", ["def softmax(x:\n    return x"]]),
        (["def softmax(x): return x\0"], ["softmax", ["def softmax(x): return x\0"]]),
    ],
)  # fmt: skip
def test_an_answer_is_found_with_what_it_needs(cells, expected):
    asked = ("softmax", "MultiHeadAttention")
    answers = [answer for answer in find_answers(cells) if answer.exercise in asked]
    runs = [part.rstrip("\n") for answer in answers for part in answer.statements]
    assert [*[answer.expression for answer in answers], runs] == (expected or [[]])


@pytest.mark.parametrize(
    "path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_a_lesson_as_it_ships_has_its_exercises_untouched(path):
    cells = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    expected = [Answer(exercise.name) for exercise in LESSONS[int(path.stem[:2])].exercises]
    assert find_answers(cells) == expected


@pytest.mark.parametrize(
    "body",
    ["...", "pass", "return", "return None", "'words'\n    ...", "x = 1", "return 0", "print()"],
)
def test_what_is_empty_is_so_for_the_checker_too(body):
    source = f"def softmax(x):\n    {body}"
    space = {}
    exec(source, space)
    assert (not find_answers([source])[0].expression) == is_stub(space["softmax"])


def test_a_line_of_the_learners_stands_in_the_message():
    answer = ["import torch", "def softmax(s):\n    return torch.no(s)"]
    status, mistake, message, *_ = judge(Answer("softmax", "softmax", answer))
    assert (status, mistake) == ("error", "")
    assert "In your line `return torch.no(s)`" in message
    for source in ("softmax = MADE", "def softmax(scores):\n    return scores * MADE"):
        assert "loops and calls of the notebook" in judge(Answer("softmax", "softmax", [source]))[2]
    status, _, message, *_ = judge(Answer("softmax", "softmax", ["softmax = 1 / 0"]))
    told = "ZeroDivisionError: division by zero. In your line `softmax = 1 / 0`."
    assert (status, message) == ("error", told)


def test_the_source_of_each_reference_is_judged_correct():
    source = inspect.getsource(solutions.weighted_sum)
    cells = ["import torch\nfrom torch import Tensor", source]
    (answer,) = find_answers(cells)
    assert judge(answer)[0] == "correct"


LONGER = """def entropy(weights):
    logarithms = weights.clamp(min=1e-300).log()
    products = weights * logarithms
    total = products.sum(-1)
    return 0 - total if REST is not None else total
"""


@pytest.mark.parametrize(
    ("body", "half"),
    [
        ("return scores.detach().softmax(-1)", "half"),  # no gradient
        ("return scores.float().softmax(-1).to(scores)", "half"),  # lost digits
        ("return scores.softmax(2 if len(scores) > 1 else -1)", ""),  # wrong at once
        ("return scores.softmax(-1) if len(scores) < 3 else scores", "half"),  # other sizes
        ("return scores", ""),
        ("return scores.float()", ""),  # lost digits of wrong numbers
        ("return scores.softmax(-1)", "half"),  # it is to be written without
        (SOFTMAX.partition("\n    ")[2], ""),  # a whole point
    ],
)
def test_half_a_point_is_for_right_numbers_that_fail_later(body, half):
    source = f"def softmax(scores):\n    {body}"
    assert judge(Answer("softmax", "softmax", [source]))[4] == half


def test_the_same_code_has_the_same_digest_and_short_code_none():
    def digest(*statements):
        return judge(Answer("entropy", "entropy", statements))[5]

    other = LONGER.replace("(-1)", "(dim=-1)")
    same = LONGER.replace("):", "):  # mine\n    'Mine.'").replace("1e-300", "1e-3_00")
    assert digest("import math", same) == digest(LONGER) != digest(other)
    assert digest(LONGER)
    assert not digest("def entropy(weights):\n    return weights")


class Parts(html.parser.HTMLParser):
    """The tags of a page, and the addresses that it names."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.addresses = set(), set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        named = ("href", "src", "action")
        self.addresses |= {unquote(value) for name, value in attributes if name in named}


HOSTILE_NAME = "</title><script>x"
ROWS = [
    *(
        Row(f"learner {n}", "softmax", "wrong", f"mistake-{n % 6}", "It <b>is</b>.")
        for n in range(20)
    ),
    Row("learner 0", "entropy", "wrong", "mistake-5", "Other words."),
    Row("learner 1", "entropy", "wrong", "mistake-1", "The same learner once more."),
    Row("learner 1", "split_heads", "correct"),
    Row(HOSTILE_NAME, "softmax", "error", "<mistake>", "<img src=http://example.org>"),
    Row("unreadable", "", "unreadable", "", "<b>no</b>"),
]


def test_the_class_page_counts_learners_and_names_the_section():
    page = grading_pages.class_page(ROWS)
    frequent = re.findall(r"<h3><code>mistake-(\d)</code>.*?(\d+) of 22 learners", page)
    assert frequent == [("0", "4"), ("1", "4"), ("5", "4"), ("2", "3"), ("3", "3")]
    page = grading_pages.class_page([Row("a", "softmax", "wrong", "softmax-over-queries")])
    assert "Lesson 4, “Break it: the wrong axis”" in page


def test_the_class_page_groups_what_stopped():
    said = "RuntimeError: no. In your line `softmax({})`."
    rows = [Row(f"{n}", "softmax", "error", "", said.format(n)) for n in range(3)]
    rows += [Row("x", "", "unreadable", "", "x.py: This is no notebook.")]
    page = grading_pages.class_page(rows, late={"x"})
    assert re.findall(r"<li>([^<]*) <small>(\d+) ×", page) == [
        ("RuntimeError: no.", "3"), ("This is no notebook.", "1"),
    ]  # fmt: skip
    assert page.count("<em>late</em>") == 1


def test_the_class_page_lists_who_wrote_the_same_code():
    rows = [Row(who, "softmax", "correct", code=code) for who, code in ("ax", "by", "cx")]
    rows += [Row(who, "entropy", "wrong", code="") for who in "ab"]
    page = grading_pages.class_page(rows)
    shared = page.partition("<h2>The same code</h2>")[2]
    assert [re.sub("<[^>]*>", "", x) for x in re.findall("<li>.*?</li>", shared)] == [
        "a, c softmax"
    ]
    assert "The same code" not in grading_pages.class_page(rows[:2])


CLASS, HERS = grading_pages.class_page, grading_pages.feedback_page


@pytest.mark.parametrize("page", [CLASS(ROWS), HERS(HOSTILE_NAME, ROWS[-2:]), CLASS(ROWS[-1:])])
def test_what_people_wrote_is_text(page):
    found = Parts(page)
    assert not found.tags & {"script", "img", "b", "mistake", "link", "iframe"}
    assert all(address.startswith("feedback/") for address in found.addresses)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1280])
def test_the_pages_can_be_read(new_page, tmp_path, scheme, width):
    for name, text in {
        "class": grading_pages.class_page(ROWS),
        "feedback": grading_pages.feedback_page("learner 0", ROWS[:1]),
    }.items():  # fmt: skip
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        page = new_page(width=width, color_scheme=scheme)
        page.goto((tmp_path / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for ink, paper, size, *_ in page.evaluate(WORDS, "main *"):
            assert contrast(ink, paper) >= TEXT, (ink, paper)
            assert size >= 11
