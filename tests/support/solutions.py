"""Answers to all exercises, by name, written from the statements alone, as learners write them.

They share no code with the references, so that a test or a notebook that uses them can disagree.
Each stands by itself: its source runs where the imports below have run.
"""

import math

import torch
from einops import einsum, rearrange, repeat
from torch import nn
from torch.nn import functional as F


# 0 Start here
def attend(x):
    exponentials = torch.einsum("sc,tc->st", x, x / len(x[0]) ** 0.5).exp()
    return exponentials @ x / exponentials.sum(dim=1, keepdim=True)


# 1 Projection
def project(x, weight, bias):
    return F.linear(x, weight, bias)


def self_attention(x, w_q, w_k, w_v):
    q, k, v = F.linear(x, w_q), F.linear(x, w_k), F.linear(x, w_v)
    weights = F.softmax(torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5, dim=2)
    return torch.bmm(weights, v), weights


def project_qkv(x, w_qkv, b_qkv):
    width = x.shape[-1]
    qkv = F.linear(x, w_qkv, b_qkv)
    return qkv[..., :width], qkv[..., width : 2 * width], qkv[..., 2 * width :]


# 2 Head splitting
def heads_in_a_loop(x, w_q, w_k, w_v, w_o, num_heads):
    out = torch.zeros_like(x)
    rows = (w_q.chunk(num_heads), w_k.chunk(num_heads), w_v.chunk(num_heads))
    for row_q, row_k, row_v, columns in zip(*rows, w_o.chunk(num_heads, dim=1), strict=True):
        context = F.scaled_dot_product_attention(x @ row_q.T, x @ row_k.T, x @ row_v.T)
        out = out + context @ columns.T
    return out


def split_heads(x, num_heads):
    return rearrange(x, "b s (h d) -> b h s d", h=num_heads)


def split_fused_qkv(qkv, num_heads):
    return [
        torch.stack(part.chunk(num_heads, dim=-1), dim=1)
        for part in torch.tensor_split(qkv, 3, dim=-1)
    ]


def one_head_queries(x, w_q, head, num_heads):
    size = w_q.shape[0] // num_heads
    return torch.einsum("bsc,dc->bsd", x, w_q[head * size : (head + 1) * size])


# 3 Scaling
def scaled_scores(q, k):
    return torch.einsum("bhtd,bhsd->bhts", q * q.shape[-1] ** -0.5, k)


def score_form(w_q, w_k, head, num_heads):
    q_heads = w_q.unflatten(0, (num_heads, -1))
    k_heads = w_k.unflatten(0, (num_heads, -1))
    return torch.einsum("di,dj->ij", q_heads[head], k_heads[head])


# 4 Softmax
def softmax(scores):
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


def masked_softmax(scores, mask):
    weights = torch.where(mask, scores, float("-inf")).softmax(dim=-1)
    return torch.where(mask, weights, 0.0).nan_to_num(0.0)


def entropy(weights):
    return torch.special.entr(weights).sum(dim=-1)


# 5 Weighted sum
def weighted_sum(weights, v):
    return einsum(weights, v, "b h t s, b h s d -> b h t d")


# 6 Concatenation
def merge_heads(context):
    return torch.cat(context.unbind(dim=1), dim=-1)


def head_contributions(context, w_o):
    num_heads = context.shape[1]
    each = []
    for head, columns in enumerate(w_o.chunk(num_heads, dim=1)):
        each.append(F.linear(context[:, head], columns))
    return torch.stack(each, dim=1)


