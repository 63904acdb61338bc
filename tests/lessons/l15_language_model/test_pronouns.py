"""Which heads of lesson 15's model look from the place of a pronoun to its noun, and what ships."""

import pytest
import torch

from mha_course.datasets import grammar
from mha_course.experiments import head_analysis
from mha_course.lessons.l15_language_model import language_model, parsing, pronouns
from mha_course.models import language


@pytest.fixture(scope="module")
def texts():
    return pronouns.unseen()


def test_they_are_about_pairs_that_were_kept_away(texts):
    assert len(texts) > 500
    assert all(parsing.nats(text.words, "train") == float("inf") for text in texts)
    forms = {*grammar.OBJECT_FORMS, *grammar.OBJECT_FORMS.values()}
    assert {text.words[start] for text in texts for start, _ in text.pairs["pronoun"]} == forms


def test_adjectives_are_those_of_the_nouns_that_pronouns_stand_for(texts):
    for text in texts[:50]:
        pairs = zip(
            text.pairs["pronoun"], pronouns.to_adjective(text).pairs["pronoun"], strict=True
        )
        for (place, noun), (same, adjective) in pairs:
            assert (same, adjective) == (place, noun - 1)  # they are side by side


def test_accuracy_counts_pronouns_one_by_one(texts):
    few = texts[:40]
    true = language.encode([text.words for text in few])[:, 1:]
    later = torch.arange(true.size(1)) > 8

    def knows_the_first(ids):
        """Name the true word at the first nine places, and <end> at all others."""
        return torch.nn.functional.one_hot(true.masked_fill(later, language.END), 128).float()

    places = [place for text in few for place, _ in text.pairs["pronoun"]]
    right = sum(place <= 8 for place in places)
    assert 0 < right < len(places)
    assert pronouns.accuracy(knows_the_first, few) == pytest.approx(right / len(places))


@pytest.mark.weekly
def test_a_report_says_what_the_measures_say(texts):
    model, _ = language_model.train_language_model(1, steps=350, progress=False)
    found = pronouns.report(model)
    weights = language_model.weights(model, texts)
    every = [
        weights[:, number, :, place, noun].flatten()
        for number, text in enumerate(texts)
        for place, noun in text.pairs["pronoun"]
    ]
    assert found["noun"] == pytest.approx(torch.stack(every).mean(0).tolist(), abs=1e-5)
    ablated = head_analysis.ablate_heads(model, [(1, 2)])
    assert found["without"][6] == pronouns.accuracy(ablated, texts)
