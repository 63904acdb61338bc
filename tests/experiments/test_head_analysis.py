"""Tables of heads, ablation, and reports against the measures computed by hand."""

import pytest
import torch

from mha_course import example
from mha_course.datasets.grammar import sentences
from mha_course.experiments import head_analysis


@pytest.fixture(scope="module")
def model():
    return example.trained_model()


@pytest.fixture(scope="module")
def texts():
    return sentences(150, "test", seed=77)


def test_tables_hold_what_the_measures_say(model, texts):
    weights = head_analysis.all_weights(model, texts)
    found = head_analysis.relation_table(model, texts, ["pronoun", "noun"])
    for row, relation in enumerate(("pronoun", "noun")):
        want = head_analysis.relation_weights(weights, texts, relation).flatten()
        assert torch.allclose(found[row], want, atol=1e-5)


def test_places_where_words_belong_together_in_another_way_do_not_count():
    """If heads look only at related words, positions explain nothing."""
    drawn, baseline = sentences(300, "test", seed=5), head_analysis.position_baseline
    weights = torch.zeros(1, len(drawn), 1, 15, 15)
    for n, text in enumerate(drawn):
        for relation, pairs in text.pairs.items():
            for start, end in pairs:
                weights[0, n, 0, start, end] = float(relation != "distractor")
    for relation in {relation for text in drawn for relation in text.pairs}:
        assert head_analysis.relation_weights(weights, drawn, relation).item() == float(
            relation != "distractor"
        )
        assert baseline(weights, drawn, relation).item() == 0
        alone = torch.zeros_like(weights)
        for n, text in enumerate(drawn):
            for start, end in text.pairs.get(relation, ()):
                alone[0, n, 0, start, end] = 1.0
        assert baseline(alone, drawn, relation).item() == 0
    assert baseline(torch.ones(1, len(drawn), 1, 15, 15), drawn, "subject").item() == 1


def test_was_and_were_are_measured_where_no_pronoun_tells(texts):
    chosen = head_analysis.relevant_sentences(texts, "subject")
    assert {text.kind for text in chosen} == {"agreement"}
    assert {text.kind for text in head_analysis.relevant_sentences(texts, "state")} == {
        "agreement",
        "so",
    }
    assert not {"it", "he", "she", "they"} & {word for text in chosen for word in text.words}


def test_a_word_is_moved_and_its_place_stays():
    """The two pairs lead to the word that moved and to its old position."""
    texts = sentences(50, "test", seed=3)
    pairs = [(text, pair) for text in texts for pair in text.pairs.get("pronoun", ())]
    moved = head_analysis.move_second_word(texts, "pronoun")
    assert len(moved) == len(pairs) > 20
    for text, (before, (start, end)) in zip(moved, pairs, strict=True):
        assert sorted(text.words) == sorted(before.words)
        assert text.words[start] == before.words[start]
        assert text.words[text.pairs["word"][0][1]] == before.words[end]
        assert text.pairs["place"] == ((start, end),)
        assert text.words[end] == before.words[end - 1]


def test_a_report_says_what_the_measures_say(model):
    found = head_analysis.pronoun_report(model)
    texts = [text for text in sentences(1000, "test", seed=16) if "pronoun" in text.pairs]
    assert found["accuracy"] == pytest.approx(
        head_analysis.accuracy(model, texts, "pronoun"), abs=1e-3
    )
    looks = head_analysis.relation_table(model, texts, ["pronoun"])[0].tolist()
    assert found["weights"] == pytest.approx(looks, abs=1e-6)  # not rounded twice
    ablated = head_analysis.ablate_heads(model, [(1, 1)])
    assert max(found["weights"]) == found["weights"][5]
    assert found["without"] == pytest.approx(
        head_analysis.accuracy(ablated, texts, "pronoun"), abs=1e-3
    )