def build_subtractor(d):
    # A token is (content, flag a, flag b, question, nothing), and each head has 3d/2 rows.
    content = torch.eye(d, 3 * d, dtype=torch.float64)
    flag_a, flag_b, question = torch.eye(3 * d, dtype=torch.float64)[d : d + 3]
    rest = torch.zeros(3 * d // 2 - 1, 3 * d, dtype=torch.float64)
    w_q = torch.vstack((50 * question, rest, 50 * question, rest))
    w_k = torch.vstack((50 * flag_a, rest, 50 * flag_b, rest))
    w_v = torch.vstack((content, rest[d - 1 :], content, rest[d - 1 :]))
    w_o = w_v.T.clone()
    w_o[:, 3 * d // 2 :] *= -1
    return w_q, w_k, w_v, w_o


def ov_circuit(w_v, w_o, head, num_heads):
    by_rows = rearrange(w_v, "(h d) c -> h d c", h=num_heads)
    by_columns = rearrange(w_o, "c (h d) -> h c d", h=num_heads)
    return by_columns[head] @ by_rows[head]


# 7 Multi-head attention
def multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    batch, tokens, width = x.shape
    size = width // num_heads
    q = F.linear(x, w_q).view(batch, tokens, num_heads, size)
    k = F.linear(x, w_k).view(batch, tokens, num_heads, size)
    v = F.linear(x, w_v).view(batch, tokens, num_heads, size)
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(size)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill(mask.logical_not(), -math.inf).softmax(dim=-1).nan_to_num()
    context = torch.einsum("bhts,bshd->bthd", weights, v)
    return F.linear(context.reshape(batch, tokens, width), w_o), weights


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(d_model, d_model))

    def forward(self, x, mask=None):
        q = rearrange(self.q_proj(x), "b s (h d) -> b h s d", h=self.num_heads)
        k = rearrange(self.k_proj(x), "b s (h d) -> b h s d", h=self.num_heads)
        v = rearrange(self.v_proj(x), "b s (h d) -> b h s d", h=self.num_heads)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(rearrange(context, "b h s d -> b s (h d)"))


def fused_mha(x, w_qkv, w_o, num_heads, is_causal=False):
    q, k, v = rearrange(F.linear(x, w_qkv), "b s (n h d) -> n b h s d", n=3, h=num_heads)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return F.linear(rearrange(context, "b h s d -> b s (h d)"), w_o)


def parameter_count(d_model, num_heads, bias):
    total = 0
    for _ in range(4):
        layer = nn.Linear(d_model, d_model, bias=bias)
        total += sum(parameter.numel() for parameter in layer.parameters())
    return total


def fold_value_bias(w_o, b_v, b_o):
    return F.linear(b_v, w_o, b_o)


# 8 Masks
def causal_mask(seq_len):
    position = torch.arange(seq_len)
    return position[:, None] >= position[None, :]


def padding_mask(lengths, max_len):
    rows = [[position < length for position in range(max_len)] for length in lengths.tolist()]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(rows), 1, 1, max_len)


def combine_masks(causal, padding):
    return torch.logical_and(causal, padding)


def causal_mask_for_cache(new, total):
    return torch.arange(total - new, total)[:, None] >= torch.arange(total)


def find_leaks(fn, x):
    tokens = x.shape[1]
    leaks = torch.zeros(tokens, tokens, dtype=torch.bool)
    with torch.no_grad():
        expected = fn(x)
        for changed in range(tokens):
            for size in (0.01, 0.01, 0.01, 30, 30, 30):
                other = x.clone()
                other[:, changed] += size * torch.randn_like(other[:, changed])
                difference = (fn(other) - expected).abs()
                leaks[:, changed] |= difference.amax(dim=(0, 2)) > 0
    return leaks


def to_attend(mask, convention):
    if convention == "sdpa":
        return mask.clone()
    if convention == "additive":
        return mask.isfinite()
    return mask.logical_not()


def additive_mask(mask, dtype):
    return torch.where(mask, 0.0, -math.inf).to(dtype)


# 9 Cross-attention
def cross_attention(x, memory, w_q, w_k, w_v, w_o, num_heads, memory_mask=None):
    q = rearrange(F.linear(x, w_q), "b t (h d) -> b h t d", h=num_heads)
    k = rearrange(F.linear(memory, w_k), "b s (h d) -> b h s d", h=num_heads)
    v = rearrange(F.linear(memory, w_v), "b s (h d) -> b h s d", h=num_heads)
    scores = einsum(q, k, "b h t d, b h s d -> b h t s") / math.sqrt(q.shape[-1])
    if memory_mask is not None:
        scores = scores.masked_fill(~memory_mask, -math.inf)
    weights = scores.softmax(dim=-1).nan_to_num(0.0)
    context = einsum(weights, v, "b h t s, b h s d -> b t h d")
    return F.linear(context.flatten(2), w_o), weights


