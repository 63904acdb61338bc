"""The reference against PyTorch's own, against finite differences, by property, and against wrong versions."""

import math
import types
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course import attention as reference
from mha_course.attention import MultiHeadAttention, attention, merge_heads, split_heads
from mha_course.masks import causal_mask, combine_masks, padding_mask
from mha_course.variants import to_torch

B, T, S, C, H, D = 2, 5, 7, 24, 4, 6
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
MASKS = {
    "none": None,
    "causal": causal_mask(S),
    "padding": padding_mask([S, 4], S),
    "both": combine_masks(causal_mask(S), padding_mask([S, 4], S)),
}


def torch_masks(mask):
    """Write a mask as nn.MultiheadAttention wants it: True = ignore, one for each batch item and head."""
    if mask is None:
        return {}
    return {"attn_mask": ~mask.expand(B, H, S, S).reshape(B * H, S, S)}


def module_disagreement(package, dtype, device, mask):
    """Return the largest difference between MultiHeadAttention and PyTorch's module: values, weights, gradients."""
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(C, H, batch_first=True).to(device, dtype)
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
    ours = package.MultiHeadAttention(C, H).to(device, dtype)
    linears = (ours.q_proj, ours.k_proj, ours.v_proj)
    with torch.no_grad():
        for linear, weight, bias in zip(
            linears, theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
        ):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        ours.out_proj.load_state_dict(theirs.out_proj.state_dict())
    x = torch.randn(B, S, C, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    target = torch.randn(B, S, C, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(device, dtype)
    mask = None if mask is None else mask.to(device)
    mine, other = (x.to(device, dtype).requires_grad_() for _ in range(2))
    out, weights = ours(mine, mask=mask)
    want, want_weights = theirs(other, other, other, **torch_masks(mask), average_attn_weights=False)
    fused, nothing = ours(mine.detach(), mask=mask, need_weights=False)
    assert nothing is None
    (out * target).sum().backward()
    (want * target).sum().backward()
    their_grads = [*theirs.in_proj_weight.grad.chunk(3), theirs.out_proj.weight.grad, other.grad]
    our_grads = [*(linear.weight.grad for linear in linears), ours.out_proj.weight.grad, mine.grad]
    our_grads = [torch.zeros_like(b) if a is None else a for a, b in zip(our_grads, their_grads, strict=True)]
    pairs = [(out, want), (fused, want), (weights, want_weights), *zip(our_grads, their_grads, strict=True)]
    differences = [float((a - b).detach().abs().max() / b.detach().abs().max().clamp(min=1)) for a, b in pairs]
    return max(differences, key=lambda d: math.inf if math.isnan(d) else d)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mask", MASKS)
def test_module_equals_pytorchs(dtype, mask, device):
    assert module_disagreement(reference, dtype, device, MASKS[mask]) < TOLERANCE[dtype]


WRONG = {
    "scale by the full width": ("/ math.sqrt(q.size(-1))", "/ math.sqrt(q.size(-1) * q.size(1))"),
    "no scale": ("scores / math.sqrt(q.size(-1))", "scores * 1.0"),
    "split without the transpose": (
        "x.unflatten(2, (num_heads, -1)).transpose(1, 2)",
        "x.reshape(x.size(0), num_heads, x.size(1), -1)",
    ),
    "merge without the transpose": (
        "x.transpose(1, 2).flatten(2)",
        "x.reshape(x.size(0), x.size(2), -1)",
    ),
    "softmax over the queries": ("torch.softmax(masked_scores, dim=-1)", "torch.softmax(masked_scores, dim=-2)"),
    "inverted mask": ("masked_fill(~mask, -math.inf)", "masked_fill(mask, -math.inf)"),
    "no output projection": ("merged, self.out_proj(merged))", "merged, merged)"),
    "no output projection, fused": ("self.out_proj(merge_heads(context)), None", "merge_heads(context), None"),
    "keys and values swapped": ("self.q_proj, self.k_proj, self.v_proj\n", "self.q_proj, self.v_proj, self.k_proj\n"),
    "mask ignored in the fused path": ("mask | ~sees, dropout", "None, dropout"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_versions_disagree(wrong):
    source = Path(reference.__file__).read_text()
    before, after = WRONG[wrong]
    assert source.count(before) == 1, f"{before!r} must stand in attention.py once"
    broken = types.ModuleType("mha_course_broken")
    vars(broken)["__name__"] = "mha_course.attention"  # where dataclasses look their module up
    exec(compile(source.replace(before, after), "broken", "exec"), vars(broken))
    assert any(not module_disagreement(broken, torch.float64, "cpu", mask) < 1e-3 for mask in MASKS.values())


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_function_equals_sdpa_with_other_queries_than_keys(dtype, device, draw):
    q, k, v = (draw(B, H, n, D, seed=n, dtype=dtype, device=device) for n in (T, S, S))
    mask = (draw(B, 1, T, S, seed=9, device=device) > 0) | (torch.arange(S, device=device) == 2)
    for attend in (None, mask, mask[0, 0]):
        context, weights = attention(q, k, v, attend)
        want = F.scaled_dot_product_attention(q, k, v, attend)
        assert torch.allclose(context, want, atol=TOLERANCE[dtype])
        assert torch.allclose(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_values_may_have_a_width_of_their_own(draw):
    q, k, v = draw(B, H, T, D), draw(B, H, S, D, seed=1), draw(B, H, S, 11, seed=2)
    assert torch.allclose(attention(q, k, v)[0], F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_row_that_sees_nothing_is_zero_and_its_gradients_are_finite(dtype, need_weights, device, draw):
    mha = MultiHeadAttention(C, H).to(device, dtype)
    x = draw(B, S, C, dtype=dtype, device=device).requires_grad_()
    mask = causal_mask(S, device=device).expand(B, 1, S, S).clone()
    mask[1, :, 3] = False
    out, weights = mha(x, mask=mask, need_weights=need_weights)
    assert torch.allclose(out[1, 3], mha.out_proj.bias)  # a context of 0, projected
    if weights is not None:
        assert not weights[1, :, 3].any()
        assert not mha.steps(x, mask=mask).context[1, :, 3].any()
    out.float().square().sum().backward()
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
    assert torch.allclose(out, F.linear(steps.merged, mha.out_proj.weight, mha.out_proj.bias))


def test_split_is_a_view_and_merge_undoes_it(draw):
    x = draw(B, S, C)
    heads = split_heads(x, H)
    assert heads.data_ptr() == x.data_ptr()
    assert torch.equal(heads[:, 2], x[:, :, 2 * D : 3 * D])
    assert torch.equal(merge_heads(heads), x)


def test_shuffling_tokens_shuffles_the_result(draw):
    mha, x, order = MultiHeadAttention(C, H).double(), draw(B, S, C), torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert torch.allclose(mha(x[:, order])[0], mha(x)[0][:, order])


@pytest.mark.parametrize("need_weights", [True, False])
def test_causal_means_that_later_tokens_do_not_matter(need_weights, draw):
    mha, x = MultiHeadAttention(C, H).double(), draw(B, S, C)
    changed = x.clone()
    changed[:, 4:] += 1
    before, after = (mha(y, mask=causal_mask(S), need_weights=need_weights)[0] for y in (x, changed))
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_dropout_only_while_training(draw):
    mha, x = MultiHeadAttention(C, H, dropout=0.5).double(), draw(B, S, C)
    assert (mha(x)[1] == 0).any()
    mha.eval()
    assert torch.equal(mha(x)[0], mha(x)[0])
    assert torch.allclose(mha(x)[0], mha(x, need_weights=False)[0])


def test_no_bias_anywhere_when_none_is_wanted():
    assert all(linear.bias is None for linear in MultiHeadAttention(C, H, bias=False).children())


def test_masks_have_one_meaning():
    both = combine_masks(causal_mask(S), padding_mask([S, 4], S))
    for b, t, s in ((0, 3, 3), (0, 3, 4), (1, 6, 3), (1, 6, 4), (1, 2, 3)):
        assert both[b, 0, t, s] == (s <= t and s < (S, 4)[b])
    assert torch.equal(padding_mask(torch.tensor([S, 4]), S), padding_mask([S, 4], S))
