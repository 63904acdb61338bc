"""Speculative decoding writes as the large model does, added up over all possible draws."""

import itertools

import pytest
import torch

from mha_course.datasets.grammar import sentences
from mha_course.lessons.l15_language_model import language_model, speculation
from mha_course.models.language import END, LONGEST, PAD, encode

WORDS = (END, 7, 9)  # of two models whose chances are eighths: all others never come
LARGE = torch.tensor([[2.0, 1.0, 5.0], [1.0, 4.0, 3.0], [2.0, 6.0, 0.0]])  # one row for each word
SMALL = torch.tensor([[1.0, 4.0, 3.0], [4.0, 2.0, 2.0], [4.0, 2.0, 2.0]])


def predictor(table):
    """Look at the two newest words: the row of the newest, turned by one after an even position."""
    chances = torch.zeros(128, 128)
    chances[[[word] for word in WORDS], WORDS] = table
    chances[:, END] += chances.sum(-1) == 0

    def predict(ids):
        even = torch.arange(ids.size(1)) % 2 == 0
        rows = chances[ids]
        turned = rows.clone()
        turned[..., list(WORDS)] = rows[..., list(WORDS)].roll(1, -1)
        return torch.where(even[:, None], rows, turned).double().log()

    return predict


large, small = predictor(LARGE), predictor(SMALL)


class AllDice:
    """Draw so that every outcome comes once, and keep its probability."""

    def __init__(self):
        self.open = [()]

    def runs(self):
        while self.open:
            self.given = self.open.pop()
            self.thrown, self.chance = [], 1.0
            yield self

    def throw(self, chances):
        n = len(self.thrown)
        if n >= len(self.given):
            others = [face for face, chance in enumerate(chances) if chance > 1e-12][1:]
            self.open += [(*self.thrown, face) for face in others]
            face = next(face for face, chance in enumerate(chances) if chance > 1e-12)
        else:
            face = self.given[n]
        self.thrown.append(face)
        self.chance *= float(chances[face])
        return face


def written(drafts, start, monkeypatch):
    """Return the probability of every text that speculation may write, up to <end>."""
    dice = AllDice()
    grid = 4  # the ratios below 1 are quarters
    monkeypatch.setattr(speculation, "LONGEST", len(start) + 3)
    monkeypatch.setattr(speculation, "throw", lambda d: d.throw([1 / grid] * grid) / grid)
    monkeypatch.setattr(speculation, "draw", lambda p, d: torch.tensor([[d.throw(p.tolist())]]))
    law = {}
    for run in dice.runs():
        ids, passes = speculation.speculate(large, small, torch.tensor([start]), drafts, run)
        assert 1 <= passes <= 3
        text = ids[0, len(start) :].tolist()
        text = tuple(text[: text.index(END) + 1] if END in text else text)
        law[text] = law.get(text, 0.0) + run.chance
    return law


@pytest.mark.parametrize("drafts", [0, 1, 2])
def test_every_text_is_as_likely_as_the_large_model_makes_it(drafts, monkeypatch):
    start = [3, 7]
    law = written(drafts, start, monkeypatch)
    assert sum(law.values()) == pytest.approx(1)
    for words in itertools.product(WORDS, repeat=3):
        text = words[: words.index(END) + 1] if END in words else words
        ids = torch.tensor([[*start, *text]])
        alone = (-language_model.surprisal(large, ids)[0, 1:].sum()).exp().item()
        assert law.get(text, 0.0) == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize("drafts", [1, 2, 5])
def test_all_ways_to_write_a_sentence_add_up_to_the_large_model(drafts):
    model = language_model.new_language_model(0).double().eval()
    tiny = language_model.new_language_model(1).double().eval()
    ids = encode([text.words for text in sentences(9, "train", seed=0)])
    found = speculation.surprisal(model, tiny, ids, drafts)
    torch.testing.assert_close(found, language_model.surprisal(model, ids), rtol=0, atol=1e-9)
    assert (found == 0).equal(ids[:, 1:] == PAD)


def test_a_good_draft_saves_passes():
    dice = torch.Generator().manual_seed(0)
    model = language_model.new_language_model(0)
    ids, passes = speculation.speculate(model, model, language_model.prompt("the"), 4, dice)
    words = ids.size(1) - 2
    assert ids.size(1) <= LONGEST
    assert passes == -(-words // 5)  # its own drafts are all accepted
