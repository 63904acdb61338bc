"""Hints get more specific step by step, and progress is kept, or lost, without ever raising."""

import doctest
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree as ET

import lessons
import pytest
import solutions
import torch
from rewriting import refused
from torch import nn

from mha_course.exercises import catalogue, check, hint_ladder, progress_store
from mha_course.exercises.catalogue import EXERCISES, LESSONS, NAMES, QUESTIONS
from mha_course.exercises.hint_ladder import hint
from mha_course.exercises.progress_store import remember
from mha_course.exercises.progress_table import progress

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {int(path.name[:2]): path for path in lessons.LESSONS}
# What an untrusted notebook shows (JupyterLab's sanitizer), as far as it is used here.
SAFE = "div strong code ol li pre p table caption thead tbody tr th td"


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Run each test in its own folder, before any hint was shown, as a new session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(progress_store.SWITCH, raising=False)
    monkeypatch.setattr(progress_store, "session", progress_store.Session())
    hint_ladder._calls.clear()
    yield
    hint_ladder._calls.clear()


def read_html(html):
    """Return all elements of HTML in which everything that opens is closed, and their text."""
    page = ET.fromstring(f"<div>{html}</div>")
    return [*page.iter()], "".join(page.itertext())


def is_safe(elements):
    attributes = {name for element in elements for name in element.attrib}
    return {element.tag for element in elements} <= {*SAFE.split()} and attributes <= {
        "style",
        "scope",
    }


# The lessons are listed once, and as they are


def test_each_lesson_is_a_folder_and_a_notebook_of_its_name():
    files = sorted((ROOT / "mha_course" / "lessons").glob("l[0-9]*/exercises.py"))
    assert [file.parent.name[1:] for file in files] == [path.stem for path in NOTEBOOKS.values()]
    assert [lesson.number for lesson in LESSONS] == list(NOTEBOOKS) == list(range(len(LESSONS)))


def test_the_catalogue_lists_the_exercises_and_questions_of_all_lessons():
    for lesson, names in zip(LESSONS, catalogue.FOLDERS.values(), strict=True):
        assert [exercise.name for exercise in lesson.exercises] == list(names)
    assert len(set(NAMES)) == len(NAMES)
    assert sum(len(lesson.questions) for lesson in LESSONS) == len(QUESTIONS)


ONE_CHECK = """
import sys
from mha_course.exercises import check, hint, predict, progress, solution
report = check("split_heads", lambda x, h: x.view(len(x), h, x.size(1), -1))
assert report.mistake
print(*{name.split(".")[2] for name in sys.modules if name.startswith("mha_course.lessons.")})
for shown in (report, hint("project"), predict("row-sum"), progress()):
    assert shown._repr_html_()
assert "@" in solution("project")
print(*{"ipywidgets", "anywidget", "matplotlib"} & set(sys.modules))
"""


def test_a_check_loads_the_lesson_of_its_exercise_alone_and_nothing_loads_widgets():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", ONE_CHECK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "l02_head_splitting\n\n"


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_lessons_are_what_the_notebooks_are(number):
    text = lessons.prose(lessons.read(NOTEBOOKS[number]))
    assert text.startswith(f"# {number} · {LESSONS[number].title}\n")
    names = [exercise.name for exercise in LESSONS[number].exercises]
    assert re.findall(r"\*\*Exercise `(\w+)`\*\*", text) == names


# Hints: what they say

