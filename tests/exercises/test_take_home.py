"""What a learner keeps: a module with each answer that passed, and everything it needs."""

import ast
import linecache
import sys
import threading
import time
from unittest import mock

import pytest
import torch

from mha_course.exercises import check, take_home
from mha_course.exercises.catalogue import EXERCISES

IMPORTS = "import math\nimport torch\nfrom torch.nn import functional as F\n"
SCORES = "def scaled_scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5\n"
SOFTMAX = """
LOW = -1e4

def largest(z):
    return z.amax(-1, keepdim=True)  # of a row

def softmax(scores):
    '''Turn rows into shares.'''
    exponentials = (scores - largest(scores)).clamp(min=LOW).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)
"""


@pytest.fixture
def notebook():
    """Run cells as a kernel does: their sources can be found again, and they share their names."""
    names, files = {"__name__": "__main__"}, []

    def run(*cells):
        for cell in cells:
            files.append(f"<cell {len(files)} of {id(names)}>")
            linecache.cache[files[-1]] = (len(cell), None, cell.splitlines(True), files[-1])
            exec(compile(cell, files[-1], "exec"), names)
        return names

    yield run
    for file in files:
        del linecache.cache[file]


def loaded(file):
    """Import a module again, as another notebook does."""
    names = {"__name__": take_home.MODULE}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names


@pytest.fixture
def file(tmp_path):
    return tmp_path / "my_attention.py"


def test_an_answer_brings_what_it_names_and_comes_in_the_order_of_lessons(notebook, file):
    names = notebook(IMPORTS, SOFTMAX, SCORES)
    for name in ("softmax", "scaled_scores"):
        assert take_home.write(name, names[name], file) == "It is kept in my_attention.py."
    text = file.read_text()
    assert text.index("region scaled_scores, lesson 3") < text.index("region softmax, lesson 4")
    assert "# of a row" in text
    assert "'''Turn rows into shares.'''" in text
    for name in ("softmax", "scaled_scores"):
        assert check(name, loaded(file)[name], record=False).status == "correct"


def test_a_type_without_a_name_of_its_own_is_imported_by_the_name_it_was_given(notebook, file):
    cell = "def causal_mask(n, device: Device = None):\n    return torch.ones(n, n).tril() > 0\n"
    made = notebook(IMPORTS + "from torch.types import Device\n", cell)["causal_mask"]
    assert take_home.write("causal_mask", made, file) == "It is kept in my_attention.py."
    assert "from torch.types import Device\n" in file.read_text()
    assert check("causal_mask", loaded(file)["causal_mask"], record=False).status == "correct"


def test_an_older_version_is_replaced_and_all_other_text_stays(notebook, file):
    take_home.write("softmax", notebook(IMPORTS, SOFTMAX)["softmax"], file)
    mine = "\n\nPLANS = 'to read again'  # mine\n"
    file.write_text(file.read_text() + mine)
    again = "def softmax(scores):\n    return F.normalize((scores - 3).exp(), p=1, dim=-1)\n"
    take_home.write("softmax", notebook(again)["softmax"], file)
    text = file.read_text()
    assert text.count("def softmax") == 1
    assert "largest" not in text
    assert text.endswith(mine)
    assert torch.allclose(loaded(file)["softmax"](torch.eye(3)), torch.eye(3).softmax(-1))


def test_helpers_of_one_name_and_other_texts_both_stay(notebook, file):
    take_home.write("softmax", notebook(IMPORTS, SOFTMAX)["softmax"], file)
    cell = """
def largest(w):
    return w.clamp(min=1e-30).log()  # to be multiplied

def entropy(weights):
    named = dict(largest=largest(w=weights))
    return -(weights * named["largest"]).sum(-1)
"""
    take_home.write("entropy", notebook(cell)["entropy"], file)
    names = loaded(file)
    assert names["largest"](torch.eye(2)).shape == (2, 1)
    assert "def largest_2(w):" in file.read_text()
    for name in ("softmax", "entropy"):
        assert check(name, names[name], record=False).status == "correct"


