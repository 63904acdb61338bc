"""The masked-word model in JavaScript computes what PyTorch does, and names Python's near words."""

import pytest
import torch

from mha_course import example
from mha_course.datasets.grammar import sentences, vocabulary, words_of
from mha_course.errors import SentenceError
from mha_course.lessons.l00_start_here.masked_word_model import HERE, exported_weights
from mha_course.widgets.learner_function import error_line

LOAD = """async ([script, bytes]) => {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { readWeights, makeModel } = await import(url);
  const { weights, vocabulary } = readWeights(Uint8Array.from(bytes));
  window.model = makeModel(weights, vocabulary);
}"""
ASK = """(texts) => texts.map((text) => {
  const { weights, ...answer } = model.attention(text);
  return { ...answer, weights: Array.from(weights ?? []) };
})"""
TYPOS = ("cta", "Teh", "hungryy,", "x" * 30, "dgos", "ITS", "greedly", "loudd", "zz", "<maks>")


@pytest.fixture
def page(new_page):
    page = new_page()
    script = (HERE / "masked_word_model.js").read_text(encoding="utf-8")
    page.goto("about:blank")
    page.evaluate(LOAD, [script, list(exported_weights())])
    return page


@pytest.mark.browser
def test_its_weights_are_those_of_pytorch(page):
    texts = [" ".join(s.words) for split in ("train", "test") for s in sentences(120, split, 7)]
    words = example.SENTENCE.split()
    texts += [" ".join(words[:length]) for length in range(1, 16)] + [
        "<mask> cat <pad>",
        "The grey cat, that slept.",
        "Cat!",
    ]
    model = example.trained_model()
    largest = 0.0
    for text, answer in zip(texts, page.evaluate(ASK, texts), strict=True):
        ids, _ = example.encode([text])
        with torch.no_grad():
            expected = model.attention_weights(ids)[-1, 0]  # (H, S, S)
        assert (answer["H"], answer["S"]) == tuple(expected.shape[:2])
        assert answer["tokens"] == words_of(text)
        weights = torch.tensor(answer["weights"]).view_as(expected)
        largest = max(largest, (weights - expected).abs().max().item())
    assert len(texts) > 200
    assert largest < 1e-4


@pytest.mark.browser
def test_its_troubles_are_those_of_python(page):
    words = vocabulary()
    swapped = [word[1::-1] + word[2:] for word in words if word[:2] != word[1::-1]]
    doubled = [word + word[-1] for word in words] + [word[1:] for word in words if len(word) > 1]
    typos = {typo for typo in (*TYPOS, *swapped, *doubled) if not {*words_of(typo)} <= {*words}}
    texts = [*(f"the {typo} cat" for typo in sorted(typos)), "", " ", "cat " * 16, "the qq zz"]
    answers = page.evaluate(ASK, texts)
    for text, answer in zip(texts, answers, strict=True):
        with pytest.raises(SentenceError) as failed:
            example.load(text)
        assert answer.get("trouble") == error_line(failed.value)
