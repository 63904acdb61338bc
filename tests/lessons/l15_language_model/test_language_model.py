"""The language model of lesson 15, the grammar's own probabilities, and what the lab writes."""

import math
import random
import re

import pytest
import torch
from torch.nn import functional as F

from mha_course import masks
from mha_course.datasets import grammar
from mha_course.errors import ShapeError
from mha_course.lessons.l15_language_model import language_model, parsing
from mha_course.lessons.l15_language_model.lab import SamplingLab
from mha_course.models import language

DRAWN = grammar.sentences(300, "train", seed=5)
UNSEEN = grammar.sentences(300, "test", seed=6)
# Counted by hand: adjectives × adjectives × links or verbs × states; the last kind has only verbs.
SENTENCES_OF_A_PAIR = {
    "agreement": 2 * 2 * 8 * 12,
    "so": 2 * 2 * 8 * 12,
    "because_subject": 2 * 2 * 4 * 12,
    "because_object": 2 * 2 * 4 * 12,
    "and": 2 * 2 * 5,
}
CAT = "the grey cat that chased the loud dogs was hungry , so it ate greedily"


@pytest.fixture
def model():
    return language_model.new_language_model(0).eval().requires_grad_(False)


@pytest.mark.parametrize("kind", SENTENCES_OF_A_PAIR)
def test_all_sentences_of_a_kind_about_two_nouns_are_equally_likely(kind):
    pairs = grammar.noun_pairs("validation")
    rng = random.Random(0)
    every = {grammar.sentence(rng, kind, *pairs[0]).words for _ in range(6000)}
    assert len(every) == SENTENCES_OF_A_PAIR[kind]
    for words in every:
        assert parsing.nats(words, "validation") == pytest.approx(
            math.log(5 * len(pairs) * len(every))
        )
        assert parsing.recognise(words).kind == kind


def test_what_is_drawn_is_recognised_and_what_is_spoilt_is_not():
    for text in (*DRAWN, *UNSEEN):
        assert parsing.recognise(text.words) == text
        swapped = [*text.words[:-2], text.words[-1], text.words[-2]]
        for wrong in (swapped, text.words[:-1], (*text.words, "the"), text.words[1:]):
            assert parsing.recognise(wrong) is None
            assert parsing.nats(wrong, "any") == math.inf
    same_pronoun = "the grey cat behind the shiny robot was cold and shivered violently"
    for wrong in (CAT.replace("it", "they"), same_pronoun, ""):
        assert parsing.recognise(wrong.split()) is None


def test_only_the_pairs_of_a_split_can_be_drawn():
    for text in UNSEEN:
        assert parsing.nats(text.words, "train") == math.inf
        assert parsing.nats(text.words, "any") - parsing.nats(text.words, "test") == pytest.approx(
            math.log(192 / len(grammar.noun_pairs("test")))
        )


def test_ids_go_there_and_back():
    ids = language.encode([text.words for text in DRAWN])
    assert [language_model.decode(row) for row in ids] == [text.words for text in DRAWN]
    bare = language_model.prompt(CAT)
    assert torch.equal(bare, language_model.prompt(f"<start> {CAT}"))
    assert torch.equal(bare, language.encode([CAT.split()])[:, :-1])
    assert language_model.prompt("").tolist() == [[language.START]]


def test_surprise_is_cross_entropy(model):
    ids = language.encode([text.words for text in DRAWN])
    logits, targets = model(ids[:, :-1]), ids[:, 1:]
    want = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(
        targets
    )
    found = language_model.surprisal(model, ids)
    real = targets != language.PAD
    torch.testing.assert_close(found[real], want[real])
    assert not found[~real].any()
    assert language_model.perplexity(model, DRAWN) == pytest.approx(
        want[real].mean().exp().item(), rel=1e-5
    )
    assert language_model.perplexity(language_model.uniform, DRAWN) == pytest.approx(126)


def test_a_bigram_counts():
    texts = [
        grammar.Sentence(tuple(words.split()), "so", {})
        for words in ("the cat", "the cat", "the king")
    ]
    table = language_model.bigram(texts)(torch.arange(128)[None])[0].exp()  # (V, V)
    the, cat, king = (language.WORDS.index(word) for word in ("the", "cat", "king"))
    torch.testing.assert_close(table.sum(-1), torch.ones(128, dtype=torch.float64))
    assert table[the, cat].item() == pytest.approx((2 + 0.1) / (3 + 126 * 0.1))
    assert table[king, language.END].item() == pytest.approx((1 + 0.1) / (1 + 126 * 0.1))
    assert table[:, [language.PAD, language.START]].max() == 0


def test_rows_of_weights_are_the_places_that_guess(model):
    whole = model.attention_weights(language.encode([text.words for text in DRAWN])[:, :-1])
    # word 4 is guessed at place 4; word 2 is at 3
    torch.testing.assert_close(language_model.weights(model, DRAWN)[..., 4, 2], whole[..., 4, 3])
    assert torch.equal(whole[0, 0, 0] > 0, masks.causal_mask(whole.size(-1)))


def test_the_lab_says_what_the_model_says(model):
    lab = SamplingLab(model)
    for temperature, top_k, start, seed in (
        (1.0, None, "", 0), (0.5, 2, "the grey cat", 3), (0.0, 5, "the", 1), (3.0, 10, "the", 7)
    ):  # fmt: skip
        lab.set(temperature=temperature, top_k=top_k, start=start, seed=seed)
        bars, table = lab.state["panels"]
        logits = model(language_model.prompt(start))[0, -1]
        likeliest = logits.topk(1 if temperature == 0 else top_k or 128).values / (
            temperature or 1.0
        )
        assert bars["note"] == "probability"
        assert bars["values"][0] == pytest.approx(likeliest.softmax(-1)[0].item(), abs=1e-3)
        assert bars["names"][0] == language.WORDS[int(logits.argmax())]
        written = language_model.write(
            model, 6, temperature=temperature, top_k=top_k, seed=seed, start=start
        )
        assert [row[0] for row in table["rows"]] == [" ".join(words) for words in written]
        marks = ["✓" if parsing.recognise(words) else "✗" for words in written]
        assert [row[1] for row in table["rows"]] == marks
        assert f"{marks.count('✓')} of 6 sentences" in lab.text
        assert lab.state["trouble"] == ""
    assert repr(lab).startswith("SamplingLab: Temperature 3, top 10.")


ERRORS = {
    "got '<end>'": lambda: language_model.prompt("the <end>"),
    "nats: no split has this name. expected train, validation, test, any": lambda: parsing.nats(
        ["the"], "half"
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_messages(message):
    with pytest.raises(ShapeError, match=re.escape(message)):
        ERRORS[message]()
