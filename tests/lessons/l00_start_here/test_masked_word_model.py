"""The masked-word model in JavaScript says of words what Python does; test_look has its numbers."""

import pytest

from mha_course import example
from mha_course.datasets.grammar import vocabulary, words_of
from mha_course.errors import SentenceError
from mha_course.lessons.l00_start_here.masked_word_model import HERE, exported_weights
from mha_course.widgets.learner_function import error_line

LOAD = """async ([script, bytes]) => {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { readWeights, makeModel } = await import(url);
  const { weights, vocabulary } = readWeights(Uint8Array.from(bytes));
  window.model = makeModel(weights, vocabulary);
}"""
ASK = "(texts) => texts.map((text) => model.attention(text).trouble)"
TYPOS = ("cta", "Teh", "hungryy,", "x" * 30, "dgos", "ITS", "greedly", "loudd", "zz", "<maks>")


@pytest.fixture
def page(new_page):
    page = new_page()
    script = (HERE / "masked_word_model.js").read_text(encoding="utf-8")
    page.goto("about:blank")
    page.evaluate(LOAD, [script, list(exported_weights())])
    return page


@pytest.mark.browser
def test_its_troubles_are_those_of_python(page):
    words = vocabulary()
    swapped = [word[1::-1] + word[2:] for word in words if word[:2] != word[1::-1]]
    doubled = [word + word[-1] for word in words] + [word[1:] for word in words if len(word) > 1]
    typos = {typo for typo in (*TYPOS, *swapped, *doubled) if not {*words_of(typo)} <= {*words}}
    texts = [*(f"the {typo} cat" for typo in sorted(typos)), "", " ", "cat " * 16, "the qq zz"]
    for text, trouble in zip(texts, page.evaluate(ASK, texts), strict=True):
        with pytest.raises(SentenceError) as failed:
            example.load(text)
        assert trouble == error_line(failed.value)
