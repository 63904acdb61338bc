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
    place = head_analysis.baseline_table(model, texts, ["pronoun"])
    assert torch.equal(
        place[0], head_analysis.position_baseline(weights, texts, "pronoun").flatten()
    )
    assert head_analysis.head_names(model) == [
        "L0 H0",
        "L0 H1",
        "L0 H2",
        "L0 H3",
        "L1 H0",
        "L1 H1",
        "L1 H2",
        "L1 H3",
    ]


def test_places_where_words_belong_together_in_another_way_do_not_count():
    """Heads that look at related words alone, and at nothing else: whatever the relation, places
    explain nothing.
    """
    drawn, baseline = sentences(300, "test", seed=5), head_analysis.position_baseline
    weights = torch.zeros(1, len(drawn), 1, 15, 15)
    for n, text in enumerate(drawn):
        for relation, pairs in text.pairs.items():
            for start, end in pairs:
                weights[0, n, 0, start, end] = float(relation != "distractor")
    for relation in head_analysis.RELATIONS:
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


def test_a_hidden_word_is_the_one_that_asks(model, texts):
    masked = head_analysis.hide_first_word(texts, "noun")
    whole = [(text, pair) for text in texts for pair in text.pairs["noun"]]
    for text, (before, pair) in zip(masked, whole, strict=True):
        assert text.pairs == {"noun": (pair,)}
        assert text.words[pair[0]] == "<mask>"
        back = (*text.words[: pair[0]], before.words[pair[0]], *text.words[pair[0] + 1 :])
        assert (back, text.kind) == (before.words, before.kind)
    assert (
        head_analysis.relation_table(
            model, head_analysis.hide_first_word(texts, "pronoun"), ["pronoun"]
        )[0, 5]
        > 0.8
    )


def test_was_and_were_are_measured_where_no_pronoun_tells(texts):
    chosen = head_analysis.relevant_sentences(texts, "subject")
    assert {text.kind for text in chosen} == {"agreement"}
    assert {text.kind for text in head_analysis.relevant_sentences(texts, "state")} == {
        "agreement",
        "so",
    }
    assert not {"it", "he", "she", "they"} & {word for text in chosen for word in text.words}


def test_mean_ablation_puts_the_mean_in_the_place_of_a_head(model, texts):
    """By hand: head 2 of layer 1 has the mean of its contexts over all words of all sentences."""
    means = head_analysis.mean_contexts(model, texts)
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
    heads = [(0, 0), (1, 1)]
    found = head_analysis.accuracy_lost(model, texts, ["pronoun"], [heads, []], means)[0]
    ablated = head_analysis.ablate_heads(
        head_analysis.ablate_heads(model, [(0, 0)], means), [(1, 1)], means
    )
    full, both = (head_analysis.accuracy(m, texts, "pronoun") for m in (model, ablated))
    assert found[0].item() == pytest.approx(full - both, abs=1e-6)
    assert found[1] == 0


def test_pairs_are_symmetric_and_hold_the_single_heads(model, texts):
    few = texts[:60]
    found = head_analysis.accuracy_lost_in_pairs(model, few, "adjective")
    assert torch.equal(found, found.T)
    lost = head_analysis.accuracy_lost(
        model, few, ["adjective"], [[(0, 0)], [(1, 3)], [(1, 2), (1, 3)]]
    )[0]
    assert torch.equal(lost, torch.stack([found[0, 0], found[7, 7], found[6, 7]]))


def test_a_word_is_moved_and_its_place_stays():
    """All words of a sentence stay, and the two pairs lead to the word that moved and to where it
    stood.
    """
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
