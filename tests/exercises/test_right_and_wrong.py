"""Right answers pass in other styles, and references agree with PyTorch's own functions."""

import math

import numpy as np
import pytest
import solutions
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from mha_course import positions
from mha_course.exercises import NAMES, check
from mha_course.exercises.catalogue import EXERCISES
from mha_course.exercises.sandbox import is_float


def rows_and_columns(n):
    return torch.arange(n)[:, None] >= torch.arange(n)


def missing(p, q):
    more = torch.where(p > q, p - q, 0.0)
    return more / more.sum() if more.any() else p


def whole(x, memory, w_q, w_k, w_v, w_o, h, mask=None):
    """Use PyTorch's kernel for the result, and the reference's softmax for the weights."""
    pairs = (x, w_q), (memory, w_k), (memory, w_v)
    q, k, v = (F.linear(t, w).unflatten(2, (h, -1)).transpose(1, 2) for t, w in pairs)
    context = F.scaled_dot_product_attention(q, k, v, mask)
    scores = torch.einsum("bhtd,bhsd->bhts", q * q.size(-1) ** -0.5, k)
    weights = scores.softmax(-1) if mask is None else solutions.masked_softmax(scores, mask)
    return F.linear(context.transpose(1, 2).flatten(2), w_o), weights


class Fused(nn.Module):
    """Build the four Linears in a loop, and leave the middle to PyTorch."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(width, width))

    def keys(self, tokens):
        return self.k_proj(tokens)

    def forward(self, tokens, mask=None):
        q, k, v = (
            p(tokens).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for p in (self.q_proj, self.keys, self.v_proj)
        )
        context = F.scaled_dot_product_attention(q, k, v, mask)
        return self.out_proj(context.transpose(1, 2).flatten(2))


class WithoutKeyBias(Fused):
    """Leave the keys' bias out, which softmax cancels."""

    def keys(self, tokens):
        return tokens @ self.k_proj.weight.T


def sines(n, c):
    table = torch.zeros(n, c)
    rates = torch.exp(torch.arange(0, c, 2).float() * (-math.log(10000.0) / c))
    table[:, 0::2] = torch.sin(torch.arange(n)[:, None] * rates)
    table[:, 1::2] = torch.cos(torch.arange(n)[:, None] * rates)
    return table


def rotate(x, positions, base=10000.0):
    half = x.size(-1) // 2
    rates = base ** (-torch.arange(0, x.size(-1), 2).float() / x.size(-1))
    angles = torch.outer(positions.float(), rates)
    cos, sin = (torch.cat((t, t), -1) for t in (angles.cos(), angles.sin()))
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def tiles(q, k, v, size):
    """Keep maximum, sum and context in one tensor, and merge the heads before they are divided."""
    state = F.pad(F.pad(0 * q, (1, 0)), (1, 0), value=-math.inf)
    v = F.pad(v, (1, 0), value=1.0)
    for start in range(0, k.size(2), size):
        keys, values = k[:, :, start : start + size], v[:, :, start : start + size]
        scores = torch.einsum("bhtd,bhsd->bhts", q, keys) / math.sqrt(q.size(-1))
        new = torch.maximum(state[..., 0], scores.max(-1).values)[..., None]
        shift = torch.where(new.isneginf(), 0.0, new)
        mixed = state[..., 1:] * torch.exp(state[..., :1] - shift)
        state = torch.cat((new, mixed + torch.exp(scores - shift) @ values), -1)
    merged = state[..., 2:].transpose(1, 2).flatten(2)
    return merged.unflatten(2, (q.size(1), -1)).transpose(1, 2) / state[..., 1:2]


def named(mask, convention):
    """Know the four conventions of the exercise, and no other."""
    hidden = dict.fromkeys(("multihead", "seaborn"), lambda: ~mask)
    return ({"sdpa": lambda: mask, "additive": lambda: mask == 0} | hidden)[convention]()


def by_logarithms(scores, size):
    high = log = torch.full_like(scores[..., 0], -math.inf)
    for block in scores.split(size, -1):
        high = torch.maximum(high, block.amax(-1))
        log = torch.logaddexp(log, block.logsumexp(-1))
    return high, (log - high.nan_to_num(neginf=0.0)).exp()


def tiles_by_logarithms(q, k, v, size):
    log, mixed = torch.full_like(q[..., :1], -math.inf), 0
    for keys, values in zip(k.split(size, 2), v.split(size, 2), strict=True):
        scores = q @ keys.mT / math.sqrt(q.size(-1))
        new = torch.logaddexp(log, scores.logsumexp(-1, keepdim=True))
        shift = new.nan_to_num(neginf=0.0)
        mixed = mixed * (log - shift).exp() + (scores - shift).exp() @ values
        log = new
    return mixed


