"""References agree with an authority, where PyTorch has no such function."""

import math

import pytest
import seaborn as sns
import torch
from rewriting import TOLERANCE, numbers, same

from mha_course import masks
from mha_course.lessons.l15_language_model.exercises import generate
from mha_course.lessons.l17_what_heads_do.exercises import other_weights

T, S = 5, 7


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_other_weights_give_the_same_context(dtype):
    for tokens, width in ((9, 3), (8, 6), (12, 6), (40, 12)):
        for seed in range(5):
            weights = (
                (numbers(T, tokens, seed=seed) * (seed > 0)).softmax(-1).to(dtype)
            )  # the first ones uniform
            v = numbers(tokens, width, seed=seed + 9, dtype=dtype)
            before = weights.clone()
            got = other_weights(weights, v)
            assert torch.equal(weights, before)
            same(got @ v, weights @ v, dtype)
            same(got.sum(-1), torch.ones(T), dtype)
            assert (got >= 0).all()
            assert ((got - weights).abs().sum(-1) > 0.02).all()  # every row


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_other_weights_leave_hidden_keys_hidden(dtype):
    for tokens, width in ((9, 3), (5, 3), (8, 6)):
        hidden = ~masks.causal_mask(tokens)
        weights = numbers(tokens, tokens, dtype=dtype).masked_fill(hidden, -math.inf).softmax(-1)
        v = numbers(tokens, width, seed=1, dtype=dtype)
        got = other_weights(weights, v)
        assert not got[hidden].any()
        same(got @ v, weights @ v, dtype)
        same(got[: width + 1], weights[: width + 1], dtype)  # too few tokens to move among
        assert ((got - weights).abs().sum(-1)[width + 1 :] > 0.02).all()
        repeated = v[:1].expand(tokens, -1)  # equal values: any weights do
        same(other_weights(weights, repeated) @ repeated, weights @ repeated, dtype)


def test_generated_text_keeps_no_graph():
    tracked = []

    def model(ids):
        tracked.append(torch.is_grad_enabled())
        return torch.eye(5)[ids]

    generate(model, torch.tensor([[1, 2]]), 2)
    assert tracked == [False, False]


def test_seaborn_leaves_out_what_is_hidden():
    mask = numbers(T, S) > 0
    axes = sns.heatmap(torch.ones(T, S).numpy(), mask=mask.numpy(), cbar=False)
    drawn = torch.tensor(~axes.collections[0].get_array().mask).view(T, S)
    assert torch.equal(masks.to_attend(mask, "seaborn"), drawn)
