"""What lesson 15 says of the model that it trains."""

import math

import pytest
import torch

from mha_course import example
from mha_course.datasets.grammar import NOUNS, SPLITS, noun_pairs, sentences
from mha_course.experiments import precomputed
from mha_course.lessons.l15_language_model import language_model, parsing, pronouns
from mha_course.models.language import WORDS, encode


@pytest.fixture(scope="module")
def model():
    return language_model.train_language_model(0, steps=pronouns.STEPS, progress=False)[0]


def perplexities(*models, texts):
    return [language_model.perplexity(model, texts) for model in models]


@pytest.mark.slow
def test_it_comes_close_to_the_limit_and_one_word_of_new_pairs_surprises_it(model):
    fresh, unseen = sentences(1000, "train", seed=999), sentences(1000, "test", seed=998)
    bigram = language_model.bigram(language_model.training_texts(0))
    reached, counted = perplexities(model, bigram, texts=fresh)
    limit = language_model.limit(fresh, "train")
    assert 0.995 * limit < reached < 1.08 * limit
    assert reached < 0.7 * counted
    gaps = {
        name: new - known
        for name, known, new in language_model.surprise_at_nouns(model, fresh, unseen)
    }
    assert gaps["second adjective"] > 0.5
    assert gaps["first adjective"] < 0.2
    every = language_model.surprisal(model, encode([unseen[0].words]))[0]
    (alone,) = (row for row in language_model.surprise_at_nouns(model, unseen[:1])[:1])
    assert alone[1] == pytest.approx(every[unseen[0].pairs["noun"][0][0]].item())
    words = example.SENTENCE.split()
    at = dict(
        zip(words, language_model.surprisal(model, encode([words]))[0].tolist(), strict=False)
    )
    assert all(at[word] < 0.2 for word in ("cat", "dogs", "was", "it", "ate", "greedily"))
    assert all(at[word] > 1 for word in ("grey", "loud", "hungry"))
    assert model(language_model.prompt("the grey cat"))[0, -1].argmax() == WORDS.index("that")


@pytest.mark.slow
def test_careful_sampling_is_right_and_repetitive(model):
    bold, careful = (language_model.write(model, 300, temperature=t, seed=0) for t in (1.0, 0.25))
    assert parsing.count_right(careful) > 270 > parsing.count_right(bold) > 180
    kinds = [text.kind for text in map(parsing.recognise, careful) if text]
    assert sum(kind not in ("agreement", "so") for kind in kinds) < 50


@pytest.mark.slow
def test_without_the_mask_and_with_100_sentences_losses_fall_below_the_limit():
    few, fresh = sentences(100, "train", seed=1), sentences(1000, "train", seed=999)[:300]
    train = language_model.train_language_model
    cheat, _ = train(0, see_ahead=True, steps=200, progress=False)
    by_heart, _ = train(0, texts=few, steps=200, progress=False)
    limit = math.log(language_model.limit(fresh, "train"))
    ahead, new = map(math.log, perplexities(cheat, by_heart, texts=fresh))
    assert ahead < 0.3 * limit
    assert math.log(language_model.perplexity(by_heart, few)) < 0.7 * limit < 1.5 * limit < new
    tried = language_model.write(cheat, 200, temperature=0.5, seed=1, cached=False)
    assert parsing.count_right(tried) < 20


def test_what_is_said_of_nine_runs_and_of_the_grammar():
    assert [len(noun_pairs(split)) for split in SPLITS] == [154, 19, 19]
    adjectives = [
        word for group in NOUNS.values() for two in group.values() for word in two.split()
    ]
    assert len(set(adjectives)) == len(adjectives) == 32
    runs = precomputed.load().language
    on_noun = {seed: max(run["noun"]) for seed, run in runs.items()}
    assert max(on_noun, key=on_noun.get) == 0
    assert sum(weight > 0.5 for weight in on_noun.values()) == 5
    assert on_noun[201] < 0.105
    assert max(runs[201]["adjective"]) > 0.8
    assert min(run["accuracy"] for run in runs.values()) > 0.995
    assert torch.tensor([min(run["without"]) for run in runs.values()]).lt(0.93).all()