def test_a_name_is_that_of_its_own_answer_whatever_was_kept_before(notebook, file):
    cell = """
from math import sqrt
from mha_course.attention import split_heads

CALLS = 0

def softmax(z):
    global CALLS
    CALLS += 1
    return z + sqrt(16)

def attend(x):
    return split_heads(softmax(x), 2)
"""
    take_home.write("attend", notebook(cell)["attend"], file)
    split = "from torch import sqrt\ndef split_heads(x, num_heads):\n    return sqrt(x)\n"
    for name, own in {"softmax": IMPORTS + SOFTMAX, "split_heads": split}.items():
        take_home.write(name, notebook(own)[name], file)
    names = loaded(file)
    assert names["attend"](torch.zeros(1, 3, 4)).tolist() == torch.full((1, 2, 3, 2), 4.0).tolist()
    assert names["softmax"](torch.zeros(2)).tolist() == [0.5, 0.5]
    assert names["split_heads"](torch.tensor(4.0), 1) == 2


def test_an_answer_uses_another_that_is_kept(notebook, file):
    take_home.write("softmax", notebook(IMPORTS, SOFTMAX)["softmax"], file)
    masked = """
def masked_softmax(scores, mask):
    open_scores = scores.masked_fill(~mask, -1e30)
    return softmax(open_scores).masked_fill(~mask, 0.0)
"""
    take_home.write("masked_softmax", notebook(masked)["masked_softmax"], file)
    assert file.read_text().count("def softmax") == 1
    again = loaded(file)["masked_softmax"]
    assert again(torch.zeros(2, 2), torch.eye(2).bool()).tolist() == [[1, 0], [0, 1]]


def test_a_class_a_decorator_and_another_name(notebook, file):
    cell = """
from functools import wraps
from torch import nn

def doubled(fn):
    @wraps(fn)
    def run(*given):
        return fn(*given)
    return run

@doubled
def mine(q, k):
    return q @ k.transpose(-2, -1)

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.scores = mine
"""
    names = notebook(IMPORTS, cell)
    take_home.write("scaled_scores", names["mine"], file)
    take_home.write("MultiHeadAttention", names["MultiHeadAttention"], file)
    kept = loaded(file)
    assert "@doubled" in file.read_text()
    q, k = torch.ones(2, 1, 3, 4), torch.ones(2, 1, 5, 4)
    assert torch.equal(kept["scaled_scores"](q, k), q @ k.mT)
    assert kept["MultiHeadAttention"](24, 4).scores(q, k).shape == (2, 1, 3, 5)