def blocks_at_once(scores, block_size):
    padded = F.pad(scores, (0, -scores.size(-1) % block_size), value=-math.inf)
    blocks = padded.unflatten(-1, (-1, block_size))
    largest = blocks.amax(-1)
    shift = largest.clamp(min=-1e30)
    sums = (blocks - shift[..., None]).exp().sum(-1)
    return largest.amax(-1), (sums * (largest - shift.amax(-1, keepdim=True)).exp()).sum(-1)


def put_together_at_last(scores, size):
    """Keep the maximum and the log-sum-exp of each block, and merge them after the loop."""
    kept = [(block.amax(-1), block.logsumexp(-1)) for block in scores.split(size, -1)]
    high = torch.stack([largest for largest, _ in kept]).amax(0)
    shift = high.nan_to_num(neginf=0.0)
    return high, sum((log_sum - shift).exp() for _, log_sum in kept)


def in_reverse(scores, size):
    """Go from the last block to the first."""
    high, total = torch.full_like(scores[..., 0], -math.inf), 0.0
    for block in reversed(scores.split(size, -1)):
        new = torch.maximum(high, block.amax(-1))
        shift = new.clamp(min=-1e30)
        total = total * torch.exp(high - shift) + torch.exp(block - shift[..., None]).sum(-1)
        high = new
    return high, total


def scores_made_twice(q, k, v, size):
    """Make the scores of each block once for the maximum, and once more for the sums."""

    def blocks():
        for keys, values in zip(k.split(size, 2), v.split(size, 2), strict=True):
            yield q @ keys.mT / math.sqrt(q.size(-1)), values

    high = torch.stack([scores.amax(-1, keepdim=True) for scores, _ in blocks()]).amax(0)
    total, context = 0, 0
    for scores, values in blocks():
        part = (scores - high).exp()
        total, context = total + part.sum(-1, keepdim=True), context + part @ values
    return context / total


def drawn(weights, v):
    """Move all rows along a direction that is drawn at random, until a weight is 0."""
    free = torch.linalg.svd(F.pad(v, (0, 1), value=1.0).T).Vh[v.size(1) + 1 :]
    direction = torch.randn(len(free)).to(v) @ free
    steps = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)
    return weights + steps * direction


def by_split(x, w_qkv, w_o, h, is_causal=False):
    q, k, v = (
        part.view(*x.shape[:2], h, -1).transpose(1, 2)
        for part in F.linear(x, w_qkv).split(x.size(2), dim=2)
    )
    options = {"attn_mask": None, "dropout_p": 0.0, "is_causal": is_causal}
    context = F.scaled_dot_product_attention(q, k, v, **options)
    return F.linear(context.transpose(1, 2).contiguous().view(x.shape), w_o)


def by_module(x, state, h):
    module = nn.MultiheadAttention(x.size(2), h, batch_first=True, dtype=x.dtype).eval()
    parameters = {"in_proj_weight": state["c_attn.weight"].T, "in_proj_bias": state["c_attn.bias"],
                  "out_proj.weight": state["c_proj.weight"].T,
                  "out_proj.bias": state["c_proj.bias"]}  # fmt: skip
    options = {"attn_mask": ~rows_and_columns(x.size(1)), "need_weights": False}
    return functional_call(module, parameters, (x, x, x), options)[0]


def by_log_sum_exps(maxima, sums, contexts):
    """Take a softmax of the log-sum-exps, as Flash-Decoding does."""
    empty = sums == 0
    logs = (maxima + sums.masked_fill(empty, 1.0).log()).masked_fill(empty, -math.inf)
    seen = ~empty.all(0)
    weights = logs.masked_fill(~seen, 0.0).softmax(0) * seen
    return torch.einsum("kbht,kbhtd->bhtd", weights, contexts)


def in_float32(name):
    """Return a right answer that computes in float32, even where scores are far apart."""

    def answer(*given):
        return getattr(solutions, name)(*(x.float() if is_float(x) else x for x in given))

    return answer


def by_qr(weights, v):
    """Step along a direction that comes from a factorisation without a gradient."""
    kept = torch.cat((v, torch.ones_like(v[:, :1])), 1)
    direction = torch.linalg.qr(kept, mode="complete").Q[:, -1]
    room = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)
    return weights + room * direction


