"""References agree with an authority, where PyTorch has no such function."""

import itertools
import math
from types import SimpleNamespace

import pytest
import seaborn as sns
import torch
from rewriting import TOLERANCE, fails, numbers, same
from torch import nn
from torch.nn import functional as F

from mha_course import masks
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.recognise import mutants

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
DTYPES = tuple(TOLERANCE)


def encoder_block_equals_torchs_layer(answers, dtype):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(
        C, H, 40, 0.0, F.gelu, batch_first=True, norm_first=True, dtype=dtype
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.3)
    x = numbers(B, S, C, dtype=dtype)
    before = x.clone()
    got = answers.encoder_block(
        x,
        lambda y: layer.self_attn(y, y, y)[0],
        lambda y: layer.linear2(F.gelu(layer.linear1(y))),
        layer.norm1,
        layer.norm2,
    )
    same(got.detach(), layer(x).detach(), dtype)
    assert torch.equal(x, before)


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


def generated_text_begins_as_it_did_and_keeps_no_graph(answers, dtype):
    pairs, graphs = numbers(11, 11, 11, dtype=dtype).requires_grad_(), []
    start = torch.tensor([[1, 2, 3], [4, 5, 6]])
    got = answers.generate(
        lambda ids: graphs.append(pairs[ids.roll(1, 1), ids]) or graphs[-1], start, 2
    )
    assert torch.equal(got[:, :3], start)
    assert got.size(1) == 5
    assert torch.equal(answers.generate(lambda ids: pairs[0][ids], start, 0), start)
    assert not any(logits.requires_grad for logits in graphs)


def a_loop_over_heads_is_torchs_module(answers, dtype):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(C, H, bias=False, batch_first=True, dtype=dtype)
    weights = *module.in_proj_weight.chunk(3), module.out_proj.weight
    x = numbers(B, S, C, dtype=dtype)
    same(answers.heads_in_a_loop(x, *weights, H).detach(), module(x, x, x)[0].detach(), dtype)


def a_circuit_is_what_a_head_makes_of_the_one_token_it_sees(answers, dtype):
    """Only head h of PyTorch's module, with W_O and a mask that shows one token."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(C, H, bias=False, batch_first=True, dtype=dtype)
    x = numbers(B, S, C, dtype=dtype)
    hidden = torch.arange(S) != 4
    w_v, w_o = module.in_proj_weight[2 * C :], module.out_proj.weight
    total = module(x, x, x, attn_mask=hidden.expand(S, S))[0]
    circuits = [answers.ov_circuit(w_v, w_o, head, H) for head in range(H)]
    same(sum(circuits).detach() @ x[0, 4], total[0, 0].detach(), dtype)
    for head, circuit in enumerate(circuits):
        with torch.no_grad():
            alone = w_o.clone()
            alone[:, : D * head] = alone[:, D * head + D :] = 0
            value = F.linear(F.linear(x[0, 4], w_v), alone)
        same(circuit.detach() @ x[0, 4], value, dtype)


def pages_give_back_what_was_written_into_them(answers, dtype):
    """Tokens are written one by one, each where a page table puts it, as in a paging system."""
    for size, length in ((4, 11), (4, 8), (1, 5), (16, 3), (4, 0)):
        text = numbers(H, length, D, dtype=dtype)
        pages = torch.full((13, H, size, D), 99.0, dtype=dtype)
        frames = torch.randperm(13, generator=torch.Generator().manual_seed(length))
        for token in range(length):
            pages[frames[token // size], :, token % size] = text[:, token]
        used = -(-length // size)
        for behind in ([], [-1, 10**6]):
            table = torch.tensor([*frames[:used].tolist(), *behind], dtype=torch.long)
            assert torch.equal(answers.gather_pages(pages, table, length), text)


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
    "gather_pages": (pages_give_back_what_was_written_into_them,),
    "merge_partials": (merged_shares_are_what_pytorch_gives_for_all_keys,),
    "accept_or_redraw": (drafts_that_are_kept_or_redrawn_follow_the_large_model,),
    "heads_in_a_loop": (a_loop_over_heads_is_torchs_module,),
    "ov_circuit": (a_circuit_is_what_a_head_makes_of_the_one_token_it_sees,),
    "encoder_block": (encoder_block_equals_torchs_layer,),
    "generate": (generated_text_begins_as_it_did_and_keeps_no_graph,),
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
