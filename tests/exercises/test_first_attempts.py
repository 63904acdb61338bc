"""Wrong answers as learners write them, each with the name that it must be given."""

import math
import re
from functools import partial

import numpy as np
import pytest
import solutions
import torch
from torch import nn
from torch.nn import functional as F

from mha_course.exercises import check
from mha_course.exercises.catalogue import EXERCISES

ONE_CALL = F.scaled_dot_product_attention


def changed(name, **steps):
    return EXERCISES[name].implementation(steps)


def split(x, h):
    return x.view(x.size(0), x.size(1), h, -1).transpose(1, 2)


def square_alone(weight, h):
    c = weight.size(1)
    return weight.reshape(h, c // h // 2, 2, c).transpose(1, 2).reshape(c, c)


def subtractor(asks=(100.0, 100.0), keys=(0, 1), signs=(1.0, -1.0)):
    """Return build_subtractor with another lead, other tokens, or other signs."""

    def build_subtractor(d):
        w_q, w_k, w_v, w_o = solutions.build_subtractor(d)
        w_o = w_o.abs()
        for head, row in enumerate((0, 3 * d // 2)):
            w_q[row], w_k[row] = 0.0, 0.0
            w_q[row, d + 2] = w_k[row, d + keys[head]] = asks[head]
            w_o[:, row : row + d] *= signs[head]
        return w_q, w_k, w_v, w_o

    return build_subtractor


def second_row(d):
    """Put the flag of head 0 one row too low: for d = 2 and 4 that is a row of head 1."""
    w_q, w_k, w_v, w_o = subtractor()(d)
    w_q, w_k = torch.zeros_like(w_q), torch.zeros_like(w_k)
    w_q[d + 2, d + 2] = w_k[d + 2, d] = 100.0
    w_q[3 * d // 2, d + 2] = w_k[3 * d // 2, d + 1] = 100.0
    return w_q, w_k, w_v, w_o


def asks_nobody(d):
    """Write the flags into w_k and leave w_q at 0."""
    w_q, *others = subtractor()(d)
    return torch.zeros_like(w_q), *others


def asked_in_a_hurry(x, w_q, w_k, w_v):
    q=w_q@x  # fmt: skip
    return q, q


def two_pieces(x, w, b):
    q, k, v = (x @ w.T + b).chunk(3)
    return q, k, v


def splits_by_three(x, w, b):
    q, k, v = (x @ w.T + b).split(3, dim=-1)
    return q, k, v


def into_linear(x, state, h, turned=False):
    """Load a stored weight as it is, or turned, into a Linear of the default dtype."""
    linear, weight = nn.Linear(24, 72), state["c_attn.weight"]
    weight = weight.T if turned else weight
    linear.load_state_dict({"weight": weight, "bias": state["c_attn.bias"]})
    return linear(x)


def probing(sizes, tokens=None, differ=torch.ne):
    """Return find_leaks with other changes, of some tokens, compared in a different way."""

    def find_leaks(fn, x):
        before, leaks = fn(x), torch.zeros(x.size(1), x.size(1))
        generator = torch.Generator().manual_seed(1)
        for size in sizes:
            for s in range(x.size(1)) if tokens is None else tokens:
                changed = x.clone()
                more = torch.randn(x[:, s].shape, generator=generator, dtype=x.dtype)
                changed[:, s] += size * more
                leaks[:, s] += differ(fn(changed), before).float().amax((0, 2))
        return leaks > 0

    return find_leaks


def in_one_batch(fn, x):
    """Change each token in its own copy, and pass all copies in one batch."""
    copies = torch.stack([x] * x.size(1))
    copies[range(x.size(1)), :, range(x.size(1))] += 1
    return (fn(copies.flatten(0, 1)).view_as(copies) != fn(x)).any(-1).any(1).T


def asks_the_mask(x, w_q, w_k, w_v, w_o, h, mask=None):
    if mask:
        x = x.masked_fill(~mask, -math.inf)
    return solutions.multi_head_attention(x, w_q, w_k, w_v, w_o, h)


def mask_of_each_head(x, w_q, w_k, w_v, w_o, h, mask=None):
    """Let a mask (B, 1, S, S) meet the scores of one head, (B, S, S)."""
    given = mask if mask is None else x[:, :, : x.size(1)].masked_fill(~mask, 0.0) > 0
    return solutions.multi_head_attention(x, w_q, w_k, w_v, w_o, h, given)


def starts_low(scores, block_size):
    high = torch.full(scores.shape[:-1], -1e4, dtype=scores.dtype)
    total = torch.zeros_like(high)
    for block in scores.split(block_size, -1):
        new = torch.maximum(high, block.amax(-1))
        total = total * (high - new).exp() + (block - new[..., None]).exp().sum(-1)
        high = new
    return high, total


def number_by_number(mask, convention):
    made = torch.zeros_like(mask, dtype=torch.bool)
    for t, row in enumerate(mask):
        for s, x in enumerate(row):
            made[t, s] = (
                x == 0 if convention == "additive" else x if convention == "sdpa" else not x
            )
    return made


def pages_by(page, number, cut=lambda pages, table, count: pages, heads=True):
    """Return gather_pages that looks up each token separately."""

    def gather_pages(pages, table, length):
        kept = cut(pages, table, -(-length // 5))
        keys = [
            kept[(table[page(t)], slice(None), number(t)) if heads else (table[page(t)], number(t))]
            for t in range(length)
        ]
        return torch.stack(keys, 1)

    return gather_pages


def rising_waves(n, c):
    angles = torch.arange(n)[:, None] * 10000 ** (torch.arange(0, c, 2) / c)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


def length_of_the_input(x, memory, w_q, w_k, w_v, w_o, h, memory_mask=None):
    k = (memory @ w_k.T).view(*x.shape[:2], h, -1)
    return k, k


def one_of_two(x, attention, feed_forward, norm1, norm2):
    out, _ = attention(norm1(x))
    x = x + out
    return x + feed_forward(norm2(x))


def turned_in_float64(x, positions, base=10000.0):
    return solutions.rope(x.double(), positions, base)


def first_direction(weights, v):
    """Step along the first row of Vh, which changes most, up to where a weight is 0."""
    direction = torch.linalg.svd(torch.cat((v, torch.ones_like(v[:, :1])), 1).T).Vh[0]
    room = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)
    return weights + room * direction


def without_return(fn, x):
    solutions.find_leaks(fn, x)


def with_an_epsilon(maxima, sums, contexts):
    shares = sums * (maxima - maxima.amax(0).nan_to_num(neginf=0.0)).exp()
    return (shares[..., None] * contexts).sum(0) / (shares.sum(0) + 1e-3)[..., None]


def by_queries(q, k, v, block_size):
    blocks = [rows @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) for rows in q.split(block_size, 2)]
    parts = [block.softmax(-1) @ v for block in blocks]
    return torch.cat(parts, 2)


def by_squares(x, gamma, beta, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def sampled(model, ids, steps):
    for _ in range(steps):
        shares = model(ids)[:, -1].softmax(-1)
        ids = torch.cat((ids, torch.multinomial(shares, 1)), 1)
    return ids


def one_row_up(weights, v):
    """Move a share from the first key to the second: the sum stays, the context does not."""
    moved = weights.clone()
    moved[:, 0] -= weights[:, 0] / 2
    moved[:, 1] += weights[:, 0] / 2
    return moved


def free_direction(v):
    both = torch.cat((v, torch.ones_like(v[:, :1])), 1)
    return torch.linalg.svd(both.T).Vh[-1]


def past_zero(weights, v):
    """Follow the free direction until a weight is negative."""
    return weights + 3 * free_direction(v)


def one_step_for_all(weights, v):
    """Stop all rows where the first weight of any row reaches 0."""
    direction = free_direction(v)
    return weights + (weights / -direction).where(direction < 0, torch.inf).amin() / 2 * direction


def forgets_the_sum(weights, v):
    """Keep the context, but not the sum."""
    direction = torch.linalg.svd(v.T).Vh[-1]
    step = (weights / -direction).where(direction < 0, torch.inf).amin(-1, keepdim=True)
    return weights + step / 2 * direction


def one_piece(qkv, h):
    q, k, v = qkv.split(qkv.size(-1), -1)
    return q, k, v


def storing(names):
    """Return a module that stores Linears under these names, and nothing else."""

    class Module(nn.Module):
        def __init__(self, d_model, num_heads):
            super().__init__()
            for name in names.split():
                setattr(self, name, nn.Linear(d_model, d_model))

        def forward(self, x, mask=None):
            return split(self.q_proj(x), self.num_heads)

    return Module


def indexes_by_head(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = ((x @ w.T).unflatten(-1, (num_heads, -1)) for w in (w_q, w_k, w_v))
    contexts = []
    for h in range(1, num_heads + 1):
        scores = q[:, :, h] @ k[:, :, h].mT / q.shape[-1] ** 0.5
        contexts.append(scores.softmax(-1) @ v[:, :, h])
    return torch.cat(contexts, dim=-1) @ w_o.T


def gathers_rounded(rounded, last=0):
    """Return gather_pages with another number of pages, or of tokens."""

    def gather_pages(pages, table, length):
        used = pages[table[: rounded(length / pages.size(2))]]
        return used.transpose(0, 1).flatten(1, 2)[:, : length - last]

    return gather_pages


def writes_until_so_long(model, ids, steps):
    while ids.size(1) < steps:
        ids = torch.cat((ids, model(ids)[:, -1].argmax(-1, keepdim=True)), dim=1)
    return ids


class AroundTheLibrary(solutions.MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x, mask=None):
        return self.inner(x, x, x, attn_mask=None if mask is None else ~mask)[0]


WRONG = [
    ("heads_in_a_loop", "size-hard-coded", lambda x, a, b, c, d, h: solutions.heads_in_a_loop(
        x, a, b, c, d, x.size(-1) // 12)),
    ("split_fused_qkv", None, lambda t, h: split(split(t, 3 * h), h)),
    ("split_fused_qkv", "width-not-divided-by-three", one_piece),
    ("layer_norm", "eps-clamped", lambda x, g, b, eps=1e-5: b + g * (
        x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, correction=0).clamp(eps).sqrt()),
    ("multi_head_attention", "truth-of-a-mask", asks_the_mask),
    ("MultiHeadAttention", "not-stored", storing("q_proj k_proj v_proj out_proj")),
    ("MultiHeadAttention", "not-stored", storing("q_proj v_proj out_proj")),
    ("MultiHeadAttention", None, storing("W_q W_k W_v W_o")),
    ("project_qkv", "pieces-not-three", two_pieces),
    ("accept_or_redraw", None, lambda p, q, draft, uniform: (
        torch.lt(uniform, p[draft] / q[draft]), p)),
    ("split_heads", "float-division", lambda x, h: x.view(x.size(0), x.size(1), h,
        x.size(2) / h).transpose(1, 2)),
    ("softmax", "softmax-unstable", lambda z: (
        e := (z - z.mean(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True)),
    ("softmax", "softmax-unstable", lambda z: (z.exp() / z.exp().sum(-1, keepdim=True)).nan_to_num()
        ),
    ("masked_softmax", "nan-gradient", lambda z, m: (
        z + torch.zeros_like(z).masked_fill(~m, -math.inf)).softmax(-1).nan_to_num(0.0)),
    ("build_subtractor", "heads-exchanged", subtractor(signs=(-1.0, 1.0))),
    ("build_subtractor", "sum-not-difference", subtractor(signs=(1.0, 1.0))),
    ("build_subtractor", "lead-too-small", subtractor(asks=(1.0, 1.0))),
    ("build_subtractor", "looks-for-the-asker", subtractor(keys=(2, 2))),
    ("build_subtractor", "same-place-twice", subtractor(keys=(0, 0))),
    ("multi_head_attention", "mask-none", lambda x, a, b, c, o, h, mask=None: (
        split(x, h).masked_fill(~mask, -math.inf), x)),
    ("fused_mha", "dropout-at-eval", changed("fused_mha", kernel=lambda q, k, v, c: ONE_CALL(
        q, k, v, dropout_p=0.1, is_causal=c))),
    ("additive_mask", "dtype-ignored", lambda m, dtype: torch.zeros(m.shape).masked_fill(~m,
        -math.inf)),
    ("to_attend", "convention-misread", lambda m, c: m if c in ("bool", "sdpa",
        "seaborn") else m == 0),
    ("find_leaks", "one-token-only", probing((0.01, 30.0) * 3, tokens=[3])),
    ("find_leaks", "values-not-changes", lambda fn, x: fn(x + 1) - fn(x)),
    ("latent_scores", "keys-made-again", lambda q, w,
        c: torch.einsum("bsr,hdr,bhtd->bhts", c, w, q)),
    ("combine_masks", "truth-of-a-mask", lambda causal, padding: causal and padding),
    ("additive_mask", "dtype-ignored",
        lambda m, dtype: torch.zeros_like(m).masked_fill(~m, -math.inf)),
    ("online_softmax", "block-size-ignored", lambda z, count: solutions.online_softmax(
        z, -(-z.size(-1) // count))),
    ("tiled_attention", "block-size-ignored", lambda q, k, v, _: changed("tiled_attention")(
        q, k, v, 4)),
    ("merge_partials", None, with_an_epsilon),  # nearly right, and none of the known mistakes
    ("latent_scores", "keys-made-again", lambda q, w, c: torch.stack(
        [q[:, h] @ (c @ w[h].T).mT for h in range(q.size(1))], 1)),
    ("online_softmax", "online-whole-row", lambda z,
        size: (z.amax(-1), (z - z.amax(-1, keepdim=True)).exp().sum(-1))),
    ("tiled_attention", "library-kernel", lambda q, k, v,
        size: F.scaled_dot_product_attention(q, k, v)),
    ("tiled_attention", "online-whole-row", by_queries),
    ("gpt2_attention", "not-transposed", into_linear),
    ("gpt2_attention", "dtype-changed", partial(into_linear, turned=True)),
    ("generate", "generate-samples", sampled),
    ("next_token_probabilities", "top-k-none", lambda z, t, k: F.normalize(
        (z / t).exp() * (z >= z.topk(k)[0][:, -1:]), 1, -1)),
    ("other_weights", "same-weights", lambda weights, v: weights.clone()),
    ("other_weights", "same-weights", lambda weights, v: weights.lerp(
        solutions.other_weights(weights, v), 1e-3)),
    ("other_weights", "negative-weights", lambda weights, v: weights + 0.002 * free_direction(v)),
    ("other_weights", "rows-left", one_step_for_all),
    ("other_weights", "sum-moved", forgets_the_sum),
    ("relation_score", "relation-heads-forgotten", lambda w, pairs: sum(w[at] for at in pairs)),
    *(("add_class_token", "class-token-wrong-axis", lambda x, c, axis=axis: torch.cat(
        (c.expand(len(x), 1, -1), x), axis)) for axis in (0, 2)),
    ("patchify", "view-on-non-contiguous", lambda x, n: x.unfold(2, n, n).unfold(3, n, n).permute(
        0, 2, 3, 1, 4, 5).view(len(x), -1, 3 * n * n)),
    ("add_class_token", "class-token-not-expanded", lambda x, c: torch.cat((c[None, None], x), 1)),
    ("other_weights", "context-moved", one_row_up),
    ("heads_in_a_loop", "head-off-by-one", indexes_by_head),
    ("self_attention", "results-swapped", lambda *given: solutions.self_attention(*given)[::-1]),
    ("MultiHeadAttention", "own-parameters", AroundTheLibrary),
    ("attend", "no-gradient", lambda x: torch.tensor(
        [[float(q @ k) / len(q) ** 0.5 for k in x] for q in x], dtype=x.dtype).softmax(-1) @ x),
    ("project", None, lambda x, w, b: x @ w.T + b[:, None]),  # .T is right here
    ("to_attend", "truth-of-a-mask", lambda m, c: not m),
    ("to_attend", "convention-misread",
        lambda m, c: m > 0 if c == "additive" else solutions.to_attend(m, c)),
    ("decode_step", "no-split", lambda x, k, v, w_q, w_k, *rest: torch.cat((k, x @ w_k.T), 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mistake", "answer"), WRONG, ids=[f"{name}-{mistake}" for name, mistake, _ in WRONG]
)
def test_a_first_attempt_is_named(name, mistake, answer):
    report = check(name, answer)
    assert (report.status in ("wrong", "error"), report.mistake) == (True, mistake), report.message


class NotReady(nn.Module):
    def __init__(self, d_model, num_heads):
        self.q_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        return x


class WithoutBias(solutions.MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.q_proj.bias = None


class NeedsMask(solutions.MultiHeadAttention):
    def forward(self, x, mask):
        return x


def hides_in_the_next_head(z, m):
    by_head = m.expand(z.shape).flatten(0, 1)
    return z.masked_fill(~by_head.roll(1, 0).view_as(z), -math.inf)


# Wrong in ways without a name, and what is said about them.
SAID = [
    ("multi_head_attention", changed("multi_head_attention", hide=hides_in_the_next_head),
        "Without a mask everything is right"),
    ("gather_pages", gathers_rounded(round), "Round the number of pages up"),
    ("gather_pages", gathers_rounded(math.ceil, last=1), "has shape (4, 11, 6)"),
    ("generate", writes_until_so_long, "has shape (2, 9)"),
    # Its inputs are no tensors, so nothing is said of their dtype.
    ("sinusoidal_encoding", lambda n, c: solutions.sinusoidal_encoding(n, c).half(),
        "Your table is narrower than float32."),
    ("next_token_probabilities", lambda z, t, k: 2 * (z / t).softmax(-1), ", word "),
    ("project", lambda x, w, b: nn.Linear(x.size(-1), len(w))(x),
        "draws random numbers, as a new nn.Linear does"),
    ("self_attention", lambda x, *w: nn.Linear(24, 6)(x), "Use the ones you are given"),
    ("self_attention", asked_in_a_hurry, "x comes first"),
    ("split_heads", lambda x, h: x.view(2, 5, 4, 6).transpose(1, 2), "wrote the sizes of the "
                                                                     "lesson"),
    ("build_subtractor", asks_nobody, "w_q must read the channel of the query token, d + 2"),
    ("project_qkv", splits_by_three, "You cut pieces of size 3"),
    ("project_qkv", lambda x, w, b: dict(zip("qkv", (x @ w.T + b).chunk(3, -1), strict=True)),
        "returned one dict."),
    ("project_qkv", lambda x, w, b: None if x.dim() else x, "Is a return missing?"),
    ("patchify", lambda x, p: F.unfold(x, p, stride=p).mT + 1, "at image 0, patch"),
    ("add_class_token", lambda x, c: torch.cat((2 * c.expand(len(x), 1, -1), x), 1),
        "at image 0, token 0"),

    ("masked_softmax", lambda s, m: (s + (1 - m) * -1e9).softmax(-1),
        "opposite of a mask is ~mask"),
    ("project_qkv", lambda x, w, b: list(map(F.linear, [x] * 3, w.chunk(3), b.chunk(3))),
        "Multiply x by w_qkv once"),
    ("project", lambda x, w, b: (w @ x.T).T + b, "x comes first"),
    ("attend", lambda x: torch.dot(x, x.T), "You gave torch.dot matrices"),
    ("attend", lambda x: (x * x / x.size(-1) ** 0.5).softmax(-1) @ x, "x element by element (*)"),
    ("attend", lambda x: x[None] @ x[None].T, "used .T on a tensor with three"),
    ("attend", lambda x: (x @ x.T).softmax(2) @ x, "Your line needs three axes"),
    ("attend", lambda x: x @ x.T / x.size(-1)^0.5, "^ is not a power"),
    ("heads_in_a_loop", lambda x, a, b, c, d, h: torch.cat([(x, x)] * h), "Take the context"),
    ("weighted_sum", torch.bmm, "torch.bmm, of three"),
    ("scaled_scores", lambda q, k: torch.mm(q, k.mT), "tensors of two axes only"),
    ("scaled_scores", lambda q, k: q @ k.mT / torch.sqrt(q.size(-1)), "Write math.sqrt(size)"),
    ("entropy", lambda w: -sum(w * math.log(w)), "use torch.exp, torch.log"),
    ("softmax", lambda z: z - z.max(-1, keepdim=True), "along an axis it returns two"),
    ("entropy", lambda w: -(w * w.log2()).sum(-1), "And: You used the logarithm to base 2"),
    ("merge_heads", lambda c: torch.cat(c, dim=-1), "Give it the heads, one by one"),
    ("multi_head_attention", asks_the_mask, "if mask is not None"),
    ("multi_head_attention", mask_of_each_head, "It was called with a mask (B, 1, S, S)"),
    ("generate", lambda model, ids, n: torch.cat((ids, model(ids)[:, -1].argmax(-1)), 1),
        "argmax(-1, keepdim=True) is (B, 1)"),
    ("accept_or_redraw", lambda p, q, draft, uniform: print(p), "should return 2 results"),
    ("find_leaks", probing((1.0,)), "Change one token at a time"),
    ("to_half_split", square_alone, "Your code assumes a different number of rows"),
    ("find_leaks", in_one_batch, "Change one token at a time"),
    ("build_subtractor", lambda d: solutions.build_subtractor(d)[0], "one tensor"),
    ("build_subtractor", lambda d: [(-1) ** (n == 1) * w for n, w in enumerate(subtractor()(d))],
        "must be large and positive"),
    ("build_subtractor", lambda d: [w.roll(d * (n == 2), 1) for n, w in enumerate(subtractor()(d))],
        "other channels than 0 to d - 1"),
    ("attend", lambda me: solutions.attend(me).half(), "torch.zeros(3, dtype=x.dtype)"),
    ("build_subtractor", second_row, "Each makes its scores from rows of its own: 0 to 2 for head "
                                     "0"),
    ("build_subtractor", subtractor(asks=(1.0, 100.0)), "token a with weight 0.182 and adds its "
                                                        "content, and head 1"),
    ("build_subtractor", lambda d: subtractor()(8), "it should return four matrices (6, 6)"),
    ("one_head_queries", lambda x, w, i, h: x @ w.chunk(h, dim=1)[i].T, "along its columns"),
    ("fused_mha", changed("fused_mha", kernel=ONE_CALL), "passed is_causal as the mask"),
    ("MultiHeadAttention", NotReady, "super().__init__()"),
    ("MultiHeadAttention", WithoutBias, "there is no q_proj.bias"),
    ("MultiHeadAttention", NeedsMask, "write forward(self, x, mask=None)"),
    ("self_attention", changed("self_attention", post=lambda w, q: w * 1.1), "the weights sum"),
    ("find_leaks", without_return, "Is a return missing?"),
    ("find_leaks", lambda fn, x: ~solutions.find_leaks(fn, x), "do not depend on each other"),
    ("online_softmax", lambda z, n: max(z[..., 0], z[..., 1]), "use torch.maximum"),
    ("encoder_block", lambda x, a, f, n1, n2: x + a(x, x, x), "takes one tensor (B, S, C)"),
    ("encoder_block", lambda x, a, f, n1, n2: x + a(n1), "what the norm returns"),
    ("next_token_targets", lambda ids: (ids[:, :-1].float(), ids[:, 1:]), "They are whole numbers"),
    ("generate", lambda model, ids, n: model(model(ids)[:, -1]), "argmax, not max"),
    ("next_token_probabilities", lambda z, t, k: torch.multinomial(z.softmax(-1), 1),
        "Return the probabilities themselves"),
    ("other_weights", first_direction, "and they don't sum to 1"),
    ("gpt2_attention", changed("gpt2_attention", mask=lambda m, z: m | True,
        scale=lambda z, q, k, h: z / q.size(-1)), "And: Your tokens see what comes later"),
    ("next_token_probabilities", changed("next_token_probabilities", heat=lambda z, t: z * t,
        largest=lambda z, k: z > z.topk(k)[0][:, -1:]), "And: You kept one word too few"),
    ("find_leaks", lambda fn, x: solutions.find_leaks(fn, x).double(), "call .bool()"),
    ("to_attend", number_by_number, "not for shapes"),
    ("gather_pages", pages_by(lambda t: t % 5, lambda t: t // 5), "table entry"),
    ("gather_pages", pages_by(lambda t: t // 5, lambda t: t % 5, heads=False),
        "head axis"),
    ("gather_pages", pages_by(lambda t: t // 5, lambda t: t % 5, lambda pages, _, n: pages[:n]),
        "You cut the pages"),
    ("sinusoidal_encoding", rising_waves, "It is -2i / C"),
    ("cross_attention", length_of_the_input, "S = memory.size(1)"),
    ("encoder_block", one_of_two, "only the first sentence"),
    ("rope", turned_in_float64, "return to the dtype of the input"),
    ("layer_norm", by_squares, "agrees in float64 but not in float32"),
    ("padding_mask", lambda n, size: solutions.padding_mask(n.clamp(min=1), size), "has length 0"),
    ("combine_masks", lambda a, b: a & b | ~b.any(-1, keepdim=True), "nothing but padding"),
    ("additive_mask", lambda m, t: solutions.additive_mask(m | ~m.any(-1, keepdim=True), t),
        "the first row hides all keys"),
    ("layer_norm", lambda x, *rest: solutions.layer_norm(x, *rest) @ torch.eye(24).double(),
        "Does it name a dtype"),
    ("relation_score", lambda w, pairs: torch.stack([w[:, a, b] for a, b in set(pairs)]).mean(0),
        "the wrong numbers"),
]  # fmt: skip


def spoiled(name, holds):
    """Return a right answer that is wrong on the inputs for which ``holds(*arguments)``."""
    right = getattr(solutions, name)

    def answer(*given):
        result = right(*given)
        if not holds(*given):
            return result
        return result[:1] if isinstance(result, tuple) else 1 - result

    return answer


# Inputs at the edge, each of which is drawn once.
@pytest.mark.parametrize(("name", "holds"), [
    ("generate", lambda model, ids, steps: steps == 0),
    ("ablate_heads", lambda context, heads: not heads),
    ("repeat_kv", lambda k, num_heads: num_heads == k.size(1) > 1),
    ("repeat_kv", lambda k, num_heads: num_heads > k.size(1) == 1),
    ("decode_step", lambda x, k_cache, *rest: k_cache.size(2) == 0),
    ("additive_mask", lambda mask, dtype: mask.dim() == 4 and mask.size(2) > 1),
    ("masked_softmax", lambda scores, mask: mask.size(-2) == 1 < scores.size(-2)),
])  # fmt: skip
def test_an_edge_is_tried(name, holds):
    report = check(name, spoiled(name, holds))
    assert (report.status, report.mistake) == ("wrong", None)


def test_an_output_that_has_lost_its_gradient_is_wrong_in_a_real_layer_too():
    answer = solutions.gpt2_attention
    assert check("gpt2_attention", lambda *given: answer(*given).detach()).mistake == "no-gradient"


def test_a_message_points_to_lessons_that_have_been_read():
    early = check("self_attention", changed("self_attention", scale=lambda z, *_: z))
    late = check("scaled_scores", lambda q, k: q @ k.mT)
    assert early.mistake == late.mistake == "scale-missing"
    assert "See lesson 3" in late.message
    assert "See lesson" not in early.message


@pytest.mark.parametrize(
    ("name", "answer", "part"), SAID, ids=[f"{name}-{part}" for name, _, part in SAID]
)
def test_what_is_said_helps(name, answer, part):
    report = check(name, answer)
    assert report.status in ("wrong", "error")
    assert part in re.sub(r"In your line `.*?`[;.]", "", report.message)  # where it stands as well


def two_passes(scores, size):
    """Find the maximum of all blocks first, and go through them again for the sum."""
    blocks = scores.split(size, -1)
    high = torch.stack([block.amax(-1) for block in blocks]).amax(0)
    shift = high.nan_to_num(neginf=0.0)
    return high, sum((block - shift[..., None]).exp().sum(-1) for block in blocks)


def in_numpy(scores):
    high = scores.max(-1)
    return torch.from_numpy(high), torch.from_numpy(np.exp(scores - high[..., None]).sum(-1))


def attends_in_numpy(q, k, v, size):
    q, k, v = (np.asarray(x) for x in (q, k, v))
    parts = np.exp(q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]) - 50)
    return torch.from_numpy(parts / parts.sum(-1, keepdims=True) @ v)


def keeps_all_blocks(q, k, v, size):
    blocks = [q @ keys.mT / math.sqrt(q.size(-1)) for keys in k.split(size, 2)]
    high = torch.cat([block.amax(-1, keepdim=True) for block in blocks], -1).amax(-1, keepdim=True)
    parts = [(block - high).exp() for block in blocks]
    mixed = sum(part @ values for part, values in zip(parts, v.split(size, 2), strict=True))
    return mixed / sum(part.sum(-1, keepdim=True) for part in parts)


# Wrong answers that were once called correct.
HOLES = [
    ("softmax", lambda z: (e := (z - z.amax(-1, keepdim=True)).exp())
        / e.detach().sum(-1, keepdim=True)),
    ("tiled_attention", lambda q, k, v, size: changed("tiled_attention")(q, k, v, 6)),
    ("tiled_attention", attends_in_numpy),
    ("latent_scores", lambda q, w, c: torch.from_numpy(
        q.numpy() @ (w.numpy() @ c.mT[:, None].numpy()))),
    ("find_leaks", probing((0.01, 30.0) * 3, differ=lambda a, b: (a != b)[:1])),
    ("find_leaks", probing((0.01, 30.0) * 3, differ=lambda a, b: (a - b).abs() > 1e-12)),
    ("kv_cache_bytes", lambda n, b, s, h, d, size: 2 * n * b * s * h * d * 4),
    ("online_softmax", starts_low),
    ("tiled_attention", keeps_all_blocks),
    ("online_softmax", two_passes),
    ("online_softmax", lambda scores, size: in_numpy(scores.numpy())),
    ("masked_softmax",
        lambda s, m: s.masked_fill(~m, -100.0).softmax(-1) * m.any(-1, keepdim=True)),
    # right on easy inputs alone
    ("entropy", lambda w: torch.nan_to_num(-(w * w.log()).sum(-1))),
    ("masked_softmax", lambda s, m: (e := s.exp() * m) / e.sum(-1, keepdim=True).clamp_min(1e-9)),
    ("masked_softmax",
        lambda s, m: (s * m).masked_fill(s * m == 0, -math.inf).softmax(-1).nan_to_num(0.0)),
    ("padding_mask", lambda n, size: (torch.arange(int(n.max())) < n[:, None])[:, None, None]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), HOLES, ids=[name for name, _ in HOLES])
def test_what_breaks_the_rules_or_is_right_on_easy_inputs_alone_does_not_pass(name, answer):
    report = check(name, answer)
    assert report.status == "wrong", report.message


def divides_by_a_misspelt_name():
    class Attention(nn.Module):
        def __init__(self, d_model, num_heads, bias=True):
            super().__init__()
            self.head_dim = d_model // heads  # noqa: F821

    return Attention


def forgets_return(z):
    z.softmax(-1)


def uses_a_lost_result(x, q, k, v, o, h, mask=None):
    weights = forgets_return(x)
    return weights @ x


def asks_whether_any_is_nan(x, q, k, v, o, h, mask=None):
    return x if x.isnan() else x @ q.T


def joins_too_soon(x, q, k, v, o, h):
    return torch.cat([None] * h, -1)


def takes_three_of_a_matrix(x, w, b):
    _, _, width = w.shape
    return (x @ w.T + b).split(width, -1)


def takes_three_of_four(x, w, b):
    _, _, width = (x @ w.T + b).unflatten(-1, (3, -1)).shape
    return (x @ w.T + b).split(width, -1)


# Crashes whose texts are those of named mistakes, where the learner's line shows another.
STOPS = [
    ("multi_head_attention", uses_a_lost_result),
    ("multi_head_attention", asks_whether_any_is_nan),
    ("next_token_probabilities", lambda z, t, k: forgets_return(z) / t),
    ("multi_head_attention", lambda x, q, k, v, o, h, mask=None: torch.tensor([x @ q.T, x])),
    ("project_qkv", takes_three_of_a_matrix),
    ("project_qkv", takes_three_of_four),
    ("heads_in_a_loop", joins_too_soon),
    ("MultiHeadAttention", divides_by_a_misspelt_name()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "answer"), STOPS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(STOPS)]
)
def test_a_crash_is_not_blamed_on_what_crashes_alike(name, answer):
    report = check(name, answer)
    assert (report.status, report.mistake) == ("error", None)
    assert re.search(r"In your line `[^`]*`[^.]*\.( Stuck\?|$)", report.message), report.message


def test_a_crash_tells_what_is_none():
    report = check("multi_head_attention", uses_a_lost_result)
    assert "; x is (2, 7, 24); weights is None." in report.message


def test_one_of_two_results_that_is_none_is_no_missing_return():
    report = check("accept_or_redraw", lambda p, q, draft, u: (bool(u * q[draft] < p[draft]), None))
    assert "Result 1 (residual) is None. The results before it" in report.message
    assert "Is a return missing?" in check("other_weights", lambda weights, v: print(v)).message


def test_what_is_said_of_patches_fits_each_way_to_cut_them():
    def by_reshape(x, n):
        cut = x.reshape(len(x), 3, x.size(2) // n, n, x.size(3) // n, n)
        return cut.transpose(3, 4).reshape(len(x), -1, 3 * n * n)

    report = check("patchify", by_reshape)
    assert report.mistake == "unfold-without-permute"
    assert "permute(0, 2, 4, 1, 3, 5) of the six axes" in report.message


def test_weights_that_are_cut_off_at_0_are_told_from_a_wrong_direction():
    report = check("other_weights", lambda weights, v: past_zero(weights, v).clamp(min=0))
    assert (report.mistake, "You set weights to 0" in report.message) == ("context-moved", True)


def test_what_other_weights_must_keep_is_said_in_words():
    others = (lambda weights, v: weights, lambda weights, v: weights @ v)
    for answer in (past_zero, forgets_the_sum, one_row_up, *others):
        assert "Result" not in check("other_weights", answer).message


def zeros_if_a_row_is_empty(scores, mask):
    weights = solutions.masked_softmax(scores, mask)
    return weights if mask.any(-1).all() else torch.zeros_like(weights)


def test_zeros_everywhere_fit_many_mistakes_and_name_none():
    report = check("masked_softmax", zeros_if_a_row_is_empty)
    assert (report.status, report.mistake) == ("wrong", None), report
    times_inf = check(
        "masked_softmax", lambda z, m: (z + ~m * -math.inf).softmax(-1).nan_to_num(0.0)
    )
    assert times_inf.mistake == "mask-times-minus-inf"


def test_exponentials_that_were_never_divided_are_not_said_to_be():
    report = check("softmax", lambda z: (z - z.amax(-1, keepdim=True)).exp())
    assert (report.mistake, "You divided" in report.message) == ("divided-by-largest", False)
    assert "Divide the exponentials by their sum" in report.message


def test_heads_of_neighbouring_numbers_are_not_said_to_take_every_hth():
    def by_count(x, w_q, w_k, w_v, w_o, h):
        """Take split's argument for a number of parts."""
        parts = zip(*(w.split(h) for w in (w_q, w_k, w_v)), strict=True)
        heads = [solutions.self_attention(x, *weights)[0] for weights in parts]
        return torch.cat(heads, -1) @ w_o.T

    report = check("heads_in_a_loop", by_count)
    assert report.mistake == "heads-innermost"
    assert "D heads of H numbers" in report.message


def test_a_convention_is_named_where_another_one_stops():
    report = check("to_attend", lambda mask, convention: ~mask)
    assert (report.mistake, '"sdpa"' in report.message) == ("convention-misread", True), report


class InAList(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.linears = [nn.Linear(d_model, d_model) for _ in range(4)]

    def forward(self, x, mask=None):
        return self.linears[0](x)


class AroundPyTorchs(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x, mask=None):
        return self.inner(x, x, x)[0]


@pytest.mark.parametrize(("answer", "part"), [
    (InAList, "the module has layers in a plain list"),
    (AroundPyTorchs, "the module has inner.in_proj_weight"),
    (storing("q_proj k_proj value_proj out_proj"), "value_proj.weight"),
])  # fmt: skip
def test_what_is_stored_in_another_way_is_not_said_to_be_missing(answer, part):
    report = check("MultiHeadAttention", answer)
    assert (report.status, report.mistake, part in report.message) == ("error", None, True), report


# Right on the sizes that the lessons use, because a size is written down as a number.
WRITTEN_DOWN = [
    ("split_heads", lambda x, h: x.view(2, -1, 4, 6).transpose(1, 2)),
    ("causal_mask", lambda n: torch.ones(7, 7).tril().bool()),
    ("rope", lambda x, at, base=1e4: solutions.rope(x, torch.arange(32)[at], base)),
    ("multi_head_attention",
        lambda x, a, b, c, d, h, mask=None: solutions.multi_head_attention(x, a, b, c, d, 4, mask)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), WRITTEN_DOWN, ids=[name for name, _ in WRITTEN_DOWN])
def test_a_size_that_is_written_down_is_noticed(name, answer):
    report = check(name, answer)
    assert (report.status in ("wrong", "error"), report.stage) == (True, "sizes"), report
    assert report.mistake == "size-hard-coded"
    sentences = [case.sentence for case in EXERCISES[name].cases if case.sentence]
    assert not any(sentence in report.message for sentence in sentences)


@pytest.mark.parametrize(("name", "answer"), [
    ("layer_norm", lambda x, g, b, eps=1e-5: solutions.layer_norm(x, g, b, min(eps, 0.25))),
    ("rope", lambda x, at, base=1e4: solutions.rope(x, at, int(base))),
])  # fmt: skip
def test_what_is_wrong_for_other_numbers_is_not_blamed_on_sizes(name, answer):
    report = check(name, answer)
    assert (report.status, report.stage, report.mistake) == ("wrong", "sizes", None)


def test_what_is_wrong_for_small_scores_alone_is_not_blamed_on_sizes():
    report = check("masked_softmax", lambda z, m: z.masked_fill(~m, -100.0).softmax(-1) * m)
    assert (report.status, report.stage, report.mistake) == ("wrong", "values", None)
    assert "scores near -1,000" in report.message


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("to_attend", False),
        ("merge_partials", False),
        ("generate", False),
        ("cross_attention", True),
    ],
)
def test_a_pass_tells_of_gradients_where_all_of_them_are_compared(name, told):
    report = check(name, EXERCISES[name].reference)
    assert (report.status, "gradients included" in report.because) == ("correct", told)


def angles_in_float32(x, positions, base=10000.0):
    """Rotate in the wrong direction, with float32 angles, as most public code does."""
    rates = 1.0 / (base ** (torch.arange(0, x.size(-1), 2).float() / x.size(-1)))
    angles = torch.outer(torch.as_tensor(positions).float(), rates)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()), -1)


def test_what_is_computed_in_float32_is_right_and_wrong_as_the_rest():
    assert check("rope", angles_in_float32).mistake == "rope-wrong-sign"
    report = check("scaled_scores", lambda q, k: q @ k.mT / torch.sqrt(torch.tensor(q.size(-1))))
    assert report.status == "correct"
