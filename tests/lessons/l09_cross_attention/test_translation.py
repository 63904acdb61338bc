"""English and Endish: the translator, and where it looks, on held-out pairs of nouns."""

import itertools
import re

import pytest
import torch
from torch.nn import functional as F

from mha_course.errors import ShapeError
from mha_course.lessons.l09_cross_attention import toy_language, translation

DRAWN = toy_language.pairs(400, "test", seed=7)
WORDS = toy_language.NOUNS | toy_language.ADJECTIVES | toy_language.VERBS | toy_language.TIMES
SENTENCE = "the red fox chased the cat today"


@pytest.fixture
def model():
    return translation.new_translator(0).eval().requires_grad_(False)


def test_each_word_stands_for_the_one_it_is_aligned_with():
    for pair in DRAWN:
        assert [WORDS[pair.source[place]] for place in pair.alignment] == list(pair.target)
        assert len(set(pair.alignment)) == len(pair.target) == len(pair.source) - 2
        assert pair.target[-1] in toy_language.VERBS.values()
        assert not set(pair.target[1:]) & set(toy_language.TIMES.values())
        for one, two in itertools.pairwise(pair.target):
            assert two not in toy_language.ADJECTIVES.values() or one in toy_language.NOUNS.values()
    assert max(len(pair.source) for pair in DRAWN) == toy_language.MAX_SOURCE
    assert max(len(pair.target) for pair in DRAWN) + 1 == toy_language.MAX_TARGET


def test_splits_share_no_pair_of_nouns():
    test, train = (set(toy_language.noun_pairs(split)) for split in ("test", "train"))
    assert not test & train
    assert len(test) + len(train) == 12 * 11
    with pytest.raises(KeyError):
        toy_language.noun_pairs("validation")


def test_encoding_shifts_and_pads():
    batch = translation.encode(DRAWN)
    length = torch.tensor([len(pair.target) for pair in DRAWN])
    assert ((batch.target != -100).sum(1) == length + 1).all()
    assert ((batch.alignment >= 0).sum(1) == length).all()
    assert (batch.written[:, 0] == translation.START).all()
    real = batch.target[:, :-1].where(batch.target[:, :-1] != -100, torch.tensor(translation.PAD))
    for row, n in enumerate(length):
        assert torch.equal(batch.written[row, 1 : n + 1], real[row, :n])
        assert batch.target[row, n] == translation.END
    assert (
        (batch.source == translation.PAD).sum(1) == torch.tensor([8 - len(p.source) for p in DRAWN])
    ).all()


def test_padding_and_later_words_change_nothing(model):
    batch = translation.encode(DRAWN[:20])
    logits, weights = model(batch.source, batch.written)
    for row in range(20):
        alone = translation.encode([DRAWN[row]])
        T, S = alone.written.size(1), alone.source.size(1)
        one, look = model(alone.source, alone.written)
        torch.testing.assert_close(one[0], logits[row, :T], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(look[0], weights[row, :, :T, :S], atol=1e-5, rtol=1e-5)
    assert (weights[(batch.source == translation.PAD)[:, None, None].expand_as(weights)] == 0).all()
    changed = batch.written.clone()
    changed[:, -1] = translation.END
    torch.testing.assert_close(model(batch.source, changed)[0][:, :-1], logits[:, :-1])


def test_translating_reads_the_source_once(model, monkeypatch):
    reads = []
    whole = translation.Translator.encode
    monkeypatch.setattr(
        translation.Translator, "encode", lambda self, ids: reads.append(ids) or whole(self, ids)
    )
    weights, said, english = translation.translate(model, SENTENCE)
    assert (len(reads), " ".join(english)) == (1, SENTENCE)
    assert weights.shape == (2, len(said), 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, len(said)))


def test_a_perfect_map_scores_one_and_the_mean_loss_is_that_of_the_words(model):
    batch = translation.encode(DRAWN)
    perfect = F.one_hot(batch.alignment.clamp(min=0), batch.source.size(1))[:, None]
    assert translation.alignment_accuracy(perfect, DRAWN).tolist() == [1.0]
    logits, _ = model(batch.source, batch.written)
    chosen = batch.target != -100
    mean = -logits.log_softmax(-1)[chosen].gather(1, batch.target[chosen][:, None]).mean()
    torch.testing.assert_close(translation.translation_loss(model, *batch[:3]), mean)


def test_a_report_says_what_is_right_and_what_articles_get(model):
    model.to_words.bias[translation.END] = 9.0  # the end of each sentence is right
    report = translation.alignment_report(model, DRAWN[:30])
    spent, right = [], []
    for pair in DRAWN[:30]:
        alone = translation.encode([pair])
        logits, weights = model(alone.source, alone.written)
        right += (logits.argmax(-1) == alone.target)[0].tolist()
        weights = weights.mean(1)[0]  # (T, S)
        articles = [s for s, word in enumerate(pair.source) if word == "the"]
        spent += weights[: len(pair.target), articles].sum(-1).tolist()  # without <end>
    assert report["articles"] == pytest.approx(sum(spent) / len(spent), abs=1e-5)
    batch = translation.encode(DRAWN[:30])
    heads = model(batch.source, batch.written)[1]
    assert report["heads"] == translation.alignment_accuracy(heads, DRAWN[:30]).tolist()
    assert report["mean"] != report["heads"][0]
    assert report["words"] == pytest.approx(sum(right) / len(right))


ERRORS = {
    "encode: there must be a sentence. expected one or "
    "more, got none": lambda model: translation.encode([]),
    "toy_language.SOURCE, got 'whale', '<pad>'": lambda model: translation.translate(model,
        "the whale saw the <pad>"),
    "the sentence has 10 words, more than the 8 that can be read. expected at most 8 words, got 10":
        lambda model: translation.translate(model, "the cat " * 5),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_messages(message, model):
    with pytest.raises(ShapeError, match=re.escape(message)):
        ERRORS[message](model)
