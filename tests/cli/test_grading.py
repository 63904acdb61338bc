"""A class is graded: honest answers pass, nothing reaches outside, tables and pages are safe."""

import csv
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from ctypes import CDLL, c_char_p
from pathlib import Path
from threading import Event
from urllib.parse import unquote

import psutil
import pytest
from contrast import TEXT, WORDS, contrast
from tags import Tags

from mha_course.cli import confine, grading, grading_pages, hand_ins, launch
from mha_course.cli.answers import find_answers, needed, read_cells, read_statements
from mha_course.cli.grading_pages import Row
from mha_course.errors import ShapeError
from mha_course.exercises.catalogue import EXERCISES, LESSONS

judge = pytest.importorskip("mha_course.cli.judge", reason="grade needs a system that forks")
ROOT = Path(__file__).resolve().parents[2]
SALT = "salt"
SOFTMAX = """def softmax(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)"""
QUERIES = SOFTMAX.replace("-1", "-2")
TIMES_K = SOFTMAX.replace("exp()", "exp() * K")  # right if K has been set to 1
STUB = 'def softmax(scores):\n    """Do it."""\n    ...'
CHECK = 'check("softmax", softmax)'
missing = confine.why_not_confined()
confined = pytest.mark.skipif(bool(missing), reason=f"answers cannot be confined here: {missing}")


def notebook(*sources, kinds=(), outputs=()):
    """Write a notebook with cells of code, the check of softmax last."""
    cells = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
        for source in ("import torch", *sources)
    ]
    for at, kind in kinds:
        cells[at + 1]["cell_type"] = kind
    cells[0]["outputs"] = outputs
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def judged(*notebooks, is_confined=True):
    """Judge notebooks as one learner's, and return the rows of each."""
    lines, trouble = confine.run_judge(notebooks, SALT, is_confined, Event())
    return [grading.rows_of(lines, at, SALT, trouble) for at in range(len(notebooks))]


