"""What test_right_and_wrong.py does not prove of the references."""

import itertools
import math

import pytest
import seaborn as sns
import solutions
import torch
from rewriting import TOLERANCE, fails_with, numbers, refused, same
from torch import nn
from torch.nn import functional as F

from mha_course import caching, flash, masks, positions
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.diagnose import mutants

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
DTYPES = tuple(TOLERANCE)


def encoder_block_equals_torchs_layer(dtype):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(
        C, H, 40, 0.0, F.gelu, batch_first=True, norm_first=True, dtype=dtype
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.3)
    x = numbers(B, S, C, dtype=dtype)
    before = x.clone()
    got = solutions.encoder_block(
        x,
        lambda y: layer.self_attn(y, y, y)[0],
        lambda y: layer.linear2(F.gelu(layer.linear1(y))),
        layer.norm1,
        layer.norm2,
    )
    same(got.detach(), layer(x).detach(), dtype)
    assert torch.equal(x, before)


def other_weights_give_the_same_context(dtype):
    for tokens, width in ((9, 3), (8, 6), (12, 6), (40, 12)):
        for seed in range(5):
            weights = (
                (numbers(T, tokens, seed=seed) * (seed > 0)).softmax(-1).to(dtype)
            )  # the first ones uniform
            v = numbers(tokens, width, seed=seed + 9, dtype=dtype)
            before = weights.clone()
            got = solutions.other_weights(weights, v)
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


def other_weights_leave_hidden_keys_hidden(dtype):
    for tokens, width in ((9, 3), (5, 3), (8, 6)):
        hidden = ~masks.causal_mask(tokens)
        weights = numbers(tokens, tokens, dtype=dtype).masked_fill(hidden, -math.inf).softmax(-1)
        v = numbers(tokens, width, seed=1, dtype=dtype)
        got = solutions.other_weights(weights, v)
        assert not got[hidden].any()
        same(got @ v, weights @ v, dtype)
        same(got[: width + 1], weights[: width + 1], dtype)  # too few tokens to move among
        assert ((got - weights).abs().sum(-1)[width + 1 :] > 0.02).all()
        repeated = v[:1].expand(tokens, -1)  # equal values: any weights do
        same(solutions.other_weights(weights, repeated) @ repeated, weights @ repeated, dtype)


def generated_text_begins_as_it_did_and_keeps_no_graph(dtype):
    pairs, graphs = numbers(11, 11, 11, dtype=dtype).requires_grad_(), []
    start = torch.tensor([[1, 2, 3], [4, 5, 6]])
    got = solutions.generate(
        lambda ids: graphs.append(pairs[ids.roll(1, 1), ids]) or graphs[-1], start, 2
    )
    assert torch.equal(got[:, :3], start)
    assert torch.equal(solutions.generate(lambda ids: pairs[0][ids], start, 0), start)
    assert not any(logits.requires_grad for logits in graphs)


def a_loop_over_heads_is_torchs_module(dtype):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(C, H, bias=False, batch_first=True, dtype=dtype)
    weights = *module.in_proj_weight.chunk(3), module.out_proj.weight
    x = numbers(B, S, C, dtype=dtype)
    got = solutions.heads_in_a_loop(x, *weights, H)
    same(got.detach(), module(x, x, x)[0].detach(), dtype)


def a_circuit_is_what_a_head_makes_of_the_one_token_it_sees(dtype):
    """Head h of PyTorch's module, alone with W_O, with a mask that shows one token."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(C, H, bias=False, batch_first=True, dtype=dtype)
    x = numbers(B, S, C, dtype=dtype)
    hidden = torch.arange(S) != 4
    w_v, w_o = module.in_proj_weight[2 * C :], module.out_proj.weight
    total = module(x, x, x, attn_mask=hidden.expand(S, S))[0]
    circuits = [solutions.ov_circuit(w_v, w_o, head, H) for head in range(H)]
    same(sum(circuits).detach() @ x[0, 4], total[0, 0].detach(), dtype)
    for head, circuit in enumerate(circuits):
        with torch.no_grad():
            alone = w_o.clone()
            alone[:, : D * head] = alone[:, D * head + D :] = 0
            value = F.linear(F.linear(x[0, 4], w_v), alone)
        same(circuit.detach() @ x[0, 4], value, dtype)


def pages_give_back_what_was_written_into_them(dtype):
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
            assert torch.equal(solutions.gather_pages(pages, table, length), text)


def merged_shares_are_what_pytorch_gives_for_all_keys(dtype):
    """Shares of any size, in any order, some of them empty, against one call of PyTorch's."""
    q, k, v = (numbers(B, H, n, D, seed=seed, dtype=dtype) for seed, n in enumerate((T, S, S)))
    want = nn.functional.scaled_dot_product_attention(q, k, v)
    for share in ([[0, 1], [2, 3, 4, 5, 6]], [[6], [], [0, 5, 2], [1, 3, 4]], [[*range(S)], []]):
        parts = []
        for keys in share:
            scores = q @ k[:, :, keys].mT / D**0.5
            high = scores.amax(-1) if keys else torch.full(q.shape[:3], -math.inf, dtype=dtype)
            sums = (scores - high[..., None]).exp().sum(-1)
            weights = scores.softmax(-1)
            parts.append((high, sums, weights @ v[:, :, keys]))
        inputs = [torch.stack(each).requires_grad_() for each in zip(*parts, strict=True)]
        got = solutions.merge_partials(*inputs)
        same(got.detach(), want, dtype)
        assert all(x.isfinite().all() for x in torch.autograd.grad(got.square().sum(), inputs))
    empty = torch.full((3, B, H, T), -math.inf, dtype=dtype)
    nothing = torch.zeros(3, B, H, T, D, dtype=dtype)
    assert not solutions.merge_partials(empty, nothing[..., 0], nothing).any()


