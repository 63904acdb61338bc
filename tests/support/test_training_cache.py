"""What is kept of training: used again only while nothing changed that has a part in it."""

import importlib.util

import pytest
import torch
from training_cache import train_once

START = """
import torch
calls = []
def train(seed, steps=1):
    calls.append(seed)
    return torch.nn.Linear(steps, seed)
"""


@pytest.fixture
def course(tmp_path):
    """A small course, and a function that trains and counts how often."""
    for folder in ("models", "widgets"):
        (tmp_path / "mha_course" / folder).mkdir(parents=True)
    (tmp_path / "start.py").write_text(START)
    spec = importlib.util.spec_from_file_location("start", tmp_path / "start.py")
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)

    def train(*args, **kwargs):
        return train_once(start.train, *args, folder=tmp_path / "kept", root=tmp_path, **kwargs)

    return tmp_path, train, start.calls


def test_what_was_trained_is_not_trained_again(course):
    _, train, calls = course
    first, second = train(2), train(2)
    assert calls == [2]
    assert torch.equal(first.weight, second.weight)
    assert train(2, steps=4).weight.shape == (2, 4)
    assert train(3).weight.shape == (3, 1)
    assert calls == [2, 2, 3]


TIMES = {
    "start.py": 2, "mha_course/models/blocks.py": 2, "mha_course/masks.py": 2,
    "mha_course/widgets/base.py": 1,
    "torch": 2,
}  # fmt: skip


@pytest.mark.parametrize("changed", TIMES)
def test_it_is_trained_again_where_what_changed_may_have_a_part_in_it(course, monkeypatch, changed):
    folder, train, calls = course
    train(2)
    if changed == "torch":
        monkeypatch.setattr(torch, "__version__", "2.6.0")
    else:
        (folder / changed).write_text(START + "# changed")
    train(2)
    train(2)
    assert calls == [2] * TIMES[changed]


def test_arguments_that_say_nothing_of_themselves_are_refused(course):
    _, train, _ = course
    with pytest.raises(ValueError, match="known by what they say of themselves"):
        train(object())