# Correct in a notebook, so correct here. Cells are separated by a line ---;
# SOFTMAX and TIMES_K are the sources above.
HONEST = """
## global
def set_up():
    global K
    K = 1
set_up()
---
TIMES_K
## a loop
K = 0
for _ in range(1):
    K += 1
---
TIMES_K
## setattr
class Box: ...
setattr(Box, "K", 1)
K = Box.K
---
TIMES_K
## a star
from torch import *
---
def softmax(s):
    e = exp(s - amax(s, -1, keepdim=True))
    return e / sum(e, -1, keepdim=True)
## %%time
%%time
SOFTMAX
## magics
%time K = 1
!true
files = !ls
---
TIMES_K
## a broken cell
def helper(:
---
SOFTMAX
## a failing cell
model = undefined.train()
---
SOFTMAX
## a closure
def make(K):
    def inner(s):
        e = (s - s.amax(-1, keepdim=True)).exp() * K
        return e / e.sum(-1, keepdim=True)
    return inner
softmax = make(1)
## a helper that is defined again
def finish(s): return s
def softmax(scores):
    return finish(scores)
---
def finish(s):
    e = (s - s.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
## with, try and if
import contextlib
with contextlib.nullcontext(1) as A:
    pass
try:
    import nothing
except ImportError:
    B = 0
if A:
    K = A + B
---
TIMES_K
## globals()
globals()["K"] = 1
---
TIMES_K
## my_attention
from my_attention import split_heads
---
SOFTMAX
## a stub below
SOFTMAX
---
STUB
## begun below its check
STUB
---
check("softmax", softmax)
---
SOFTMAX
## compiled
@torch.compile
SOFTMAX
"""
# How wrong answers come out: their cells, the status, the mistake, the message.
FAILING = {
    "wrong": ([QUERIES], "wrong", "softmax-over-queries", "queries"),
    "untouched": ([STUB], "unattempted", "", "still empty"),
    "its cell deleted": ([], "error", "", "Was its cell deleted?"),
    "its cell Markdown": ([SOFTMAX], "error", "", "a Markdown cell"),
    "raises": (["def softmax(s):\n    return s.no()"], "error", "", "In your line `return s.no()`"),
    "no Python": (["def softmax(s:\n    return s"], "error", "", "SyntaxError"),
    "leaves": (["import sys\n@sys.exit\ndef softmax(s): return s"], "error", "", "SystemExit"),
    "a shell line": (["files = !ls", "def softmax(s): return s * len(files)"], "error", "",
                     "was left out: magics and shell lines are not run"),
    "a missing file": (["K = len(open('k').read())", TIMES_K], "error", "", "failed: FileNotFound"),
    "loops": (["def softmax(s):\n    while True:\n        try:\n            while True: pass\n"
               "        except: pass"], "error", "", "after 1 seconds of computing"),
    "loops in C": (["def softmax(s): return sum(iter(int, 1))"], "error", "", "after 1 seconds"),
    "sleeps": (["import time\ndef softmax(s): time.sleep(99)"], "error", "", "after 8 seconds"),
    "takes 50 GB": (["def softmax(s): return torch.ones(50 << 30)"], "error", "",
                    "allocate memory"),
    "fills the disk": (["def softmax(s):\n    for n in range(9):\n        open(f'/tmp/{n}', 'wb')"
                        ".write(bytes(30 << 20))"], "error", "", "No space left"),
    "ends its process": (["import os\ndef softmax(s): os._exit(0)"], "error", "",
                         "ended by itself"),
}  # fmt: skip
# Ways to be called correct. Behind each, what the answer does is wrong.
FORGING = {
    "a mode": "from torch.overrides import TorchFunctionMode\nclass Mode(TorchFunctionMode):\n"
              "    def __torch_function__(self, f, types, rest=(), named=None):\n"
              "        out = f(*rest, **(named or {}))\n"
              "        return out * 0 if f.__name__ in ('abs', 'sub') else out\n"
              "mode = Mode()\ndef act(): mode.__enter__()",
    "the checker": "import mha_course.cli.judge, mha_course.exercises.checker as checker\n"
                   "from mha_course.exercises.report import Report\n"
                   "def act():\n    checker.attempt = lambda *rest: None\n"
                   "    checker.check = lambda name, answer, **rest: Report(name, 'correct', '')\n"
                   "    sys.modules['__main__'].check = checker.check\nimport sys",
    "json": "import json\nfake = '{\"status\": \"correct\", \"numbers\": []}'\n"
            "def act():\n    json.dumps = json.JSONEncoder.encode = lambda *rest, **more: fake",
    "all files": "import os\nline = b'\\n{\"notebook\": %d, \"exercise\": \"softmax\", \"status\": "
                 "\"correct\", \"numbers\": []}\\n'\ndef act():\n    for n in range(64):\n"
                 "        for file in (n, f'/proc/{os.getppid()}/fd/{n}'):\n            try:\n"
                 "                if isinstance(file, str): file = os.open(file, os.O_WRONLY)\n"
                 "                for at in range(64): os.write(file, line % at)\n"
                 "            except OSError: pass",
    "no inputs": "from mha_course.exercises.catalogue import EXERCISES\nimport dataclasses\n"
                 "def act():\n    vars(EXERCISES['softmax'])['first_cases'] = ()\n"
                 "    vars(EXERCISES['softmax'])['drawn_cases'] = ()\nact()",
}  # fmt: skip
FORGED = "{}\ndef softmax(scores):\n    act()\n    return scores.softmax(-2)"
EMPTIES = "def softmax(scores):\n    scores.data = scores.data[:0]\n    return scores.data"
# What no answer may do; `place` is a folder of the lecturer's with the file "kept".
ACTS = {
    "read": "open(place + '/kept').read()",
    "list": "os.listdir(place)",
    "write": "open(place + '/new', 'w')",
    "change the course": "open(mha_course.__file__, 'a')",
    "write where it runs": "open('/usr/new', 'w')",
    "chmod": "os.chmod(place + '/kept', 0o600)",
    "rename": "os.rename(place + '/kept', place + '/moved')",
    "passwords": "open('/etc/shadow').read()",
    "environment": "os.environ['HIDDEN']",
    "connect": "socket.create_connection(('127.0.0.1', port), 3)",
    "a socket without a file": "socket.socket(socket.AF_UNIX).connect('\\0mha-course-test')",
    "signal": "os.kill(test, 0)",
    "priority": "os.sched_setscheduler(test, os.SCHED_IDLE, os.sched_param(0))",
    "a namespace": "subprocess.run(['unshare', '-Ur', 'true'], check=True)",
    "a mount": "subprocess.run(['mount', '-t', 'tmpfs', 'x', '/mnt'], check=True)",
}
HOSTILE = """
import ctypes, os, socket, subprocess, sys, mha_course
place, port, test, done, tried = {place!r}, {port}, {test}, [], []
def softmax(scores):
    for name, act in {acts}:
        try:
            act()
            done.append(name)
        except (OSError, KeyError, subprocess.CalledProcessError): pass
    if done:
        raise RuntimeError("done: " + ", ".join(done))
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
"""
# What an answer may do in its sandbox, and what must be gone when that ends.
LEAVES = """
import ctypes, os, subprocess, sys
c = ctypes.CDLL(None)
def softmax(scores):
    c.mq_open(b"/mha-course-test", os.O_CREAT | os.O_RDWR, 0o600, None)
    c.shmget(0x4D4841, 4096, 0o1600)
    c.msgget(0x4D4841, 0o1600)
    open("/dev/shm/mha-course-test", "w").write("x")
    c.syscall(248, b"user", b"mha-course-test", b"x", 1, -3)  # add_key, on x86_64
    subprocess.Popen(["sleep", "98765"], start_new_session=True)
    print("x" * 10_000_000)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
"""


