"""The grammar, the model trained on it, and its heads, on held-out sentences."""

import itertools
import random

import numpy as np
import pytest
import torch
from rewriting import refused

from mha_course import example
from mha_course.datasets import grammar
from mha_course.errors import ShapeError
from mha_course.experiments import head_analysis

DRAWN = grammar.sentences(800, "test", seed=77)


def test_every_kind_says_what_belongs_together():
    for text in DRAWN:
        words, pairs = text.words, text.pairs
        assert len({grammar.PRONOUNS[word] for word in words if word in grammar.PRONOUNS}) == 2
        assert all(0 <= a < len(words) > b >= 0 for found in pairs.values() for a, b in found)
        for start, end in pairs.get("pronoun", ()):
            pronoun = grammar.PRONOUNS[words[end]]
            assert words[start] in (pronoun, grammar.OBJECT_FORMS[pronoun])
        for start, end in pairs.get("subject", ()):
            assert words[start] == ("were" if grammar.PRONOUNS[words[end]] == "they" else "was")
        for start, end in pairs.get("state", ()):
            assert grammar.CONSEQUENCES[words[end]].split()[0] == words[start]
        for start, end in pairs["noun"]:
            assert end == start + 1
            assert words[start] in grammar._ADJECTIVES[words[end]]
        assert pairs["adjective"] == tuple((b, a) for a, b in pairs["noun"])
        if text.kind == "agreement":
            assert not {"he", "she", "it", "they"} & set(words), "another cue of number"
        if text.kind == "because_object":
            assert text.pairs["pronoun"][0][1] > text.pairs["distractor"][0][1]


def test_splits_share_no_pair_of_nouns_and_sentences_repeat():
    splits = [set(grammar.noun_pairs(name)) for name in ("train", "validation", "test")]
    assert not any(a & b for a, b in itertools.combinations(splits, 2))
    assert sum(map(len, splits)) == 16 * 12
    assert grammar.sentences(50, "test", seed=3) == grammar.sentences(50, "test", seed=3)
    assert grammar.sentences(50, "test", seed=3) != grammar.sentences(50, "test", seed=4)
    assert max(len(text.words) for text in DRAWN) == grammar.MAX_WORDS


def test_each_word_has_one_class():
    words = [word for group in grammar.word_classes() for word in group]
    assert len(words) == len(set(words)) == len(grammar.vocabulary()) - 2
    assert {word for text in DRAWN for word in text.words} <= set(words)


def test_batches_hide_a_fifth_half_of_it_by_other_words():
    ids, mask, targets = next(example.training_batches(0))
    chosen = targets != -100
    real = mask[:, 0, 0]
    assert not (chosen & ~real).any()
    assert 0.17 < (chosen.sum() / real.sum()) < 0.23
    hidden = (ids == example.MASK) & chosen
    assert 0.4 < hidden.sum() / chosen.sum() < 0.6
    classes = {word: group for group in grammar.word_classes() for word in group}
    vocabulary = grammar.vocabulary()
    for got, want in zip(
        ids[chosen & ~hidden].tolist(), targets[chosen & ~hidden].tolist(), strict=True
    ):
        assert classes[vocabulary[got]] == classes[vocabulary[want]]
        assert got != want or len(classes[vocabulary[want]]) == 1


def test_loading_runs_no_code_and_is_what_was_saved(tmp_path):
    model = example.new_model(3)
    example.save(model, tmp_path / "weights.npz")
    loaded = example.trained_model(tmp_path / "weights.npz")
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True)
    )
    with np.load(example.WEIGHTS, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype == np.float32 for name in arrays.files)
    assert example.WEIGHTS.stat().st_size < 1_000_000


def test_the_example_is_the_layer_inside_the_model(device):
    loaded = example.load(device=device)
    ids, _ = example.encode([loaded.tokens])
    out, weights = loaded.mha(loaded.x)
    assert " ".join(loaded.tokens) == example.SENTENCE
    assert torch.allclose(weights, loaded.model.attention_weights(ids.to(device))[-1])
    for letter, linear in zip("qkvo", loaded.mha.children(), strict=True):
        assert torch.equal(loaded.projections[f"w_{letter}"], linear.weight)
        assert torch.equal(loaded.projections[f"b_{letter}"], linear.bias)
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert len({*out.shape, loaded.mha.num_heads, loaded.mha.d_model // loaded.mha.num_heads}) == 5


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("the zzzz slept", "encode: “zzzz” is not one of the 127 words that can be read. "
                           "expected words of grammar.vocabulary(), got 'zzzz'"),
        ("the Catt slept", "encode: “catt” is not one of the 127 words that can be read. "
                           "expected words of grammar.vocabulary(), got 'catt', fix: "
                           "cat, chatty, caught"),
        (f"the {'w' * 5000}", f"encode: “{'w' * 23}…” is not one of the 127 words that can be "
                              f"read. expected words of grammar.vocabulary(), got '{'w' * 23}…'"),
        ("", "encode: a sentence needs at least one word. expected words of grammar.vocabulary(), "
         "got an empty sentence"),
        ("the " * 16, "MaskedWordModel: the sentence has 16 words, more than the 15 that can be "
                      "read. expected S <= 15, got S=16"),
    ],
)  # fmt: skip
def test_sentences_that_cannot_be_loaded(sentence, message):
    refused(lambda: example.load(sentence), message)


def test_a_sentence_is_read_as_one_types_it():
    words = ["the", "woolly", "goats", "begged", "the", "sly", "fox"]
    assert example.load("The woolly goats begged the sly fox!").tokens == tuple(words)
    short = ["hungry", ",", "so", "it", "ate"]
    ids, _ = example.encode(["The woolly goats begged the sly fox.", words, "Hungry, so it ate."])
    assert torch.equal(ids[0], ids[1])
    assert torch.equal(ids[2], example.encode([words, short])[0][1])


def test_guess_wants_one_gap():
    assert example.guess("the <mask> cat near the loud dogs was hungry and ate greedily", 2)[0][
        0
    ] in ("grey", "sleek")
    with pytest.raises(ShapeError, match="one word must be hidden"):
        example.guess("the grey cat")


def test_a_relation_must_stand_in_a_sentence():
    texts = [grammar.sentence(random.Random(n), "because_object", "cat", "dogs") for n in range(3)]
    for measure, given in (
        (head_analysis.relation_weights, torch.zeros(1, 3, 1, 11, 11)),
        (head_analysis.accuracy, example.trained_model()),
    ):
        with pytest.raises(ValueError, match="no sentence has the relation 'subject'"):
            measure(given, texts, "subject")
