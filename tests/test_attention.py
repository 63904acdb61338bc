"""The reference against PyTorch's own, finite differences, properties and wrong versions."""

import functools
import math
from unittest import mock

import numpy as np
import pytest
import torch
from rewriting import Largest, fails_with, numbers, refused, same_when_compiled
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from mha_course import attention as reference
from mha_course.attention import (
    MultiHeadAttention,
    attention,
    fused_attention,
    head_contributions,
    masked_softmax,
    merge_heads,
    multi_head_attention,
    repeat_kv,
    split_fused_qkv,
    split_heads,
)
from mha_course.caching import GroupedQueryAttention
from mha_course.masks import causal_mask, combine_masks, padding_mask
from mha_course.variants import from_torch, to_torch

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
MASKS = {
    "none": None,
    "causal": causal_mask(S),
    "padding": padding_mask([S, 4], S),
    "both": combine_masks(causal_mask(S), padding_mask([S, 4], S)),
}


def module_disagreement(dtype, device, mask):
    """Return the largest difference from PyTorch's module: values, weights, gradients."""
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(C, H, batch_first=True).to(device, dtype)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
    ours = MultiHeadAttention(C, H).to(device, dtype)
    ours.load_state_dict(from_torch(theirs).state_dict())
    linears = (ours.q_proj, ours.k_proj, ours.v_proj)
    x, target = (numbers(B, S, C, seed=n, dtype=dtype).to(device) for n in (2, 3))
    mask = None if mask is None else mask.to(device)
    mine, other = (x.clone().requires_grad_() for _ in range(2))
    out, weights = ours(mine, mask=mask)
    # True = ignore, (B * H, T, S), as their module means it
    hidden = None if mask is None else ~mask.expand(B, H, S, S).reshape(B * H, S, S)
    want, want_weights = theirs(other, other, other, attn_mask=hidden, average_attn_weights=False)
    fused, nothing = ours(mine.detach(), mask=mask, need_weights=False)
    assert nothing is None
    (out * target).sum().backward()
    (want * target).sum().backward()
    their_grads = [*theirs.in_proj_weight.grad.chunk(3), theirs.out_proj.weight.grad, other.grad]
    our_grads = [*(linear.weight.grad for linear in linears), ours.out_proj.weight.grad, mine.grad]
    our_grads = [
        torch.zeros_like(b) if a is None else a for a, b in zip(our_grads, their_grads, strict=True)
    ]
    pairs = [
        (out, want),
        (fused, want),
        (weights, want_weights),
        *zip(our_grads, their_grads, strict=True),
    ]
    differences = [
        float(((a - b).abs().max() / b.abs().max().clamp(min=1)).detach()) for a, b in pairs
    ]
    return max(differences, key=lambda d: math.inf if math.isnan(d) else d)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mask", MASKS)
def test_module_equals_pytorchs(dtype, mask, device):
    assert module_disagreement(dtype, device, MASKS[mask]) < TOLERANCE[dtype]


def equals_pytorchs():
    assert all(module_disagreement(torch.float64, "cpu", mask) < 1e-3 for mask in MASKS.values())


@pytest.mark.parametrize("mask", MASKS)
def test_the_plain_function_is_the_module_without_bias(mask, draw):
    """Gradients included."""
    torch.manual_seed(4)
    mha = MultiHeadAttention(C, H, bias=False).double()
    weights = [linear.weight for linear in mha.children()]
    x, upstream = draw(B, S, C).requires_grad_(), draw(B, S, C, seed=1)
    results = []
    for out, rows in (multi_head_attention(x, *weights, H, MASKS[mask]), mha(x, mask=MASKS[mask])):
        results.append([out, rows, *torch.autograd.grad(out, [x, *weights], upstream)])
    for mine, other in zip(*results, strict=True):
        assert torch.allclose(mine, other, rtol=0, atol=TOLERANCE[torch.float64])


