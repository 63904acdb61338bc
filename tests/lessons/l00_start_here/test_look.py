"""The explorer of the trained model answers what is typed, without a kernel as Python would."""

import numpy as np
import pytest
import torch

from mha_course import example
from mha_course.datasets.grammar import sentences, vocabulary
from mha_course.lessons.l00_start_here.masked_word_model import Look
from mha_course.plots import figures
from mha_course.widgets import HeadExplorer
from mha_course.widgets.base import DECK_VIEW

TYPED = (
    *(" ".join(text.words) for split in ("train", "test") for text in sentences(2, split, 7)),
    *(" ".join(example.SENTENCE.split()[:length]) for length in (2, 11)),
    "<mask> cat <pad>",
    "The grey cat, that slept.",
    "the loud dogs that chased the grey cat were hungry , so they ate",
    "the cat",
    "cat",
    "the the the cat",
    *(f"the {typo} cat" for typo in ("cta", "hungryy,", "x" * 30, "ITS", "zz", "<maks>")),
    *(word[1::-1] + word[2:] for word in vocabulary() if word[:2] != word[1::-1]),
    "the grey cat was hungry",
    "",
    "cat " * 16,
)
STATE = """() => {
  const { numbers, ...state } = model.state.state;
  return { ...state, numbers: [...new Float32Array(numbers.slice().buffer)] };
}"""


def explorer():
    look = Look()
    tokens = example.SENTENCE.split()
    return HeadExplorer(look(example.SENTENCE), queries=tokens, head=1, follow="it", recompute=look)


def test_its_weights_are_those_of_the_example():
    sentence = example.load()
    with torch.no_grad():
        assert torch.equal(Look()(example.SENTENCE)[0], sentence.mha(sentence.x)[1])


@pytest.mark.browser
def test_a_page_answers_a_sentence_as_python_does(widget_page):
    widget = explorer()
    page = widget_page(widget)
    field = page.locator(".mha-heads input")
    for text in TYPED:
        field.fill(text)
        page.wait_for_function("(text) => model.state.state.values.sentence === text", arg=text)
        widget._show({"moved": {"sentence": text}})
        answered, wanted = page.evaluate(STATE), dict(widget.state)
        numbers = np.frombuffer(wanted.pop("numbers"), "<f4")
        np.testing.assert_allclose(answered.pop("numbers"), numbers, atol=1e-4)
        facts, right = answered.pop("facts"), wanted.pop("facts")
        entropies, expected = ([fact.pop("entropy") for fact in each] for each in (facts, right))
        np.testing.assert_allclose(entropies, expected, atol=1e-3)
        assert [fact["leak"] for fact in facts] == [fact["leak"] for fact in right]
        del answered["serial"], wanted["serial"]
        wanted["tokens"] = [list(pair) for pair in wanted["tokens"]]
        wanted["words"] = wanted["words"] and [list(pair) for pair in wanted["words"]]
        assert answered == wanted
        assert page.locator(".mha-heads .trouble").inner_text() == wanted["trouble"]


def test_the_model_travels_with_pages_without_a_kernel_alone(monkeypatch):
    widget = explorer()
    data, _ = widget._repr_mimebundle_()
    assert DECK_VIEW not in data
    assert "readWeights" not in str(data) + str(widget.get_state())
    monkeypatch.setenv(figures.SITE, "on")
    data, _ = widget._repr_mimebundle_()
    assert "readWeights" in data[DECK_VIEW]["state"]
