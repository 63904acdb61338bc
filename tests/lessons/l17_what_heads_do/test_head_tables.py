"""Tables of heads and ablation against the measures computed by hand."""

import pytest
import torch

from mha_course import example
from mha_course.datasets.grammar import sentences, vocabulary
from mha_course.experiments import head_analysis
from mha_course.lessons.l17_what_heads_do import head_tables


@pytest.fixture(scope="module")
def model():
    return example.trained_model()


@pytest.fixture(scope="module")
def texts():
    return sentences(150, "test", seed=77)


def test_columns_are_the_heads_layer_after_layer(model, texts):
    weights = head_analysis.all_weights(model, texts)
    (place,) = head_tables.baseline_table(model, texts, ["pronoun"])
    assert torch.equal(place, head_analysis.position_baseline(weights, texts, "pronoun").flatten())
    names = [f"L{layer} H{head}" for layer in range(2) for head in range(4)]
    assert head_tables.head_names(model) == names
    assert {relation for text in texts for relation in text.pairs} == set(head_tables.RELATIONS)


def test_a_hidden_word_is_the_one_that_asks(model, texts):
    masked = head_tables.hide_first_word(texts, "noun")
    whole = [(text, pair) for text in texts for pair in text.pairs["noun"]]
    for text, (before, pair) in zip(masked, whole, strict=True):
        assert text.pairs == {"noun": (pair,)}
        assert text.words[pair[0]] == "<mask>"
        back = (*text.words[: pair[0]], before.words[pair[0]], *text.words[pair[0] + 1 :])
        assert (back, text.kind) == (before.words, before.kind)
    assert (
        head_analysis.relation_table(
            model, head_tables.hide_first_word(texts, "pronoun"), ["pronoun"]
        )[0, 5]
        > 0.8
    )


def test_mean_ablation_puts_the_mean_in_the_place_of_a_head(model, texts):
    """By hand: head 2 of layer 1 has the mean of its contexts over all words of all sentences."""
    means = head_tables.mean_contexts(model, texts)
    assert means.shape == (2, 48)
    block, width = model.blocks[1], 12
    rows = [
        block.attention.steps(model.attention_inputs(example.encode([text.words])[0])[1]).merged
        for text in texts
    ]
    merged = torch.cat([row[0] for row in rows])  # all words, (N, C)
    assert torch.allclose(means[1], merged.mean(0), atol=1e-5)
    ablated = head_analysis.ablate_heads(model, [(-1, 2)], means)
    replaced = rows[0].clone()
    replaced[..., 2 * width : 3 * width] = means[1, 2 * width : 3 * width]
    x = model.attention_inputs(example.encode([texts[0].words])[0])[1]
    assert torch.allclose(
        ablated.blocks[1].attention(x)[0], block.attention.out_proj(replaced), atol=1e-5
    )
    assert torch.equal(model.blocks[1].attention.out_proj.bias, block.attention.out_proj.bias)


@pytest.mark.parametrize(
    "means", [None, torch.linspace(-1, 1, 96).view(2, 48)], ids=["zero", "mean"]
)
def test_what_is_lost_is_the_difference_of_two_accuracies(model, texts, means):
    found = head_tables.accuracy_lost(model, texts, ["pronoun"], [[(0, 0), (1, 1)], []], means)[0]
    ablated = head_analysis.ablate_heads(
        head_analysis.ablate_heads(model, [(0, 0)], means), [(1, 1)], means
    )
    full, both = (head_analysis.accuracy(m, texts, "pronoun") for m in (model, ablated))
    assert found[0].item() == pytest.approx(full - both, abs=1e-6)
    assert found[1] == 0


def test_pairs_are_symmetric_and_hold_the_single_heads(model, texts):
    few = texts[:60]
    found = head_tables.accuracy_lost_in_pairs(model, few, "adjective")
    assert torch.equal(found, found.T)
    lost = head_tables.accuracy_lost(
        model, few, ["adjective"], [[(0, 0)], [(1, 3)], [(1, 2), (1, 3)]]
    )[0]
    assert torch.equal(lost, torch.stack([found[0, 0], found[7, 7], found[6, 7]]))


def test_the_word_that_is_raised_most_is_meant_or_not():
    """Tables by hand: the right words raised, all wrong ones, and words that do not compete."""
    index = {word: number for number, word in enumerate(vocabulary())}
    for meant in head_tables.meant_words().values():
        right = torch.zeros(len(index), len(index))
        for word, words in meant.items():
            right[index[word], index[words[-1]]] = 1.0
        assert head_tables.meant_share(right, meant) == 1
        assert head_tables.meant_share(-right, meant) < 0.1
        half = right.clone()
        for word in list(meant)[::2]:
            half[index[word]] *= -1
        assert head_tables.meant_share(half, meant) == pytest.approx(0.5, abs=0.1)
        right[:, index["<pad>"]] = 0.5  # less than what is right
        assert head_tables.meant_share(right, meant) == 1
    adjectives = head_tables.meant_words()["noun → its adjectives"]
    assert head_tables.meant_by_chance(adjectives) == 2 / 32
    raised = torch.zeros(len(index), len(index))
    for noun, words in adjectives.items():
        raised[index[noun], index[words[0]]] = 1.0
        raised[index[noun], index["the"]] = 2.0  # no adjective
    assert head_tables.meant_share(raised, adjectives) == 1


def test_what_is_meant_stands_together_in_the_sentences(texts):
    meant = head_tables.meant_words()
    pairs = {
        "noun → its pronoun": [("pronoun", True)],
        "noun → its adjectives": [("adjective", False)],
        "adjective → its noun": [("noun", False)],
        "state → its verb": [("state", True)],
        "adverb → its verb": [("adverb", True)],
    }
    assert [*pairs, "word → itself"] == list(meant)
    forms = {"him": "he", "her": "she", "them": "they"}
    for name, relations in pairs.items():
        for relation, turned in relations:
            for text in texts:
                for start, end in text.pairs.get(relation, ()):
                    words = [text.words[start], text.words[end]]
                    first, second = words[::-1] if turned else words
                    assert forms.get(second, second) in meant[name][first]


def test_because_in_the_place_of_either_word_keeps_the_weight_of_position_heads(model, texts):
    rows = head_tables.with_because(model, texts)
    assert [row[0] for row in rows] == ["L1 H1", "L1 H1", "L0 H1", "L0 H3", "L1 H2", "L1 H3"]
    table = head_analysis.relation_table(model, texts, ["pronoun", "subject", "adjective"])
    measured = [table[0, 5], table[1, 5], table[2, 1], table[2, 3], table[2, 6], table[2, 7]]
    assert [row[2] for row in rows] == pytest.approx([float(weight) for weight in measured])
    pronoun, *_, second, third = rows
    assert min(pronoun[4], *second[4:], *third[4:]) > 0.8
    assert max(row[3] for row in (pronoun, second, third)) < 0.1
