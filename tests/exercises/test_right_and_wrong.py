"""Right answers pass in other styles, in which references agree with PyTorch's own functions."""

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


class WithoutItsBias(nn.Linear):
    def forward(self, x):
        return x @ self.weight.T


class WithoutKeyBias(solutions.MultiHeadAttention):
    """Leave the keys' bias out, which softmax cancels."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.k_proj = WithoutItsBias(d_model, d_model)


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


def named(mask, convention):
    """Know the four conventions of the exercise, and no other."""
    hidden = dict.fromkeys(("multihead", "seaborn"), lambda: ~mask)
    return ({"sdpa": lambda: mask, "additive": lambda: mask == 0} | hidden)[convention]()


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
    """Return a right answer that computes in float32, where scores are far apart as well."""

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
    "weighted_sum": [lambda w, v: w @ v / w.sum(-1, keepdim=True)],
    "build_subtractor": [
        lambda d: [
            a * b for a, b in zip(solutions.build_subtractor(d), (2, 1, -3, -1 / 3), strict=True)
        ],
        lambda d: [nn.Parameter(w.float()) for w in solutions.build_subtractor(d)],
        lambda d: torch.stack(solutions.build_subtractor(d)).numpy(),
    ],
    "multi_head_attention": [
        lambda x, *rest: list(whole(x, x, *rest)),
        in_float32("multi_head_attention"),
    ],
    "MultiHeadAttention": [WithoutKeyBias],
    "parameter_count": [lambda c, h, bias: np.int64(4 * c * (c + bias))],
    "project_qkv": [
        lambda x, w, b: torch.stack(F.linear(x, w, b).chunk(3, -1)),
    ],
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
    "online_softmax": [blocks_at_once, put_together_at_last],
    "tiled_attention": [scores_made_twice],
    "merge_partials": [by_log_sum_exps],
    "layer_norm": [lambda x, g, b, eps=1e-5: F.layer_norm(x, x.shape[-1:], g, b, eps)],
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
    "other_weights": [by_qr],
}


@pytest.mark.parametrize("name", NAMES)
def test_right_answers_pass_in_any_style(name):
    written = getattr(solutions, name)
    for answer in [EXERCISES[name].reference, written, *RIGHT.get(name, [])]:
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
