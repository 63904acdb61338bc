"""What ablation cannot tell, on other sentences than those of the page."""

import pytest
import torch
from rewriting import generator

from mha_course import example
from mha_course.datasets.grammar import PRONOUNS, sentences
from mha_course.experiments.head_analysis import ablate_heads
from mha_course.lessons.l17_what_heads_do import head_tables, limits

MODEL = example.trained_model()


def hidden(count, split, seed):
    return head_tables.hide_first_word(sentences(count, split, seed=seed), "pronoun")


def test_what_is_after_the_last_attention_becomes_the_guess():
    texts, block = hidden(20, "test", 3), MODEL.blocks[1]
    x = limits.after_attention(MODEL, texts, 1)
    logits = MODEL.to_words(MODEL.encoder.norm(x + block.feed_forward(block.norm2(x))))
    ids, mask = example.encode([text.words for text in texts])
    assert torch.allclose(logits, MODEL(ids, mask)[ids == example.MASK], atol=1e-4)


def test_the_distance_is_to_the_nearest_word_that_is_known():
    known, texts = hidden(300, "train", 8), hidden(80, "test", 77)
    means = head_tables.mean_contexts(MODEL, known)
    moved = limits.distance_moved(MODEL, texts, known, means)
    met = limits.after_attention(MODEL, known, 0)
    ablated, intact = (
        sum((row - met).norm(dim=1).min() for row in limits.after_attention(each, texts, 0))
        for each in (ablate_heads(MODEL, [(0, 2)], means), MODEL)
    )
    assert moved[2].item() == pytest.approx(float(ablated / intact), rel=1e-3)


def test_nouns_differ_by_their_pronouns_in_the_three_directions_alone():
    three, block = limits.pronoun_directions(MODEL, 1, 1), MODEL.blocks[1]
    assert torch.allclose(three @ three.T, torch.eye(3), atol=1e-5)
    nouns = MODEL.token_embedding.weight[example.encode([list(PRONOUNS)])[0][0]]
    values = block.attention.v_proj(block.norm1(nouns))[:, 12:24]
    rest = values - values @ three.T @ three
    owners = [[own == each for own in PRONOUNS.values()] for each in set(PRONOUNS.values())]
    assert all(torch.allclose(rest[own].mean(0), rest.mean(0), atol=1e-4) for own in owners)


def test_all_directions_are_the_whole_head():
    found = limits.ablate_directions(MODEL, (1, 2), torch.eye(12)).blocks[1].attention.out_proj
    want = ablate_heads(MODEL, [(1, 2)]).blocks[1].attention.out_proj
    assert torch.allclose(found.weight, want.weight, atol=1e-6)


def test_few_words_are_read_back_from_a_sum_and_many_are_not():
    narrow = torch.randn(30, 4, generator=generator(1))
    assert limits.words_read_back(torch.eye(30), 5, generator()) == 1
    assert limits.words_read_back(narrow, 1, generator()) == 1
    assert limits.words_read_back(narrow, 5, generator()) < 0.1