def drafts_that_are_kept_or_redrawn_follow_the_large_model(dtype):
    """Go through all drafts, and through dice on which p / q is met exactly."""
    p, other = torch.tensor([[2, 5, 1, 0, 0], [4, 1, 2, 1, 0]], dtype=dtype) / 8
    for q in (p, other):
        written, residuals = torch.zeros_like(p), []
        for draft, uniform in itertools.product(q.nonzero().flatten().tolist(), range(8)):
            accepted, residual = solutions.accept_or_redraw(p, q, draft, uniform / 8)
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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "check", dict.fromkeys(itertools.chain(*CHECKS.values())), ids=lambda check: check.__name__
)
def test_agrees(check, dtype):
    check(dtype)


def disagrees(name, wrong):
    return any(
        fails_with(check, solutions, {name: wrong}, dtype)
        for check in CHECKS[name]
        for dtype in DTYPES
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKS)
def test_known_mistakes_disagree(name):
    for mutant in mutants(name):
        assert disagrees(name, EXERCISES[name].implementation(mutant.change)), mutant


def reweighing(ones=1.0, values=1.0, size=1.0, rounding=1e-6, direction=0, dtype=None):
    def other_weights(weights, v):
        weights_64 = weights.double()
        kept = torch.cat((values * v, torch.full_like(v[:, :1], ones)), dim=1).double()
        null_space = torch.linalg.svd((weights_64[:, :, None] * kept).mT).Vh[:, kept.size(1) :]
        directions = torch.linalg.svd(null_space * weights_64[:, None]).U[:, :, direction, None]
        factors = (null_space.mT @ directions).squeeze(-1)
        largest, smallest = factors.amax(-1, keepdim=True), factors.amin(-1, keepdim=True)
        limit = torch.where(largest < -smallest, -largest, -smallest)
        factors = torch.where(limit.abs() >= rounding, factors / limit, 0.0)
        return (weights_64 * (1 + size * factors)).to(dtype or weights.dtype)

    return other_weights


def added_in_place(x, attend, feed_forward, norm1, norm2):
    x += attend(norm1(x)).detach()
    return x + feed_forward(norm2(x))


def generating(gradients=torch.no_grad):
    def generate(model, ids, steps):
        for _ in range(steps):
            with gradients():
                ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), dim=1)
        return ids

    return generate


OTHER_MISTAKES = [  # name, the wrong function
    ("encoder_block", added_in_place),
    ("generate", generating(torch.enable_grad)),
    ("other_weights", reweighing(ones=0.0)),
    ("other_weights", reweighing(values=0.0)),
    ("other_weights", reweighing(size=3)),
    ("other_weights", reweighing(size=1e-3)),
    ("other_weights", reweighing(size=0)),
    ("other_weights", reweighing(rounding=0.0)),
    ("other_weights", reweighing(dtype=torch.float32)),
    ("other_weights", reweighing(direction=-1)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "wrong"), OTHER_MISTAKES)
def test_other_mistakes_disagree(name, wrong):
    assert disagrees(name, wrong)


@pytest.mark.parametrize(
    ("name", "right"), [("other_weights", reweighing()), ("generate", generating())]
)
def test_what_other_mistakes_are_made_with_is_right(name, right):
    assert not any(
        fails_with(check, solutions, {name: right}, torch.float64) for check in CHECKS[name]
    )


def test_seaborn_leaves_out_what_is_hidden():
    mask = numbers(T, S) > 0
    axes = sns.heatmap(torch.ones(T, S).numpy(), mask=mask.numpy(), cbar=False)
    drawn = torch.tensor(~axes.collections[0].get_array().mask).view(T, S)
    assert torch.equal(solutions.to_attend(mask, "seaborn"), drawn)


def test_tiles_need_keys_and_a_value_for_each():
    q, cache = numbers(B, H, T, D), numbers(B, H, S, D)
    message = "tiled_attention: there must be a key to attend to. expected S >= 1, got S=0"
    refused(lambda: flash.tiled_attention(q, cache[:, :, :0], cache[:, :, :0], 2), message)
    message = (
        "tiled_attention: v has the wrong S. expected (B=2, H=4, S=7, D), got (B=2, H=4, S=5, D=6)"
    )
    refused(lambda: flash.tiled_attention(q, cache, cache[:, :, :5], 2), message)


def test_results_are_where_the_inputs_are(device):
    k, v = (numbers(B, H, S, D, seed=seed).to(device) for seed in range(2))
    assert positions.rope(k, torch.arange(S)).device == k.device
    weights = [numbers(C, C, seed=seed).to(device) for seed in range(4)]
    out, *_ = caching.decode_step(numbers(B, 1, C).to(device), k, v, *weights, H)
    assert out.device == k.device
    other = solutions.other_weights(numbers(T, S).softmax(-1).to(device), numbers(S, 3).to(device))
    assert other.device == k.device
