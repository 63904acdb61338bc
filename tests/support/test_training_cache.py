"""What is kept of training: used again only while nothing changed that has a part in it."""

import importlib.util

import pytest
import torch
from training_cache import ROOT, sources, train_once

FILES = {
    "mha_course/__init__.py": "",
    "mha_course/models/__init__.py": "from mha_course.models.blocks import width",
    "mha_course/models/blocks.py": "from ..sizes import width",
    "mha_course/sizes.py": "width = 3",
    "mha_course/other.py": "",
    "start.py": (
        "import torch\nfrom mha_course import models\ncalls = []\n"
        "def train(seed, steps=1):\n    calls.append(seed)\n    return torch.nn.Linear(steps, seed)\n"
    ),
}


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A small course, and a function that trains and counts how often."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    spec = importlib.util.spec_from_file_location("start", tmp_path / "start.py")
    start = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(tmp_path)
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


@pytest.mark.parametrize("name", [name for name in FILES if name != "mha_course/other.py"])
def test_a_changed_source_is_trained_again(course, name):
    folder, train, calls = course
    train(2)
    (folder / name).write_text(FILES[name] + "\n# changed")
    train(2)
    train(2)
    assert calls == [2, 2]


def test_a_source_that_has_no_part_in_it_changes_nothing(course):
    folder, train, calls = course
    train(2)
    (folder / "mha_course/other.py").write_text("# changed")
    train(2)
    assert calls == [2]


def test_another_torch_trains_again(course, monkeypatch):
    _, train, calls = course
    train(2)
    monkeypatch.setattr(torch, "__version__", "2.6.0")
    train(2)
    assert calls == [2, 2]


def test_arguments_that_say_nothing_of_themselves_are_refused(course):
    _, train, _ = course
    with pytest.raises(ValueError, match="known by what they say of themselves"):
        train(object())


def test_all_that_a_language_model_is_made_of_has_a_part_in_it():
    package = ROOT / "mha_course"
    found = sources(package / "models" / "language.py")
    for name in ("models/language.py", "models/__init__.py", "models/blocks.py", "attention.py", "datasets/grammar.py"):
        assert package / name in found
    assert not [path for path in found if "widgets" in path.parts or "exercises" in path.parts]
