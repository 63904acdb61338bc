"""References agree with an authority, where PyTorch has no such function."""

import itertools
import math
from types import SimpleNamespace

import pytest
import seaborn as sns
import torch
from rewriting import TOLERANCE, fails, numbers, same
from torch import nn

from mha_course import masks
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.recognise import mutants

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
DTYPES = tuple(TOLERANCE)


def other_weights_give_the_same_context(answers, dtype):
    for tokens, width in ((9, 3), (8, 6), (12, 6), (40, 12)):
        for seed in range(5):
            weights = (
                (numbers(T, tokens, seed=seed) * (seed > 0)).softmax(-1).to(dtype)
            )  # the first ones uniform
            v = numbers(tokens, width, seed=seed + 9, dtype=dtype)
            before = weights.clone()
            got = answers.other_weights(weights, v)
            assert torch.equal(weights, before)
            same(got @ v, weights @ v, dtype)
            same(got.sum(-1), torch.ones(T), dtype)
            assert (got >= 0).all()
            assert ((got - weights).abs().sum(-1) > 0.02).all()  # every row
            change = (got - weights).double()
            null = torch.linalg.svd(torch.cat((v, torch.ones_like(v[:, :1])), 1).double().T).Vh[
                width + 1 :
            ]
            assert torch.allclose(change @ null.T @ null, change, atol=1e-6)


def other_weights_leave_hidden_keys_hidden(answers, dtype):
    for tokens, width in ((9, 3), (5, 3), (8, 6)):
        hidden = ~masks.causal_mask(tokens)
        weights = numbers(tokens, tokens, dtype=dtype).masked_fill(hidden, -math.inf).softmax(-1)
        v = numbers(tokens, width, seed=1, dtype=dtype)
        got = answers.other_weights(weights, v)
        assert not got[hidden].any()
        same(got @ v, weights @ v, dtype)
        same(got[: width + 1], weights[: width + 1], dtype)  # too few tokens to move among
        assert ((got - weights).abs().sum(-1)[width + 1 :] > 0.02).all()
        repeated = v[:1].expand(tokens, -1)  # equal values: any weights do
        same(answers.other_weights(weights, repeated) @ repeated, weights @ repeated, dtype)


def merged_shares_are_what_pytorch_gives_for_all_keys(answers, dtype):
    """Shares of any size, in any order, some of them empty, against one call of PyTorch's."""
    sizes = enumerate((T, S, S))
    ordinary, k, v = (numbers(B, H, n, D, seed=seed, dtype=dtype) for seed, n in sizes)
    halves = [[0, 1], [2, 3, 4, 5, 6]]
    in_shares = [(1, halves), (1, [[6], [], [0, 5, 2], [1, 3, 4]]), (1, [[*range(S)], []])]
    for factor, share in [*in_shares, (2000, halves)]:  # exponentials of such scores overflow
        q, parts = factor * ordinary, []
        want = nn.functional.scaled_dot_product_attention(q, k, v)
        for keys in share:
            scores = q @ k[:, :, keys].mT / D**0.5
            high = scores.amax(-1) if keys else torch.full(q.shape[:3], -math.inf, dtype=dtype)
            sums = (scores - high[..., None]).exp().sum(-1)
            weights = scores.softmax(-1)
            parts.append((high, sums, weights @ v[:, :, keys]))
        inputs = [torch.stack(each).requires_grad_() for each in zip(*parts, strict=True)]
        got = answers.merge_partials(*inputs)
        same(got.detach(), want, dtype)
        assert all(x.isfinite().all() for x in torch.autograd.grad(got.square().sum(), inputs))
    empty = torch.full((3, B, H, T), -math.inf, dtype=dtype)
    nothing = torch.zeros(3, B, H, T, D, dtype=dtype)
    assert not answers.merge_partials(empty, nothing[..., 0], nothing).any()


def drafts_that_are_kept_or_redrawn_follow_the_large_model(answers, dtype):
    """Go through all drafts, and through dice on which p / q is met exactly."""
    p, other = torch.tensor([[2, 5, 1, 0, 0], [4, 1, 2, 1, 0]], dtype=dtype) / 8
    for q in (p, other):
        written, residuals = torch.zeros_like(p), []
        for draft, uniform in itertools.product(q.nonzero().flatten().tolist(), range(8)):
            accepted, residual = answers.accept_or_redraw(p, q, draft, uniform / 8)
            word = torch.eye(5, dtype=dtype)[draft]
            written += q[draft] / 8 * (word if accepted else residual)
            residuals.append(residual)
        same(written, p, dtype)
        same(torch.stack(residuals), residuals[0].expand(len(residuals), 5), dtype)
        same(residuals[0].abs().sum(), torch.ones((), dtype=dtype), dtype)


CHECKS = {
    "merge_partials": (merged_shares_are_what_pytorch_gives_for_all_keys,),
    "accept_or_redraw": (drafts_that_are_kept_or_redrawn_follow_the_large_model,),
    "other_weights": (other_weights_give_the_same_context, other_weights_leave_hidden_keys_hidden),
}


REFERENCES = SimpleNamespace(**{name: each.reference for name, each in EXERCISES.items()})
ALL_CHECKS = dict.fromkeys(itertools.chain(*CHECKS.values()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.__name__)
def test_agrees(check, dtype):
    check(REFERENCES, dtype)


def disagrees(name, wrong):
    answers = SimpleNamespace(**{**vars(REFERENCES), name: wrong})
    return any(fails(check, answers, dtype) for check in CHECKS[name] for dtype in DTYPES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_known_mistakes_disagree(name):
    for mutant in mutants(name):
        assert disagrees(name, EXERCISES[name].implementation(mutant.change)), mutant


def test_seaborn_leaves_out_what_is_hidden():
    mask = numbers(T, S) > 0
    axes = sns.heatmap(torch.ones(T, S).numpy(), mask=mask.numpy(), cbar=False)
    drawn = torch.tensor(~axes.collections[0].get_array().mask).view(T, S)
    assert torch.equal(REFERENCES.to_attend(mask, "seaborn"), drawn)