CLOSURE = (
    "def make():\n    def inner(q, k):\n        return q @ k.mT\n    return inner\nmade = make()"
)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("made = lambda q, k: q @ k.mT", "not a function or class at the top level"),
        (CLOSURE, "not a function or class at the top level"),
        ("from functools import partial\nmade = partial(max, 1)",
         "it uses scaled_scores, of type partial"),
        ("table = torch.ones(3)\ndef made(q, k):\n    return q @ k.mT * table[0]",
         "it uses table, of type Tensor"),
        ("def made(q, k):\n    return q @ k.mT\n# endregion\n", ""),
        ("def made(q, k):\n    x = '''\n# endregion\n'''\n    return q @ k.mT",
         "begins with “# region”"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_down_is_told(notebook, file, cell, reason):
    made = notebook(IMPORTS, cell)["made"]
    if not reason:
        take_home.write("scaled_scores", made, file)
        return
    with pytest.raises(take_home.NotKeptError, match=reason):
        take_home.write("scaled_scores", made, file)
    assert not file.exists()


def test_a_helper_that_cannot_be_renamed_is_told_and_nothing_is_lost(notebook, file):
    take_home.write("softmax", notebook(IMPORTS, SOFTMAX)["softmax"], file)
    before = file.read_text()
    cell = "def largest(w):\n    return w\ndef entropy(weights):\n    print(f'{largest(1)}')\n"
    with pytest.raises(take_home.NotKeptError, match="another largest is there already"):
        take_home.write("entropy", notebook(cell)["entropy"], file)
    assert file.read_text() == before


def test_a_file_that_is_no_python_is_set_aside(notebook, file):
    softmax = notebook(IMPORTS, SOFTMAX)["softmax"]
    for number, broken in enumerate((b"def softmax(:\n", b"\xff\n"), start=1):
        file.write_bytes(broken)
        said = take_home.write("softmax", softmax, file)
        aside = file.with_name(f"my_attention.broken-{number}.py")
        assert said.endswith(f"The old file was not valid Python, and is now {aside.name}.")
        assert aside.read_bytes() == broken
        assert "softmax" in loaded(file)


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """A kernel in its own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MHA_COURSE_PROGRESS", raising=False)
    monkeypatch.setattr(take_home, "_in_notebook", lambda: True)
    return tmp_path


def test_two_kernels_at_once_lose_no_answer(notebook, kernel, monkeypatch):
    names, with_region = notebook(IMPORTS, SOFTMAX, SCORES), take_home._with_region

    def slowly(*given):
        time.sleep(0.1)
        return with_region(*given)

    monkeypatch.setattr(take_home, "_with_region", slowly)
    pair = [
        threading.Thread(target=take_home.keep, args=(name, names[name]))
        for name in ("softmax", "scaled_scores")
    ]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    assert {"softmax", "scaled_scores"} <= loaded(kernel / "my_attention.py").keys()


def test_where_nothing_can_be_written_it_is_told(notebook, kernel, monkeypatch):
    softmax = notebook(IMPORTS, SOFTMAX)["softmax"]

    with monkeypatch.context() as patched:
        patched.setattr(take_home, "write", mock.Mock(side_effect=PermissionError("read-only")))
        assert take_home.keep("softmax", softmax) == (
            "It could not be kept in my_attention.py (read-only)."
        )
    monkeypatch.setenv("MHA_COURSE_PROGRESS", "off")
    assert take_home.keep("softmax", softmax) == ""
    assert not (kernel / "my_attention.py").exists()


def test_a_report_says_so_and_the_next_import_has_it(notebook, kernel, monkeypatch):
    monkeypatch.syspath_prepend(str(kernel))
    report = check("softmax", notebook(IMPORTS, SOFTMAX)["softmax"])
    assert report.kept == "It is kept in my_attention.py."
    assert report.kept in report.content()
    assert report.kept in repr(report)
    ast.parse((kernel / "my_attention.py").read_text())
    import my_attention  # noqa: PLC0415

    assert check("softmax", my_attention.softmax, record=False).status == "correct"
    assert check("scaled_scores", max).kept == ""
    check("scaled_scores", notebook(SCORES)["scaled_scores"])
    from my_attention import scaled_scores  # noqa: PLC0415

    assert scaled_scores(torch.ones(1, 2), torch.ones(3, 2)).shape == (1, 3)
    del sys.modules["my_attention"]


@pytest.fixture
def module(file, monkeypatch):
    """Import what a test writes into the file, and forget it afterwards."""
    monkeypatch.syspath_prepend(str(file.parent))
    sys.modules.pop(take_home.MODULE, None)
    yield file
    sys.modules.pop(take_home.MODULE, None)


def test_a_page_takes_what_a_learner_has_kept(module):
    module.write_text("def merge_heads(context):\n    return 'mine'\n")
    assert take_home.solved("merge_heads")(None) == "mine"


@pytest.mark.parametrize(
    ("text", "told"),
    [("", False), ("1 / 0\n", True), ("def (", True), ("import no_such_one\n", True)],
)
def test_a_page_takes_the_course_s_function_where_nothing_is_kept(text, told, module, capsys):
    module.write_text(text)
    assert take_home.solved("merge_heads") is EXERCISES["merge_heads"].reference
    assert ("my_attention.py cannot be imported" in capsys.readouterr().out) == told


def test_a_page_runs_without_the_file(module, capsys):
    assert take_home.solved("merge_heads") is EXERCISES["merge_heads"].reference
    assert capsys.readouterr().out == ""