# What a learner has around the line of the last hint, where that is not all.
AROUND = {
    "build_subtractor": ("w_q, w_k, w_v, w_o = torch.zeros(4, 3 * d, 3 * d)",
        "return w_q, w_k, w_v, w_o"),
    "find_leaks": ("before = fn(x)\nleaks = torch.zeros(x.size(1), x.size(1), dtype=torch.bool)",
        "return leaks"),
    "multi_head_attention": (
        "q, k, v = (split_heads(x @ w.T, num_heads) for w in (w_q, w_k, w_v))", ""),
    "cross_attention": ("", """\
        scores = scaled_scores(q, k)
        weights = softmax(scores) if memory_mask is None else masked_softmax(scores, memory_mask)
        return merge_heads(weights @ v) @ w_o.T, weights"""),
    "sinusoidal_encoding": ("encoding = torch.zeros(seq_len, d_model, dtype=torch.float64)",
        "return encoding"),
    "rope": ("""\
        rates = base ** -(torch.arange(0, x.size(-1), 2, dtype=x.dtype) / x.size(-1))
        angles = positions[:, None] * rates""", ""),
    "decode_step": ("", """\
        weights = softmax(scaled_scores(q, k_cache))
        return merge_heads(weights @ v_cache) @ w_o.T, k_cache, v_cache"""),
    "online_softmax": ("""\
        running_max = torch.full_like(scores[..., 0], -torch.inf)
        running_sum = torch.zeros_like(running_max)""", "return running_max, running_sum"),
    "generate": ("", "return ids"),
}  # fmt: skip


def complete(name, code):
    """Write the whole answer around the last hint, and run its definition."""
    before, after = (textwrap.dedent(text) for text in AROUND.get(name, ("", "")))
    if name == "tiled_attention":
        loop = "for k_block, v_block in zip(k.split(block_size, 2), v.split(block_size, 2)):\n"
        start = "context = torch.zeros_like(q)\nrunning_sum = torch.zeros_like(q[..., :1])\n"
        before = start + "running_max = torch.full_like(running_sum, -torch.inf)"
        code = loop + textwrap.indent("scores = scaled_scores(q, k_block)\n" + code, "    ")
        after = "return context / running_sum"
    parameters = inspect.signature(EXERCISES[name].reference).parameters.values()
    empty = inspect.Parameter.empty
    signature = ", ".join(str(each.replace(annotation=empty)) for each in parameters)
    body = textwrap.indent("\n".join(filter(None, (before, code, after))), "    ")
    source = f"from __future__ import annotations\ndef answer({signature}):\n{body}\n"
    if name == "MultiHeadAttention":
        source = complete_module(code)
    space = {**vars(solutions), "torch": torch, "nn": nn, "F": nn.functional}
    exec(compile(source, name, "exec"), space)
    return space["answer"]


def complete_module(code):
    """Write a module around the hint, which shows one Linear of the four."""
    init, forward, end = re.split(r"(?m)^# .*\n", code)[1:]
    init += "".join(init.replace("q_proj", other) for other in ("k_proj", "v_proj", "out_proj"))
    forward += forward.replace("q = ", "k = ").replace("q_proj", "k_proj")
    forward += forward.splitlines()[0].replace("q = ", "v = ").replace("q_proj", "v_proj") + "\n"
    steps = "scores = scaled_scores(q, k)\n"
    steps += "weights = softmax(scores) if mask is None else masked_softmax(scores, mask)\n"
    steps += "context = weights @ v\n"
    return "\n".join([
        "class answer(nn.Module):",
        "    def __init__(self, d_model, num_heads):",
        "        super().__init__()",
        "        self.num_heads = num_heads",
        textwrap.indent(init, " " * 8),
        "    def forward(self, x, mask=None):",
        textwrap.indent(forward + steps + end, " " * 8),
    ])  # fmt: skip


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_four_rungs(name):
    rungs = EXERCISES[name].hints
    assert len(rungs) == len(set(rungs)) == 4
    for rung in rungs:
        assert rung.strip() == rung
        assert 0 < len(rung) <= 300
    question, pointer, shape, code = rungs
    assert question.endswith("?")
    assert pointer.endswith((".", "?"))
    assert shape.endswith(".")
    assert re.search(r"\(…|\([A-Z]|[TS]\)|an int\.|\(3d|\(new", shape), "no shape is told"
    assert all(rung.count("`") % 2 == 0 and "\n" not in rung for rung in rungs[:3])
    assert "`" not in code
    compile("def answer():\n" + textwrap.indent(code, "    "), name, "exec")
    decisive = max((line.split("#")[0].strip() for line in code.splitlines()), key=len)
    assert not any(decisive in rung for rung in rungs[:3]), "the line is given away early"