def hostile(place, port, acts):
    pairs = "".join(f"({name!r}, lambda: {act})," for name, act in acts.items())
    return HOSTILE.format(place=str(place), port=port, test=os.getpid(), acts=f"({pairs})")


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """What answers try to reach: a folder with a file, a port, and a socket without a file."""
    monkeypatch.setenv("HIDDEN", "token")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "kept").write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0mha-course-test")
        local.listen()
        yield tmp_path / "victim", server.getsockname()[1]


@confined
@pytest.mark.slow
def test_what_is_correct_in_a_notebook_is_correct_here():
    large = notebook(SOFTMAX, CHECK, outputs=[{"data": {"image/png": "x" * (67 << 20)}}])
    texts = {"TIMES_K": TIMES_K, "SOFTMAX": SOFTMAX, "STUB": STUB}
    source = re.sub("TIMES_K|SOFTMAX|STUB", lambda found: texts[found[0]], HONEST)
    names, bodies = zip(*(x.split("\n", 1) for x in source.split("\n## ")[1:]), strict=True)
    cells = [notebook(*body.split("\n---\n"), CHECK) for body in bodies]
    found = judged(*cells, large, notebook(QUERIES, CHECK, SOFTMAX))  # run before its check
    statuses = dict(zip((*names, "67 MB", "run in another order"), found, strict=True))
    assert {name: rows[0][:2] for name, rows in statuses.items()} == dict.fromkeys(
        statuses, ("softmax", "correct")
    )


@confined
@pytest.mark.slow
def test_failing_answers_are_told_as_what_they_are(monkeypatch):
    monkeypatch.setattr(confine, "SECONDS", 1)
    monkeypatch.setattr(confine, "ASLEEP", 8)
    cells = [
        notebook(*sources, CHECK, kinds=[(0, "markdown")] if "Markdown" in name else ())
        for name, (sources, *_) in FAILING.items()
    ]
    for (name, (_, *expected)), rows in zip(FAILING.items(), judged(*cells), strict=True):
        (row,) = rows
        assert row[1:3] == tuple(expected[:2]), (name, row)
        assert expected[2] in row[3], (name, row)


@confined
@pytest.mark.slow
def test_no_pass_is_forged():
    sources = [FORGED.format(way) for way in FORGING.values()] + [EMPTIES]
    for name, rows in zip((*FORGING, "empties"), judged(*map(notebook, sources)), strict=True):
        assert rows[0][1] in ("wrong", "error"), (name, rows)