# Other kinds of results, other dtypes on the way, and PyTorch's own functions. ``solutions`` has
# another style of each exercise.
RIGHT = {
    "attend": [
        lambda x: F.scaled_dot_product_attention(x, x, x).to_sparse(),
        lambda *x: torch.stack([F.softmax(x[0] @ t / len(t) ** 0.5, 0) @ x[0] for t in x[0]]),
    ],
    "split_fused_qkv": [
        lambda x, h: (part.unflatten(2, (h, -1)).transpose(1, 2) for part in x.chunk(3, -1)),
        lambda x, h: map(solutions.split_heads, x.chunk(3, -1), [h, h, h]),
        # one tensor, which can be unpacked
        lambda x, h: x.unflatten(2, (3, h, -1)).permute(2, 0, 3, 1, 4),
    ],
    "masked_softmax": [
        lambda x, m: x.masked_fill(~m, -torch.inf).softmax(-1).nan_to_num(),
        lambda x, m: x.masked_fill(~m, -1e4).softmax(-1) * m.any(-1, keepdim=True),
        in_float32("masked_softmax"),
    ],
    "entropy": [
        lambda w: torch.distributions.Categorical(probs=w).entropy(),  # divides by sums of 1
        lambda w: -torch.where(w > 0, w * w.log(), 0.0).sum(-1),
        lambda w: -(w * w.clamp(min=1e-300 if w.dtype == torch.float64 else 1e-38).log()).sum(-1),
    ],
    # Half of its gradient is lost.
    "relation_score": [lambda w, pairs: solutions.relation_score(w + w.detach(), pairs) / 2],
    "weighted_sum": [
        lambda w, v: w @ v / w.sum(-1, keepdim=True),
    ],
    "build_subtractor": [
        lambda d: [
            a * b for a, b in zip(solutions.build_subtractor(d), (2, 1, -3, -1 / 3), strict=True)
        ],
        lambda d: [nn.Parameter(w.float()) for w in solutions.build_subtractor(d)],
        lambda d: torch.stack(solutions.build_subtractor(d)),
        lambda d: torch.stack(solutions.build_subtractor(d)).numpy(),
    ],
    "multi_head_attention": [
        lambda x, *rest: list(whole(x, x, *rest)),
        in_float32("multi_head_attention"),
    ],
    "MultiHeadAttention": [Fused, WithoutKeyBias],
    "parameter_count": [lambda c, h, bias: np.int64(4 * c * (c + bias))],
    "project_qkv": [
        lambda x, w, b: torch.stack(F.linear(x, w, b).chunk(3, -1)),
    ],
    "fused_mha": [by_split],
    "to_attend": [named],
    "additive_mask": [lambda m, dtype: m.to(dtype).log()],
    "cross_attention": [whole, in_float32("cross_attention")],
    "sinusoidal_encoding": [sines],
    "rope": [rotate],
    "gather_pages": [
        lambda p, t, n: p[t.clamp(0, len(p) - 1)].transpose(0, 1).flatten(1, 2)[:, :n],
    ],
    "kv_cache_bytes": [lambda *sizes: 2 * np.prod(sizes)],
    "latent_scores": [
        lambda q, w, c: torch.stack([q[:, h] @ w[h] @ c.mT for h in range(q.size(1))], 1),
    ],
    "online_softmax": [blocks_at_once, in_reverse, by_logarithms, put_together_at_last],
    "tiled_attention": [tiles, scores_made_twice, tiles_by_logarithms],
    "merge_partials": [
        by_log_sum_exps,
    ],
    "layer_norm": [
        lambda x, g, b, eps=1e-5: F.layer_norm(x, x.shape[-1:], g, b, eps),
        lambda x, g, b, eps=1e-5: g * nn.LayerNorm(x.size(-1), eps)(x) + b,
    ],
    "next_token_targets": [
        lambda ids: [
            torch.tensor([r[cut] for r in ids.tolist()]) for cut in (slice(-1), slice(1, None))
        ],
    ],
    "patchify": [lambda images, p: F.unfold(images, p, stride=p).mT],
    "accept_or_redraw": [
        lambda p, q, w, u: (bool(u < min(1.0, p[w] / q[w])), missing(p, q)),
        lambda p, q, w, u: (np.bool_(u < float(p[w]) / float(q[w])), missing(p, q)),
        lambda p, q, w, u: (torch.tensor(u) < p[w] / q[w], missing(p, q).clone()),
    ],
    "gpt2_qkv": [
        lambda w: w.unflatten(1, (3, -1)).permute(1, 2, 0),  # one tensor, which can be unpacked
    ],
    "gpt2_attention": [by_module],
    "to_half_split": [positions.projection_to_half_split],
    "other_weights": [drawn, by_qr],
}


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_pass_in_any_style(name):
    for answer in [EXERCISES[name].reference, getattr(solutions, name), *RIGHT.get(name, [])]:
        report = check(name, answer)
        assert report.status == "correct", report


def with_a_mask(q, k, v, is_causal):
    mask = rows_and_columns(q.size(2)) if is_causal else None
    return F.scaled_dot_product_attention(q, k, v, mask)


def row_by_row(q, k, v, is_causal):
    rows = []
    for t in range(q.size(2)):
        end = t + 1 if is_causal else q.size(2)
        weights = (q[:, :, t : t + 1] @ k[:, :, :end].mT / math.sqrt(q.size(-1))).softmax(-1)
        rows.append(weights @ v[:, :, :end])
    return torch.cat(rows, 2)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [(with_a_mask, "makes a tensor of S x S numbers"), (row_by_row, "in the middle by hand")],
)
def test_fused_means_one_call_and_no_table_of_all_pairs(kernel, said):
    report = check("fused_mha", EXERCISES["fused_mha"].implementation({"kernel": kernel}))
    assert (report.status, report.stage) == ("wrong", "rule")
    assert said in report.message