@pytest.mark.parametrize("name", EXERCISES)
def test_last_hints_are_right_by_the_check(name):
    report = check(name, complete(name, EXERCISES[name].hints[3]))
    assert report.status == "correct", report


# Hints: how they climb


def test_each_call_shows_one_rung_more_of_this_exercise_and_the_last_repeats(capsys):
    for count in (1, 2, 3, 4, 4, 4):
        shown = hint("split_heads")
        assert shown.levels == EXERCISES["split_heads"].hints[:count]
        assert f"Hint {count} of 4" in repr(shown)
        assert f"Hint {count} of 4" in shown._repr_html_()
        assert ('hint("split_heads") again shows the next one.' in repr(shown)) == (count < 4)
        assert ("This was the last hint." in repr(shown)) == (count == 4)
    assert len(hint("softmax").levels) == 1
    assert capsys.readouterr() == ("", "")


def test_what_assistants_are_asked_to_run_names_the_mistake_and_the_next_hint():
    path = ROOT / "mha_course" / "data" / "AGENTS.md"
    failed, tried = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried > 4


@pytest.mark.parametrize("name", EXERCISES)
def test_hints_survive_an_untrusted_notebook(name):
    for _ in range(4):
        shown = hint(name)
    elements, text = read_html(shown._repr_html_())
    assert is_safe(elements)
    assert [shown._repr_html_().count(tag) for tag in ("<pre", "<li>")] == [1, 4]
    for rung in shown.levels:
        assert rung.replace("`", "") in text
        assert rung.replace("`", "").splitlines()[0] in repr(shown)


@pytest.mark.parametrize(
    ("name", "got", "fix"),
    [
        ("split_head", "'split_head'", ', fix: hint("split_heads")'),
        (solutions.split_heads, "function", ', fix: hint("split_heads")'),
        ("x" * 1000, "'" + "x" * 59, ""),
        ([], "list", ""),
    ],
)
def test_unknown_names_get_one_error(name, got, fix):
    wanted = f"hint: no exercise has this name. expected {', '.join(NAMES)}, got {got}{fix}"
    refused(lambda: hint(name), wanted)
    assert not hint_ladder._calls


# Progress


LOCK = f"{progress_store.FILE}.lock"  # stays where it was made, empty


def kept():
    return json.loads(Path(progress_store.FILE).read_text(encoding="utf-8"))["exercises"]


def row_of(shown, number):
    return next(row for row in shown.rows if row.number == number)


def test_from_a_wrong_check_to_the_table():
    def stub(x, num_heads): ...

    def crashing(x, num_heads):
        return x @ x

    def wrong(x, num_heads):
        return x

    assert check("split_heads", stub).status == "unattempted"
    assert os.listdir() == [], "what was not attempted is not kept"
    for answer in (wrong, crashing, solutions.merge_heads, 3):  # two are never called
        check("split_heads", answer)
        assert kept()["split_heads"] == {"status": "wrong"}
    assert check("split_heads", ...).status == "unattempted"
    names = ("heads_in_a_loop", "split_heads", "split_fused_qkv", "one_head_queries")
    assert row_of(progress(), 2).open == names
    for answer in (solutions.split_heads, wrong):
        check("split_heads", answer)
        assert row_of(progress(), 2).done == 1, "what is solved stays solved"
    assert kept() == {"split_heads": {"status": "correct"}}


def test_an_example_is_no_attempt():
    assert check("split_heads", lambda x, num_heads: x, record=False).status == "wrong"
    assert check("split_heads", solutions.split_heads, record=False).status == "correct"
    assert os.listdir() == []


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_lesson_that_is_only_run_records_no_attempt(number):
    """The `progress()` output saved in a lesson is the same however often it is run."""
    cells = [cell.source for cell in lessons.code_cells(lessons.read(NOTEBOOKS[number]))]
    whole = [source for source in cells if source.rstrip().endswith("...")]
    stubs = {found[1] for source in whole if (found := re.match(r"(?:def|class) (\w+)", source))}
    calls = re.findall(r'(?m)^(?:report = )?check\("(\w+)", (\w+)(.*)', "\n".join(cells))
    assert len(calls) == "\n".join(cells).count("check(")
    for name, answer, rest in calls:
        is_stub = name == answer and name in stubs
        assert is_stub or rest.startswith(", record=False)"), f"{name} is answered by {answer}"