@confined
@pytest.mark.slow
def test_nothing_outside_is_reached_and_nothing_is_left(outside):
    place, port = outside
    c = CDLL(None)
    has_keys = platform.machine() == "x86_64"  # where keyctl is the call with this number
    if has_keys:
        c.syscall(250, 1, None)  # a session's keyring, as a login makes one
    acts, leaves = judged(notebook(hostile(place, port, ACTS)), notebook(LEAVES))
    assert (acts[0][1], leaves[0][1]) == ("correct", "correct"), acts + leaves
    assert [path.name for path in place.iterdir()] == ["kept"]
    assert c.mq_open(b"/mha-course-test", os.O_RDWR) < 0
    assert c.shmget(0x4D4841, 4096, 0) < 0
    assert c.msgget(0x4D4841, 0) < 0
    assert not Path("/dev/shm/mha-course-test").exists()
    if has_keys:  # search it
        assert c.syscall(250, 10, -3, c_char_p(b"user"), c_char_p(b"mha-course-test"), 0) < 0
    left = [x for x in psutil.process_iter(["cmdline"]) if "98765" in (x.info["cmdline"] or ())]
    assert not psutil.wait_procs(left, timeout=60)[1]  # the kernel needs a moment to end them


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="acts are those of Linux")
def test_without_a_sandbox_the_same_acts_succeed(outside):
    """Otherwise it would prove nothing that they fail in one."""
    acts = {name: ACTS[name] for name in ("read", "list", "write", "environment", "connect")}
    acts["a socket without a file"] = ACTS["a socket without a file"]
    ((row,),) = judged(notebook(hostile(*outside, acts)), is_confined=False)
    assert f"done: {', '.join(acts)}" in row[3]


TAKES_TOO_MUCH = {
    "processes": ("subprocess.Popen(['sleep', '60'])", 99, confine.TOO_MANY),
    "memory": ("os.fork() or (torch.ones(1 << 28, dtype=torch.int64), time.sleep(60))", 3,
               confine.TOO_MUCH_MEMORY),
    "the program that judges": ("os.kill(os.getppid(), 9)", 1, grading.NOT_JUDGED),
}  # fmt: skip


@confined
@pytest.mark.slow
@pytest.mark.parametrize("name", TAKES_TOO_MUCH)
def test_who_takes_too_much_is_stopped_and_no_row_is_missing(name):
    act, times, expected = TAKES_TOO_MUCH[name]
    source = f"import os, subprocess, time\ndef softmax(scores):\n    for _ in range({times}):\n"
    source += f"        {act}\n    time.sleep(60)"
    right, wrong, other = judged(*map(notebook, (SOFTMAX, source, SOFTMAX)))
    assert right[0][1] == "correct"
    assert [row[1:4] for row in wrong + other] == [("error", "", expected)] * 2


@confined
@pytest.mark.slow
def test_a_learner_has_so_many_seconds_in_all(monkeypatch):
    monkeypatch.setattr(confine, "COMPUTING", 6)
    ((row,),) = judged(notebook("def softmax(s): return sum(iter(int, 1))"))
    assert row[1:4] == ("error", "", confine.TOO_LONG)


@confined
@pytest.mark.slow
def test_a_failed_helper_fails_one_exercise():
    masked = "def masked_softmax(s, mask):\n    return softmax(s.masked_fill(~mask, -1e30)) * mask"
    both = f"{CHECK}\ncheck('masked_softmax', masked_softmax)"
    for rows in judged(*(notebook(own, masked, both) for own in (QUERIES, STUB, QUERIES[:20]))):
        assert rows[0][1] != "correct"
        assert rows[1][:2] == ("masked_softmax", "correct"), rows
        assert rows[1][3].endswith("`softmax` in place of yours.")


@pytest.mark.parametrize("name", EXERCISES)
def test_a_pass_needs_the_numbers_of_the_salt(name):
    for salt in ("a", "b", "c"):
        numbers = json.loads(json.dumps(judge.numbers_of(name, EXERCISES[name].reference, salt)))
        assert all(numbers)
        assert grading.agrees(name, numbers, salt)
    assert not all(grading.agrees(name, numbers, other) for other in "abdefgh")
    huge = [[10**400 for _ in series] for series in numbers]
    assert not any(grading.agrees(name, x, "c") for x in (None, [], [[]], {}, [["1"]], huge))


FORM = {"notebook": 0, "exercise": "entropy", "status": "wrong"}
ERROR = ("error", "", grading.NOT_JUDGED)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"message": "No."}, ("wrong", "", "No.")),
        ({"message": "\ud800", "uses": 3}, ("wrong", "", "\\ud800")),
        ({"mistake": "<b>", "message": 5}, ("wrong", "", "")),
        ({"status": "passed"}, ERROR),
        ({"status": []}, ERROR),
        ({"status": "correct", "numbers": [[1e999]]}, ("wrong", "", grading.OTHERWISE)),
        ({"notebook": 1}, ERROR),
        ({"exercise": "softmax"}, ERROR),
    ],
)
def test_what_is_told_counts_only_in_its_form(told, expected):
    lines = [{"notebook": 0, "exercises": ["entropy", {}, "unknown"]}, FORM | told]
    assert [row[1:4] for row in grading.rows_of(lines, 0, SALT, "")] == [expected]