# 10 Positions
def sinusoidal_encoding(seq_len, d_model):
    encoding = torch.empty(seq_len, d_model, dtype=torch.float64)
    for position in range(seq_len):
        for pair in range(d_model // 2):
            angle = position / 10000 ** (2 * pair / d_model)
            encoding[position, 2 * pair] = math.sin(angle)
            encoding[position, 2 * pair + 1] = math.cos(angle)
    return encoding


def rope(x, positions, base=10000.0):
    first, second = x.double().chunk(2, dim=-1)
    rates = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angles = torch.outer(positions.double(), rates)
    rotated = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((rotated.real, rotated.imag), dim=-1).to(x.dtype)


# 11 KV cache
def decode_step(x_t, k_cache, v_cache, w_q, w_k, w_v, w_o, num_heads):
    q = F.linear(x_t, w_q).reshape(len(x_t), num_heads, 1, -1)
    new_k = F.linear(x_t, w_k).reshape(len(x_t), num_heads, 1, -1)
    new_v = F.linear(x_t, w_v).reshape(len(x_t), num_heads, 1, -1)
    keys = torch.cat((k_cache, new_k), dim=2)
    values = torch.cat((v_cache, new_v), dim=2)
    context = F.scaled_dot_product_attention(q, keys, values)
    return F.linear(context.reshape(x_t.shape), w_o), keys, values


def repeat_kv(k, num_heads):
    return repeat(k, "b g s d -> b (g n) s d", n=num_heads // k.shape[1])


def latent_scores(q, w_uk, latent):
    return torch.einsum("bhtd,hdr,bsr->bhts", q, w_uk, latent)


def kv_cache_bytes(layers, batch, seq_len, num_kv_heads, head_dim, bytes_per_value):
    numbers = 0
    for _ in ("keys", "values"):
        numbers += layers * batch * seq_len * num_kv_heads * head_dim
    return numbers * bytes_per_value


def gather_pages(pages, table, length):
    size = pages.shape[2]
    keys = pages.new_empty(pages.shape[1], length, pages.shape[3])
    for token in range(length):
        keys[:, token] = pages[table[token // size], :, token % size]
    return keys


# 12 FlashAttention
def online_softmax(scores, block_size):
    maximum = torch.full_like(scores[..., 0], -math.inf)
    total = torch.zeros_like(maximum)
    for block in scores.split(block_size, dim=-1):
        new_maximum = torch.maximum(maximum, block.max(dim=-1).values)
        safe = new_maximum.nan_to_num(neginf=0.0)
        parts = (block - safe[..., None]).exp()
        total = total * (maximum - safe).exp() + parts.sum(dim=-1)
        maximum = new_maximum
    return maximum, total


def tiled_attention(q, k, v, block_size):
    # Attend to each block by itself, and mix the contexts by their log-sum-exps.
    log_sums, contexts = [], []
    for start in range(0, k.shape[2], block_size):
        keys, values = k[:, :, start : start + block_size], v[:, :, start : start + block_size]
        scores = einsum(q, keys, "b h t d, b h s d -> b h t s") / math.sqrt(q.shape[-1])
        hidden = scores.isneginf().all(dim=-1, keepdim=True)
        scores = scores.masked_fill(hidden, 0.0)
        log_sums.append(scores.logsumexp(dim=-1).masked_fill(hidden.squeeze(-1), -math.inf))
        contexts.append(scores.softmax(dim=-1) @ values)
    shares = torch.stack(log_sums).softmax(dim=0)
    return einsum(shares, torch.stack(contexts), "n b h t, n b h t d -> b h t d")


def merge_partials(maxima, sums, contexts):
    highest = maxima.amax(dim=0).nan_to_num(neginf=0.0)
    numerator = torch.zeros_like(contexts[0])
    denominator = torch.zeros_like(sums[0])
    for maximum, total, context in zip(maxima, sums, contexts, strict=True):
        share = total * (maximum - highest).exp()
        numerator = numerator + share[..., None] * context
        denominator = denominator + share
    nothing = denominator == 0
    return numerator / torch.where(nothing, 1.0, denominator)[..., None]


# 13 Encoder block
def layer_norm(x, gamma, beta, eps=1e-5):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(beta, (x - mean) * torch.rsqrt(variance + eps), gamma)


def encoder_block(x, attention, feed_forward, norm1, norm2):
    attended = torch.add(x, attention(norm1(x)))
    return torch.add(attended, feed_forward(norm2(attended)))


# 14 Vision
def patchify(images, patch_size):
    pattern = "b c (rows p) (columns q) -> b (rows columns) (c p q)"
    return rearrange(images, pattern, p=patch_size, q=patch_size)


def add_class_token(patches, class_token):
    with_room = F.pad(patches, (0, 0, 1, 0))
    first = torch.arange(with_room.shape[1])[:, None] == 0
    return torch.where(first, class_token, with_room)


# 15 Language model
def next_token_targets(ids):
    length = ids.shape[1] - 1
    return ids.narrow(1, 0, length), ids.narrow(1, 1, length)


@torch.inference_mode()
def generate(model, ids, steps):
    text = ids.clone()
    for _ in range(steps):
        best = model(text)[:, -1, :].max(dim=-1).indices
        text = torch.hstack((text, best.unsqueeze(1)))
    return text


def next_token_probabilities(logits, temperature, top_k):
    keep = logits.shape[1] if top_k is None else top_k
    values, words = logits.sort(dim=1, descending=True)
    kept = (values[:, :keep] / temperature).softmax(dim=1)
    return torch.zeros_like(logits).scatter(1, words[:, :keep], kept)


def accept_or_redraw(p, q, draft, uniform):
    accepted = bool(uniform * q[draft] < p[draft])
    if torch.equal(p, q):
        return accepted, p
    return accepted, F.normalize(F.relu(p - q), p=1.0, dim=0)


# 17 What heads do
def relation_score(weights, pairs):
    total = torch.zeros_like(weights[:, 0, 0])
    for query, key in pairs:
        total = total + weights[:, query, key]
    return total / len(pairs)


def ablate_heads(context, heads):
    keep = torch.ones(context.shape[1], dtype=context.dtype)
    keep[heads] = 0
    return einsum(context, keep, "b h s d, h -> b h s d")


def contribution_norms(weights, v, w_o):
    columns = rearrange(w_o, "c (h d) -> h c d", h=len(v))
    carried = torch.einsum("hts,hsd,hcd->htsc", weights, v, columns)
    return torch.linalg.vector_norm(carried, dim=-1)


def other_weights(weights, v):
    # A change leaves sum and context alone if it is orthogonal to 1 and to each channel of v. Of
    # some such changes take the largest that leaves all weights at 0 or above.
    kept = F.pad(v, (0, 1), value=1.0).double()
    changed = []
    for row in weights.double():
        seen = row > 0
        basis = torch.linalg.svd(kept[seen].T).Vh[kept.shape[1] :]
        largest = torch.zeros_like(row[seen])
        for direction in torch.cat((basis, -basis)):
            steps = torch.where(direction < 0, -row[seen] / direction, math.inf)
            change = steps.min() * direction
            if change.abs().sum() > largest.abs().sum():
                largest = change
        changed.append(row + torch.zeros_like(row).masked_scatter(seen, largest))
    return torch.stack(changed).clamp(min=0.0).to(weights.dtype)


# 18 Real models
def gpt2_qkv(weight):
    return [part.transpose(0, 1) for part in weight.chunk(3, dim=1)]


def gpt2_attention(x, state, num_heads):
    qkv = F.linear(x, state["c_attn.weight"].T, state["c_attn.bias"])
    q, k, v = rearrange(qkv, "b s (n h d) -> n b h s d", n=3, h=num_heads)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    merged = rearrange(context, "b h s d -> b s (h d)")
    return F.linear(merged, state["c_proj.weight"].T, state["c_proj.bias"])


def to_half_split(weight, num_heads):
    heads = []
    for head in weight.chunk(num_heads):
        heads += [head[0::2], head[1::2]]
    return torch.cat(heads)