IN_PART_1 = sum(len(lesson.exercises) for lesson in LESSONS[:8])


def test_an_unsolved_folder_has_an_empty_table_and_no_file(capsys):
    for name in EXERCISES:
        remember(name, "unattempted")
    shown = progress()
    assert os.listdir() == []
    assert shown.note == ""
    assert [name for row in shown.rows for name in row.open] == list(NAMES[:IN_PART_1])
    assert all(row.done == 0 for row in shown.rows)
    assert repr(shown).endswith(f"0 of {IN_PART_1} exercises are done.")
    assert capsys.readouterr() == ("", "")


def test_the_table_tells_what_is_done_and_what_is_open():
    for name in ("split_heads", "attend"):
        remember(name, "correct")
    remember("split_fused_qkv", "wrong")
    shown = progress()
    lines = re.sub(" +", " ", repr(shown)).splitlines()
    assert lines[0] == "0 · Start here 1 of 1"
    open_ones = "heads_in_a_loop, split_fused_qkv, one_head_queries"
    assert lines[2] == f"2 · Head splitting 1 of 4 {open_ones}"
    assert lines[3] == "3 · Scores and scaling 0 of 2 scaled_scores, score_form"
    elements, read = read_html(shown._repr_html_())
    assert is_safe(elements)
    assert "<code>one_head_queries</code>" in shown._repr_html_()
    for text in (repr(shown), read):
        assert f"2 of {IN_PART_1} exercises are done." in text


def test_part_2_is_shown_once_it_is_begun():
    *rows, _ = repr(progress()).splitlines()
    assert [int(row.split()[0]) for row in rows] == [*range(8)]
    assert sum(int(row.split(" of ")[1].split()[0]) for row in rows) == IN_PART_1
    remember("rope", "wrong")
    *rows, total = repr(progress()).splitlines()
    assert len(rows) == sum(1 for lesson in LESSONS if lesson.exercises)
    assert total == f"0 of {len(EXERCISES)} exercises are done."