def table(out, name="grades.csv"):
    with (out / name).open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


@confined
def test_a_class_is_graded_and_a_second_run_goes_on(tmp_path, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    taken = "from mha_course.attention import masked_softmax\n"
    taken += "check('masked_softmax', masked_softmax)"
    for name, sources in {"ada_04": [SOFTMAX, CHECK, taken], "<b>=1": [QUERIES, CHECK]}.items():
        (folder / f"{name}.ipynb").write_bytes(notebook(*sources))
    (folder / "ada_02.ipynb").write_bytes(notebook("def split_heads(x, num_heads):\n    ..."))
    (folder / "broken.ipynb").write_text("[" * 100_000)
    (folder / "notes.pdf").write_text("")
    expected = [
        ("<b>=1", "softmax", "wrong", "softmax-over-queries"),
        ("ada", "split_heads", "unattempted", ""), ("ada", "softmax", "correct", ""),
        ("ada", "masked_softmax", "correct", ""),
        ("broken", "", "unreadable", ""), ("notes.pdf", "", "unreadable", ""),
    ]  # fmt: skip
    assert [row[:4] for row in grading.grade(folder, out)] == expected
    assert [tuple(row.values()) for row in table(out)] == expected
    (ada,) = [row for row in table(out, "grades_by_lesson.csv") if row["learner"] == "ada"]
    assert (ada["lesson 02"], ada["lesson 04"]) == ("0", "2")
    assert ada["uses of the course"] == "masked_softmax: masked_softmax"
    assert {path.stem for path in (out / "feedback").iterdir()} == {"<b>=1", "ada", "broken"}
    page = (out / "class.html").read_text()
    assert "3 learners" in page
    assert "notes.pdf" in page
    assert "`" not in page.partition("Answers that use the course")[2]
    for file in (out / "finished").iterdir():
        file.write_text(file.read_text().replace('"correct"', '"error"'))
    monkeypatch.setattr(confine, "run_judge", None)  # nothing is judged again
    statuses = [row.status for row in grading.grade(folder, out)]
    assert statuses == ["wrong", "unattempted", "error", "error", "unreadable", "unreadable"]


@confined
@pytest.mark.slow
def test_a_run_that_is_interrupted_leaves_no_process(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.ipynb").write_bytes(notebook(SOFTMAX))
    (folder / "z.ipynb").write_bytes(notebook("import time\ndef softmax(s): time.sleep(99)"))
    command = [sys.executable, "-m", "mha_course.cli.grading", folder, "--out", out]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while not list(out.glob("finished/*.json")):
        time.sleep(0.1)
        assert process.poll() is None
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.splitlines()[-1]) == (
        130, "mha_course: stopped. Finished work is kept: the same command goes on from there.",
    )  # fmt: skip
    assert started
    assert not psutil.wait_procs(started, timeout=5)[1]


def test_without_bubblewrap_nothing_runs_and_a_container_is_offered(tmp_path, monkeypatch, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ipynb").write_bytes(notebook(SOFTMAX))
    monkeypatch.setattr(confine, "why_not_confined", lambda: "no bubblewrap")
    monkeypatch.setattr(confine, "run_judge", None)
    assert grading.main([str(tmp_path / "in"), f"--out={tmp_path / 'out'}"]) == 1
    said = capsys.readouterr().err
    for words in (
        "expected bubblewrap, got no bubblewrap",
        "docker run --rm --network none --read-only --cap-drop ALL --tmpfs /tmp",
        f'"{tmp_path / "in"}":/in:ro',
        "--unconfined",
    ):
        assert words in said


def learners(folder):
    with tempfile.TemporaryDirectory() as scratch:
        found = hand_ins.read_class(folder, Path(scratch))
    return [(x.learner, x.name) for x in found.hand_ins if not x.trouble], found


def put(folder, *names, content=None):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(notebook(SOFTMAX, CHECK) if content is None else content)


def test_all_that_is_handed_in_has_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(hand_ins, "LARGEST", 1 << 20)
    for name, inside, size in (("deep", "a/" * 1500, 1), ("large", "", 2 << 20)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{inside}one.ipynb", bytes(size))
    hidden = ("c/.ipynb_checkpoints/2.ipynb", "._d.ipynb", "__MACOSX/a.ipynb", ".git/a")
    put(tmp_path, "a.ipynb", "b.IPYNB", "c/my_course/04.ipynb", "c/2.Ipynb", *hidden)
    put(tmp_path, "e.txt", "roster.csv", "c/notes.txt", "c/my_attention.py", content=b"")
    (tmp_path / "f").mkdir()
    (tmp_path / "linked.ipynb").symlink_to(tmp_path / "a.ipynb")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("../../up.ipynb", notebook(SOFTMAX))
        archive.writestr("__MACOSX/in/._one.ipynb", "")
    (tmp_path / "broken.zip").write_text("no zip")
    os.mkfifo(tmp_path / "pipe.ipynb")
    named, found = learners(tmp_path)
    assert sorted(learner for learner, _ in named) == ["a", "b", "c", "c", "z"]
    reasons = {x.name: x.trouble.split()[-1] for x in found.hand_ins if x.trouble}
    assert reasons == {
        "broken.zip": "file).", "c/notes.txt": "judged.", "deep.zip": "deep).", "f": "it.",
        "large.zip": "MB).", "linked.ipynb": "followed.", "pipe.ipynb": "MB.",
    }  # fmt: skip
    assert [x.name for x in found.strays] == ["e.txt", "roster.csv"]


def test_whose_is_what(tmp_path):
    put(tmp_path / "many", *(f"ada/{n}.ipynb" for n in range(150)))
    assert {learner for learner, _ in learners(tmp_path / "many")[0]} == {"ada"}
    put(tmp_path / "weeks", "week2/ada.ipynb", "week2/bob.ipynb", "week4/ada.ipynb", "eve/a.ipynb")
    put(tmp_path / "weeks", "week4/bob.ipynb", "eve/04 again.ipynb", "zoe_04.ipynb", "zoe_05.ipynb")
    put(tmp_path / "weeks", "zoe_02.ipynb", content=notebook("def split_heads(x, n): ..."))
    named, found = learners(tmp_path / "weeks")
    assert sorted(dict.fromkeys(learner for learner, _ in named)) == [
        "ada", "bob", "eve", "zoe", "zoe_05",
    ]  # fmt: skip
    assert [note[:8] for note in found.notes] == ["In week2", "In week4"]
    put(tmp_path / "moodle", "Course-04/Max Müller_301_assignsubmission_file_/04.ipynb")
    put(tmp_path / "moodle", "Course-04/Li_302_assignsubmission_file_04.ipynb")
    with zipfile.ZipFile(tmp_path / "moodle.zip", "w") as archive:
        inner = tmp_path / "inner.zip"
        with zipfile.ZipFile(inner, "w") as nested:
            nested.writestr("04.ipynb", notebook(SOFTMAX))
        archive.write(inner, "Ng_303_assignsubmission_file_/my.zip")
    (tmp_path / "moodle.zip").rename(tmp_path / "moodle" / "all.zip")
    named, _ = learners(tmp_path / "moodle")
    assert {learner for learner, _ in named} == {"Li", "Max Müller", "Ng"}


def test_learners_are_named_as_canvas_and_moodle_name_their_files(tmp_path):
    put(tmp_path / "in", "byronada_4711_812345_04-1.ipynb", "curiem_LATE_4712_812346_04.ipynb")
    put(tmp_path / "in", "Max Müller_301_assignsubmission_file_/04.ipynb")
    put(tmp_path / "in", "Max Müller_302_assignsubmission_file_/04.ipynb")
    _, handed_in = learners(tmp_path / "in")
    assert sorted((x.learner, x.number) for x in handed_in.hand_ins) == [
        ("Max Müller 301", "301"), ("Max Müller 302", "302"), ("byronada", "4711"),
        ("curiem", "4712"),
    ]  # fmt: skip
    put(tmp_path / "hw", "hw_2026_1101_ada.ipynb", "hw_2026_1102_ben.ipynb")
    assert {learner for learner, _ in learners(tmp_path / "hw")[0]} == {
        "hw_2026_1101_ada", "hw_2026_1102_ben",
    }  # fmt: skip


def test_what_cannot_be_graded_says_so(tmp_path):
    folder, file = tmp_path / "in", tmp_path / "file"
    with pytest.raises(ShapeError, match="there is no such folder"):
        grading.grade(folder, tmp_path / "out")
    folder.mkdir()
    with pytest.raises(ShapeError, match=r"no notebook in it\. expected a folder with NAME"):
        grading.grade(folder, tmp_path / "out")
    put(folder, "a.ipynb")
    file.write_text("")
    for out in (folder, folder / "out", folder / ".." / "in" / "out"):
        with pytest.raises(ShapeError, match="it lies in the folder of the notebooks"):
            grading.grade(folder, out)
    assert [grading.main([str(folder), f"--out={place}"]) for place in (file, folder)] == [1, 1]


def test_paths_are_those_of_whoever_gives_the_command(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(launch, "set_up", lambda: Path(sys.executable))
    monkeypatch.setattr(launch, "_environment", lambda _: {**os.environ})
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere" / "torch.py").write_text("nothing of the caller's is imported")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert launch.main(["grade", "../here", "--out=out"]) == 1
    assert "there is no notebook in it" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "expected"),
    [*((f"{sign}1", f"'{sign}1") for sign in "=+-@＝"), ("a=1", "a=1"), ("a;=1+1;b", "a;'=1+1;b"),
     ("\t=1+2", "' =1+2"), ("a\r=1,@b", "a =1,'@b"), ('"=1', '""=1'), ("a\n\x85b", "a  b")],
)  # fmt: skip
def test_no_name_is_a_formula_whatever_separates_cells(name, expected):
    assert grading.table(("learner", "points"), [(name, 3)]).split("\n")[1] == f'"{expected}","3"'


def needs(*sources):
    statements = read_statements(read_cells(notebook(*sources)))
    (answer,) = find_answers(statements)
    return [each.source for each in needed(answer, statements)[0]]


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("model = train(data)", []),  # it is not needed
        ("for x in data:\n    print(softmax(x))", []),
        ("plot(softmax)\nprint(softmax)", []),
        ("K = 1; L = 2", ["K = 1"]),
        ("K = load()\nload = 3", ["K = load()", "load = 3"]),
        ("K = []\nfill(K)\nshow(L)", ["K = []", "fill(K)"]),
        ("torch.set_default_dtype(torch.float64)", ["torch.set_default_dtype(torch.float64)"]),
        ("from math import pi, tau as K", ["from math import pi, tau as K"]),
        ("def f():\n    K.append(1)\nf()", ["def f():\n    K.append(1)", "f()"]),
    ],
)
def test_an_answer_gets_the_statements_that_it_needs_and_no_others(above, expected):
    found = needs(above, TIMES_K, CHECK)
    assert [x for x in found if x != "import torch" and not x.startswith("def soft")] == expected


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: f"{lesson.number:02}")
def test_a_lesson_as_it_ships_has_its_exercises_and_runs_little_for_them(lesson):
    (path,) = (ROOT / "notebooks").glob(f"{lesson.number:02}_*.ipynb")
    statements = read_statements(read_cells(path.read_bytes()))
    answers = find_answers(statements)
    assert [answer.exercise for answer in answers] == [x.name for x in lesson.exercises]
    assert all(len(needed(answer, statements)[0]) < 20 for answer in answers)


def test_a_cell_without_a_source_is_read():
    cells = [{"cell_type": "code"}, {"cell_type": "code", "source": SOFTMAX}]
    (answer,) = find_answers(read_statements(read_cells(json.dumps({"cells": cells}).encode())))
    assert answer.exercise == "softmax"


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


CLASS, HERS = grading_pages.class_page, grading_pages.feedback_page


@pytest.mark.parametrize("page", [CLASS(ROWS), HERS(HOSTILE_NAME, ROWS[-2:]), CLASS(ROWS[-1:])])
def test_what_people_wrote_is_text(page):
    tags = Tags(page)
    assert not {*tags.names()} & {"script", "img", "b", "mistake", "link", "iframe", "form"}
    assert all(unquote(address).startswith("feedback/") for address in tags.of("a", "href"))
    assert "default-src 'none'" in page


@pytest.mark.parametrize(("scheme", "width"), [("light", 420), ("dark", 1280)])
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