steps = reference.AttentionModule.steps
WRONG = {
    "scale by the full width": (
        steps,
        "math.sqrt(q.size(-1))",
        "math.sqrt(q.size(-1) * q.size(1))",
    ),
    "no scale": (steps, " / math.sqrt(q.size(-1))", ""),
    "split without the transpose": (
        split_heads,
        "x.unflatten(2, (num_heads, -1)).transpose(1, 2)",
        "x.reshape(x.size(0), num_heads, x.size(1), -1)",
    ),
    "merge without the transpose": (
        merge_heads,
        "x.transpose(1, 2).flatten(2)",
        "x.reshape(x.size(0), x.size(2), -1)",
    ),
    "softmax over the queries": (
        reference._softmax_of_masked,
        "torch.softmax(masked_scores, dim=-1)",
        "torch.softmax(masked_scores, dim=-2)",
    ),
    "hidden where it may attend": (steps, "masked_fill(~mask", "masked_fill(mask"),
    "mask ignored in the fused path": (fused_attention, "opened = mask", "opened = True"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_lines_disagree(wrong):
    assert fails_with(equals_pytorchs, *WRONG[wrong])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_function_equals_sdpa_with_other_queries_than_keys(dtype, device, draw):
    sizes = ((T, D), (S, D), (S, 11))  # values may have a width of their own
    q, k, v = (
        draw(B, H, *size, seed=n, dtype=dtype, device=device) for n, size in enumerate(sizes)
    )
    mask = (draw(B, 1, T, S, seed=9, device=device) > 0) | (torch.arange(S, device=device) == 2)
    for attend in (None, mask, mask[0, 0]):
        context, weights = attention(q, k, v, attend)
        want = F.scaled_dot_product_attention(q, k, v, attend)
        assert torch.allclose(context, want, atol=TOLERANCE[dtype])
        assert torch.allclose(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_row_that_sees_nothing_is_zero_and_its_gradients_are_finite(
    dtype, need_weights, device, draw
):
    mha = MultiHeadAttention(C, H).to(device, dtype)
    x = draw(B, S, C, dtype=dtype, device=device).requires_grad_()
    mask = causal_mask(S, device=device).expand(B, 1, S, S).clone()
    mask[1, :, 3] = False
    with torch.autograd.set_detect_anomaly(True):  # which stops at the first NaN on the way
        out, weights = mha(x, mask=mask, need_weights=need_weights)
        out.float().square().sum().backward()
    assert torch.allclose(out[1, 3], mha.out_proj.bias)  # a context of 0, projected
    if weights is not None:
        assert not weights[1, :, 3].any()
        assert not mha.steps(x, mask=mask).context[1, :, 3].any()
    for tensor in (out, x.grad, *(p.grad for p in mha.parameters())):
        assert tensor.isfinite().all()


def test_gradients_equal_finite_differences(draw):
    mask = causal_mask(3)
    mask[1] = False
    inputs = [draw(1, 2, 3, 2, seed=n).requires_grad_() for n in range(3)]
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, mask), inputs)


def test_cross_attention_equals_pytorchs(draw):
    mha = MultiHeadAttention(C, H).double()
    x, memory, values = draw(B, T, C), draw(B, S, C, seed=1), draw(B, S, C, seed=2)
    for inputs in ((x, memory, memory), (x, memory, values)):
        out, weights = mha(*inputs)
        want, want_weights = to_torch(mha)(*inputs, average_attn_weights=False)
        assert torch.allclose(out, want)
        assert torch.allclose(weights, want_weights)
    assert torch.equal(mha(x, memory)[0], mha(x, memory, memory)[0])


def test_steps_are_one_pass_in_its_stages(draw):
    mha, x, mask = MultiHeadAttention(C, H).double(), draw(B, S, C), MASKS["both"]
    steps = mha.steps(x, mask=mask)
    out, weights = mha(x, mask=mask)
    assert torch.equal(steps.out, out)
    assert torch.equal(steps.weights, weights)
    assert torch.allclose(steps.scores, torch.einsum("bhtd,bhsd->bhts", steps.q, steps.k))
    assert torch.allclose(steps.scaled_scores * D**0.5, steps.scores)
    assert torch.equal(steps.masked_scores.isneginf(), ~mask.expand(B, H, S, S))
    assert torch.allclose(steps.context, torch.einsum("bhts,bhsd->bhtd", weights, steps.v))
    assert torch.equal(steps.merged, merge_heads(steps.context))
    with pytest.raises(AttributeError):
        steps.out = x  # what is shown of a pass stays as it was
    assert torch.allclose(out, F.linear(steps.merged, mha.out_proj.weight, mha.out_proj.bias))


def test_split_is_a_view_and_merge_undoes_it(draw):
    x = draw(B, S, C)
    heads = split_heads(x, H)
    assert heads.data_ptr() == x.data_ptr()
    assert torch.equal(heads[:, 2], x[:, :, 2 * D : 3 * D])
    assert torch.equal(merge_heads(heads), x)


def test_a_fused_projection_is_cut_into_q_k_and_v(draw):
    fused = draw(B, S, 3 * C)
    for got, part in zip(split_fused_qkv(fused, H), fused.chunk(3, dim=-1), strict=True):
        assert torch.equal(got, split_heads(part, H))


def test_what_heads_add_is_the_output_of_each_head_alone(draw):
    context, w_o = draw(B, H, T, D), draw(C, C, seed=1)
    contributions = head_contributions(context, w_o)
    for head in range(H):
        alone = context * (torch.arange(H) == head)[:, None, None]
        assert torch.allclose(contributions[:, head], merge_heads(alone) @ w_o.T)


def test_shuffling_tokens_shuffles_the_result(draw):
    mha, x = MultiHeadAttention(C, H).double(), draw(B, S, C)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert torch.allclose(mha(x[:, order])[0], mha(x)[0][:, order])


@pytest.mark.parametrize("need_weights", [True, False])
def test_causal_means_that_later_tokens_do_not_matter(need_weights, draw):
    mha, x = MultiHeadAttention(C, H).double(), draw(B, S, C)
    changed = x.clone()
    changed[:, 4:] += 1
    before, after = (
        mha(y, mask=causal_mask(S), need_weights=need_weights)[0] for y in (x, changed)
    )
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_no_bias_anywhere_when_none_is_wanted():
    assert all(linear.bias is None for linear in MultiHeadAttention(C, H, bias=False).children())


@pytest.mark.parametrize(
    ("batch", "groups", "keys"), [(2, 2, 7), (4, 2, 7), (2, 1, 4), (2, 4, 7), (3, 2, 5)]
)
def test_fused_heads_may_share_keys(batch, groups, keys, draw):
    q = draw(batch, H, T, D)
    k, v = (draw(batch, groups, keys, D, seed=n) for n in (1, 2))
    for given in (None, draw(batch, 1, T, keys, seed=3) > 0):
        want = attention(q, repeat_kv(k, H), repeat_kv(v, H), given)[0]
        assert torch.allclose(fused_attention(q, k, v, given), want)


def test_fused_says_that_heads_are_shared_only_where_they_are(draw):
    """Not every kernel of a GPU takes shared heads."""
    q, few = draw(B, H, T, D), draw(B, 2, T, D)
    with mock.patch.object(
        F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention
    ) as kernel:
        for k, shared in ((q, False), (few, True)):
            for mask in (None, causal_mask(T)):
                fused_attention(q, k, k, mask)
                assert kernel.call_args.kwargs["enable_gqa"] is shared


# The causal mask by name


def gradients_of(mha, x, **how):
    """Return out, and the gradients of x and of all parameters."""
    x = x.clone().requires_grad_()
    out, _ = mha(x, **how)
    upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view_as(out)
    return out.detach(), *torch.autograd.grad(out, [x, *mha.parameters()], upstream)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("make", [
    MultiHeadAttention, lambda width, heads: GroupedQueryAttention(width, heads, 2),
])  # fmt: skip
def test_is_causal_is_the_causal_mask(make, dtype, need_weights, device, draw):
    mha, x = make(C, H).to(device, dtype), draw(B, S, C, dtype=dtype, device=device)
    mask = causal_mask(S, device=device)
    got = gradients_of(mha, x, is_causal=True, need_weights=need_weights)
    want = gradients_of(mha, x, mask=mask, need_weights=need_weights)
    for mine, theirs in zip(got, want, strict=True):
        assert torch.allclose(mine, theirs, atol=10 * TOLERANCE[dtype])
    assert not torch.allclose(got[0], mha(x)[0], atol=1e-3)
    if need_weights:
        assert torch.equal(mha(x, is_causal=True)[1], mha(x, mask=mask)[1])


def test_is_causal_takes_no_mask_and_as_many_keys_as_queries(draw):
    x, memory = draw(B, T, C), draw(B, S, C, seed=1)
    cases = {
        "is_causal and a mask cannot be combined. expected one of them, got both, "
        "fix: mask=mask & causal_mask(S) instead of is_causal": (x, x, causal_mask(T)),
        "is_causal and a mask cannot be combined. expected one of them, got both": (
            x, memory, torch.ones(T, S).bool(),
        ),
        "is_causal needs as many queries as keys. expected T == S, got T=5, S=7, "
        "fix: mask=causal_mask_for_cache(T, S), where the queries are the last tokens": (
            x, memory, None,
        ),
        "is_causal needs as many queries as keys. expected T == S, got T=7, S=5": (memory, x, None),
    }  # fmt: skip
    module = GroupedQueryAttention(C, H, 2).double()
    for message, (query, key, mask) in cases.items():
        call = functools.partial(module, query, key, None, mask, is_causal=True)
        refused(call, f"GroupedQueryAttention: {message}")
    mha, padding = MultiHeadAttention(C, H).double(), padding_mask([T, 3], T)
    assert torch.equal(  # what the first message proposes
        mha(x, mask=padding & causal_mask(T))[0],
        mha(x, mask=combine_masks(causal_mask(T), padding))[0],
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_beyond_the_range_of_float16(dtype, device, draw):
    """40 · 40 · 64 = 102,400, divided by 8 it is in range: a fused kernel sees no overflow."""
    q = 40 + draw(B, H, T, 64, device=device).to(dtype)
    k = 40 + draw(B, H, S, 64, seed=1, device=device).to(dtype)
    v = draw(B, H, S, 64, seed=2, device=device).to(dtype)
    context, weights = attention(q, k, v)
    assert context.dtype == weights.dtype == dtype
    want = F.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
    assert (context - want).abs().max() < 0.03
    mha = MultiHeadAttention(64, 1, bias=False).to(device, dtype)
    torch.nn.init.eye_(mha.q_proj.weight)
    torch.nn.init.eye_(mha.k_proj.weight)
    out, weights = mha(q[:, 0])
    assert weights.dtype == out.dtype == dtype
    assert torch.allclose(out, mha(q[:, 0], need_weights=False)[0], atol=0.02)


@pytest.mark.filterwarnings("ignore:.*")
def test_is_causal_keeps_the_flash_kernel_of_a_gpu(device, draw):
    if device == "cpu":
        pytest.skip("the CPU's flash kernel takes masks too")
    mha = MultiHeadAttention(64, H).to(device, torch.bfloat16)
    x = draw(B, 128, 64, dtype=torch.bfloat16, device=device)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        flash = gradients_of(mha, x, is_causal=True, need_weights=False)
        with pytest.raises(RuntimeError, match="No available kernel"):
            mha(x, mask=causal_mask(128, device=device), need_weights=False)
    whole = gradients_of(mha, x, mask=causal_mask(128, device=device))
    for mine, theirs in zip(flash, whole, strict=True):
        assert (mine - theirs).abs().max() < 0.03 * theirs.abs().max()


def test_a_mask_is_read_only_where_one_is_given():
    """A mask that is made or read costs T x S values: none is where it is only named."""
    mha, x, mask, names = MultiHeadAttention(C, H), torch.zeros(B, S, C), causal_mask(S), []
    for how in ({"is_causal": True}, {"mask": mask}):
        with Largest() as operations:
            mha(x, need_weights=False, **how)
        names.append({operation.__name__ for operation in operations.calls})
    assert not {"any", "bitwise_not", "bitwise_or", "mul", "tril", "ones"} & names[0]
    assert {"any", "mul"} <= names[1]


ERRORS = {
    "split_heads: num_heads must divide C. expected C % num_heads == 0, got C=10, num_heads=4, "
    "fix: num_heads=2 or 5, or C=8 or 12": lambda: split_heads(torch.ones(2, 5, 10), 4),
    "merge_heads: x must have 4 axes. expected (B, H, S, D), got (2, 5, 24), fix: x.unsqueeze(0), "
    "a batch of one":
        lambda: merge_heads(torch.ones(B, T, C)),
    "attention: k has the wrong D. expected (B=2, H=4, S, D=6), got (B=2, H=4, S=7, D=5)":
        lambda: attention(torch.ones(B, H, T, D), *torch.ones(2, B, H, S, 5)),
    "MultiHeadAttention: dropout must be a share. expected 0 <= dropout < 1, got dropout=1.5":
        lambda: MultiHeadAttention(24, 4, dropout=1.5),
    "GroupedQueryAttention: num_heads must be a multiple of num_kv_heads. expected num_heads % "
    "num_kv_heads == 0, got num_heads=6, num_kv_heads=4, fix: num_kv_heads=1 or 2 or 3 or 6":
        lambda: GroupedQueryAttention(24, 6, 4),
    "repeat_kv: num_heads must be a multiple of G. expected num_heads % G == 0, got num_heads=3, "
    "G=2, fix: num_heads=2 or 4": lambda: repeat_kv(torch.ones(B, 2, S, D), 3),
    "repeat_kv: num_heads must be a positive int. expected num_heads >= 1, got "
    "num_heads=np.int64(4), fix: int(num_heads)":
        lambda: repeat_kv(torch.ones(B, 2, S, D), np.int64(4)),
    "split_fused_qkv: 3C must be a multiple of 3H. expected 3C % 3H == 0, got 3C=24, 3H=9, fix: "
    "3C=18 or 27": lambda: split_fused_qkv(torch.ones(2, 5, 24), 3),
    "head_contributions: w_o has the wrong H*D. expected (C, H*D=24), got (C=24, H*D=20)":
        lambda: head_contributions(torch.ones(B, 4, T, 6), torch.ones(24, 20)),
    "merge_heads: x must have one size on each axis. expected a padded tensor and a mask, got a "
    "nested tensor, fix: x.to_padded_tensor(0.0)":
        lambda: merge_heads(torch.nested.nested_tensor([torch.ones(2, 3)], layout=torch.jagged)),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_errors_say_what_and_how(message):
    refused(ERRORS[message], message)


# Softmax with a mask


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_masked_softmax_is_the_softmax_of_what_is_seen(dtype, device, draw):
    mask = draw(B, 1, T, S, seed=1, device=device) > 0
    mask[0, 0, 2] = False
    scores = draw(B, H, T, S, dtype=dtype, device=device).requires_grad_()
    weights = masked_softmax(scores, mask)
    assert weights.dtype == dtype
    for b, h, t in torch.cartesian_prod(*map(torch.arange, (B, H, T))).tolist():
        sees, row = mask[b, 0, t], weights[b, h, t]
        assert not row[~sees].any()
        assert torch.allclose(row[sees], scores[b, h, t, sees].softmax(-1), atol=1e-6)
    (gradient,) = torch.autograd.grad(weights.float().square().sum(), scores)
    assert gradient.isfinite().all()
    assert not gradient[0, :, 2].any()
    assert not gradient[~mask.expand_as(gradient)].any()
    assert torch.equal(masked_softmax(scores, None), scores.softmax(-1))


def test_rows_without_a_key_may_hold_anything():
    """As the queries of padding may: hidden keys are never read."""
    scores = torch.tensor([[math.inf, math.nan], [0.0, 0.0]])
    mask = torch.tensor([[False, False], [True, True]])
    assert masked_softmax(scores, mask).tolist() == [[0.0, 0.0], [0.5, 0.5]]


# Dropout


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_takes_its_share_and_makes_up_for_it_while_training(need_weights, device):
    torch.manual_seed(0)
    mha = MultiHeadAttention(C, H, dropout=0.25).to(device)
    with torch.no_grad():  # out is then the sum of each row of weights, which is 1 on average
        mha.v_proj.weight.zero_()
        mha.v_proj.bias.fill_(1.0)
        mha.out_proj.weight.copy_(torch.eye(C))
        mha.out_proj.bias.zero_()
    x = torch.zeros(40, 30, C, device=device)
    with torch.no_grad():
        out, weights = mha(x, need_weights=need_weights)
    assert float(out.mean()) == pytest.approx(1, abs=0.02)
    kept = 30 * out * 0.75  # of 30 equal weights
    assert torch.allclose(kept, kept.round(), atol=1e-3)
    assert float(kept.mean() / 30) == pytest.approx(0.75, abs=0.02)
    assert float(kept.std()) == pytest.approx(math.sqrt(30 * 0.75 * 0.25), rel=0.1)
    if need_weights:
        assert float((weights == 0).double().mean()) == pytest.approx(0.25, abs=0.02)
    assert torch.allclose(mha.eval()(x, need_weights=need_weights)[0], torch.ones_like(out))


# Compiled


@pytest.mark.parametrize("how", ["plain", "mask", "causal", "cross"])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "make", [MultiHeadAttention, lambda width, heads: GroupedQueryAttention(width, heads, 2)]
)
def test_it_compiles_as_one_graph(make, need_weights, how, draw):
    """The checks leave nothing for which the compiler would have to fall back to Python."""
    torch.manual_seed(0)
    module, x, memory = make(C, H).double(), draw(B, T, C).requires_grad_(), draw(B, S, C, seed=1)
    mask = padding_mask([T, 0], T) & causal_mask(T)
    inputs = {
        "plain": {},
        "mask": {"mask": mask},
        "causal": {"is_causal": True},
        "cross": {"key": memory},
    }[how]
    _, weights = same_when_compiled(module, [x], **inputs, need_weights=need_weights)
    assert (weights is None) == (not need_weights)


@pytest.mark.parametrize("how", [{}, {"is_causal": True}], ids=["plain", "causal"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_one_graph_serves_all_lengths(need_weights, how, draw):
    """No size is written into a text, which would make it a constant of the graph."""
    mha, graphs = MultiHeadAttention(C, H).double(), []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(mha, backend=count, fullgraph=True)
    for batch, tokens in ((3, 5), (4, 9), (7, 11)):
        x = draw(batch, tokens, C)
        for axis in (0, 1):
            torch._dynamo.mark_dynamic(x, axis)
        out, _ = compiled(x, **how, need_weights=need_weights)
        assert torch.allclose(out, mha(x, **how)[0])
    assert len(graphs) == 1