BROKEN = {
    "half": b'{"exercises": {"project": {"sta',
    "not text": b"\xff\xfe\x00",
    "list": b"[]",
    "exercises are a list": b'{"exercises": ["project"]}',
    "deep": b"[" * 200_000,
    "long number": b'{"exercises": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_means_to_start_afresh_and_say_so(content):
    Path(progress_store.FILE).write_bytes(content)
    shown = progress()
    file = progress_store.FILE
    assert shown.note == f"The file {file} could not be read, so progress starts afresh."
    assert repr(shown).splitlines()[0] == shown.note
    assert shown.note in read_html(shown._repr_html_())[1]
    assert len(repr(shown).splitlines()) == 8 + 2  # Part I, the note, the total
    assert Path(progress_store.FILE).read_bytes() == content, "looking changes nothing"
    remember("project", "correct")
    assert kept() == {"project": {"status": "correct"}}
    assert progress().note == shown.note, "it is told in the session in which it happened"
    progress_store.session.restarted = False
    assert progress().note == ""


def test_odd_entries_are_dropped_and_unknown_names_kept():
    sound = {"status": "wrong"}
    odd = [5, None, {}, {"status": []}, {"status": "splendid"}, {"status": 1}]
    content = {"project": sound | {"attempts": 2}, "of a later course": sound}
    content |= {f"odd {n}": entry for n, entry in enumerate(odd)}
    Path(progress_store.FILE).write_text(json.dumps({"exercises": content}), encoding="utf-8")
    assert progress().note == ""
    remember("project", "error")
    assert kept() == {"project": sound, "of a later course": sound}


UNWRITABLE = "Progress is off, because this folder cannot be written to. Everything else works."


FAILING = {
    **dict.fromkeys(("os.open", "Path.replace", "Path.read_text"), PermissionError(13, "not here")),
    "Path.write_text": OSError(28, "no space left on device"),
}


@pytest.mark.parametrize("place", FAILING)
def test_where_nothing_can_be_read_or_written_progress_is_off(place, monkeypatch):
    remember("softmax", "correct")
    before = Path(progress_store.FILE).read_bytes()
    with monkeypatch.context() as patch:
        fails = mock.Mock(side_effect=FAILING[place])
        patch.setattr(f"mha_course.exercises.progress_store.{place}", fails)
        remember("project", "correct")
        shown = progress()
    assert repr(shown).splitlines()[0] == shown.note == UNWRITABLE
    shows_what_is_there = sum(row.done for row in shown.rows)
    assert shows_what_is_there == (place != "Path.read_text")
    assert sorted(os.listdir()) == [progress_store.FILE, LOCK]
    assert Path(progress_store.FILE).read_bytes() == before
    remember("project", "correct")  # the folder is usable again
    assert (progress().note, set(kept())) == ("", {"project", "softmax"})


def test_a_folder_that_says_it_is_read_only_gets_one_line(monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert repr(progress()) == read_html(progress()._repr_html_())[1] == UNWRITABLE


HOLD = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_kernel_that_hangs_stops_nobody_and_one_that_died_leaves_nothing_locked(monkeypatch):
    remember("softmax", "correct")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, LOCK], stdout=subprocess.PIPE, text=True)
    with holder, holder.stdout:
        try:
            assert holder.stdout.readline() == "held\n"
            with monkeypatch.context() as patch:
                patch.setattr(progress_store, "TIMEOUT", 0.05)
                assert check("project", solutions.project).status == "correct"
            assert set(kept()) == {"softmax"}
            assert progress().note.startswith("Progress is off")
        finally:
            holder.kill()
    assert Path(LOCK).exists()
    remember("project", "correct")
    assert (progress().note, set(kept())) == ("", {"project", "softmax"})


@pytest.mark.parametrize("setting", ["off", "OFF", " Off "])
def test_a_lecturer_switches_it_off(setting, monkeypatch):
    remember("project", "wrong")
    before = Path(progress_store.FILE).read_bytes()
    monkeypatch.setenv("MHA_COURSE_PROGRESS", setting)
    remember("project", "correct")
    assert Path(progress_store.FILE).read_bytes() == before
    line = "Progress is off, because MHA_COURSE_PROGRESS is set to off. Everything else works."
    assert repr(progress()) == line
    assert progress()._repr_html_() == f"<p>{line}</p>"
    Path(progress_store.FILE).write_bytes(b"broken")
    assert repr(progress()) == line
    monkeypatch.setenv("MHA_COURSE_PROGRESS", "on")
    remember("project", "correct")
    assert set(kept()) == {"project"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
@pytest.mark.parametrize("name", [progress_store.FILE, LOCK, f"{progress_store.FILE}.part"])
def test_git_ignores_what_is_kept(name):
    for folder in ("notebooks", "my_course", "."):
        subprocess.run(["git", "check-ignore", "-q", f"{folder}/{name}"], cwd=ROOT, check=True)


@pytest.mark.slow
def test_two_notebooks_at_once_lose_nothing():
    code = (
        "import pathlib, sys, time\n"
        "from mha_course.exercises.progress_store import remember\n"
        "pathlib.Path('ready ' + sys.argv[1]).touch()\n"
        "while len(list(pathlib.Path('.').glob('ready *'))) < 2: time.sleep(0.001)\n"
        "for n in range(150):\n"
        "    remember(f'{sys.argv[1]} {n}', 'correct')\n"
    )
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    space = {**os.environ, "PYTHONPATH": paths}
    writers = [subprocess.Popen([sys.executable, "-c", code, name], env=space) for name in "ab"]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert kept() == {
        f"{name} {n}": {"status": "correct"} for name in ("a", "b") for n in range(150)
    }
    assert sorted(os.listdir()) == [progress_store.FILE, LOCK, "ready a", "ready b"]
