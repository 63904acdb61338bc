"""What ablation cannot tell, against measures computed by hand."""

import pytest
import torch
from rewriting import generator

from mha_course import example
from mha_course.datasets.grammar import PRONOUNS, sentences
from mha_course.experiments import head_analysis
from mha_course.lessons.l17_what_heads_do import head_tables, limits


@pytest.fixture(scope="module")
def model():
    return example.trained_model()


def hidden(count, split, seed):
    return head_tables.hide_first_word(sentences(count, split, seed=seed), "pronoun")


def test_what_is_after_the_last_attention_becomes_the_guess(model):
    texts = hidden(20, "test", 3)
    x = limits.after_attention(model, texts, 1)
    block = model.blocks[1]
    logits = model.to_words(model.encoder.norm(x + block.feed_forward(block.norm2(x))))
    ids, mask = example.encode([text.words for text in texts])
    assert torch.allclose(logits, model(ids, mask)[ids == example.MASK], atol=1e-4)


def test_every_ablated_head_moves_words_away_from_what_is_known(model):
    """For other sentences than those of the page, by zero and by mean."""
    known, texts = sentences(300, "train", seed=8), hidden(80, "test", 77)
    means = head_tables.mean_contexts(model, known)
    known = head_tables.hide_first_word(known, "pronoun")
    for instead in (None, means):
        moved = limits.distance_moved(model, texts, known, instead)
        assert moved.shape == (8,)
        assert moved.min() > 1.2
        assert moved[:4].min() > 2.5
    met = limits.after_attention(model, known, 0)
    ablated = head_analysis.ablate_heads(model, [(0, 2)], means)
    nearest = [
        torch.stack([(row - other).norm() for other in met]).min()
        for row in limits.after_attention(ablated, texts[:5], 0)
    ]
    own = [
        torch.stack([(row - other).norm() for other in met]).min()
        for row in limits.after_attention(model, texts[:5], 0)
    ]
    found = limits.distance_moved(model, texts[:5], known, means)[2]
    assert found.item() == pytest.approx(float(sum(nearest) / sum(own)), rel=1e-3)


def test_directions_of_pronouns_carry_one_of_two_jobs(model):
    """Of other sentences than those of the page: most of the one job, little of the other."""
    directions = limits.pronoun_directions(model, 1, 1)
    assert torch.allclose(directions @ directions.T, torch.eye(3), atol=1e-5)
    texts = sentences(400, "test", seed=77)
    without_spare = head_analysis.ablate_heads(model, [(1, 0)])
    random = torch.linalg.qr(torch.randn(12, 3, generator=generator()))[0].T
    pronoun, consequence = (
        torch.tensor([head_tables.accuracies(each, texts, [word]).item() for each in models])
        for models in [
            [
                without_spare,
                head_analysis.ablate_heads(without_spare, [(1, 1)]),
                limits.ablate_directions(without_spare, (1, 1), directions),
                limits.ablate_directions(without_spare, (1, 1), random),
            ]
        ]
        for word in ("pronoun", "state")
    )
    lost_pronoun, lost_consequence = pronoun[0] - pronoun, consequence[0] - consequence
    assert lost_pronoun[2] > 0.6 * lost_pronoun[1] > 0.2
    assert lost_consequence[2] < 0.3 * lost_consequence[1]
    assert max(lost_pronoun[3], lost_consequence[3]) < 0.1


def test_directions_hold_what_nouns_of_different_pronouns_differ_in(model):
    directions = limits.pronoun_directions(model, 1, 1)
    block = model.blocks[1]
    ids = example.encode([list(PRONOUNS)])[0][0]
    values = block.attention.v_proj(block.norm1(model.token_embedding.weight[ids]))[:, 12:24]
    rest = values - values @ directions.T @ directions
    pronouns = list(PRONOUNS.values())
    groups = [rest[[own == each for own in pronouns]].mean(0) for each in set(pronouns)]
    assert all(torch.allclose(group, groups[0], atol=1e-4) for group in groups)


def test_all_directions_are_the_whole_head(model):
    texts = hidden(20, "test", 5)
    all_of_it = limits.ablate_directions(model, (1, 2), torch.eye(12))
    want = head_analysis.ablate_heads(model, [(1, 2)])
    found, want = (limits.after_attention(each, texts, 1) for each in (all_of_it, want))
    assert torch.allclose(found, want, atol=1e-5)


def test_few_words_are_read_back_from_a_sum_and_many_are_not():
    square = torch.eye(30)
    assert limits.words_read_back(square, 5, generator()) == 1
    narrow = torch.randn(30, 4, generator=generator(1))
    assert limits.words_read_back(narrow, 1, generator()) == 1
    assert limits.words_read_back(narrow, 5, generator()) < 0.1
