"""Every question of the reviews has the answer that comes out when it is tried.

The numbers are read from the question: with others in it, another answer is right.
"""

import copy
import inspect
import math

import pytest
import torch
from numbers_in_text import nearest, numbers_in
from torch import nn
from torch.nn import functional as F

from mha_course import caching
from mha_course.attention import MultiHeadAttention, attention, merge_heads, split_heads
from mha_course.experiments import faulty_attention
from mha_course.experiments.leakage import token_dependence
from mha_course.flash import merge_partials, tiled_attention
from mha_course.lessons.l14_vision.vision import patchify
from mha_course.lessons.l15_language_model.exercises import next_token_probabilities
from mha_course.lessons.l17_what_heads_do.exercises import relation_score
from mha_course.lessons.l18_real_models.exercises import gpt2_qkv, to_half_split
from mha_course.masks import causal_mask, causal_mask_for_cache, combine_masks, padding_mask
from mha_course.positions import rope, sinusoidal_encoding
from mha_course.questions import review_questions

REVIEWS = review_questions()


def T(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def row(*scores):
    return T(*scores).softmax(-1)


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def close(*pair):
    return torch.allclose(*pair, atol=1e-9)


def said(holds, choice):
    """Return a choice in words where what it says holds."""
    return choice if holds else f"not: {choice}"


def words(form, numbers):
    return form.format(*map(int, numbers))


def parameters(layer):
    return sum(p.numel() for p in layer.parameters())


def reordered(order):
    """Return the layer with its heads in another order."""
    rows = torch.arange(24).view(4, 6)[order].flatten()
    layer = copy.deepcopy(LAYER)
    for part in (layer.q_proj, layer.k_proj, layer.v_proj):
        part.weight.data = part.weight[rows]
        part.bias.data = part.bias[rows]
    layer.out_proj.weight.data = layer.out_proj.weight[:, rows]
    return layer


def shares(q, k, v):
    """Return what two workers hand over, each of whom attends to some of the keys."""
    both = [(q @ k[..., at, :].mT / 6**0.5, v[..., at, :]) for at in ([0, 1], [2, 3, 4])]
    maxima = torch.stack([scores.amax(-1) for scores, _ in both])
    sums = (torch.stack([scores.logsumexp(-1) for scores, _ in both]) - maxima).exp()
    return maxima, sums, torch.stack([scores.softmax(-1) @ values for scores, values in both])


def later_seen(layer):
    """Return whether a token depends on one that comes two places later."""
    return bool(token_dependence(layer, X)[0, 2])


def unseen(*mistakes):
    """Return those of these mistakes that a module with one head computes right with."""
    right = faulty_attention.CausalAttention(24, 1, 1).double().eval()
    x, real, found = draw(2, 5, 24), padding_mask([5, 3], 5)[:, 0, 0], []
    for mistake in mistakes:
        case = faulty_attention.faulty(mistake)(24, 1, 1).double().eval()
        case.load_state_dict(right.state_dict())
        found += [mistake] if close(case(x, mask=real), right(x, mask=real)) else []
    return found


def only(check, ways):
    """Return the one way of making weights whose row sums pass a check."""
    (name,) = [name for name, weights in ways.items() if check(weights.sum(-1))]
    return name


with torch.random.fork_rng(devices=[]), torch.no_grad():
    torch.manual_seed(0)
    LAYER = MultiHeadAttention(24, 4).double()
    W = draw(24, 24)
    X = draw(1, 5, 24)
    MEMORY = draw(1, 7, 24)
    STEPS = LAYER.steps(X)
    CROSS = LAYER(X, MEMORY)[0]
Q, K, V = STEPS.q, STEPS.k, STEPS.v  # (1, 4, 5, 6)
S = draw(5, 5)
CAUSAL = causal_mask(5)
HIDDEN = S.masked_fill(~CAUSAL, -torch.inf)
ONE = torch.eye(5, dtype=torch.float64)[2]
HOLED = STEPS.weights * (1 - ONE)  # nobody attends to token 2
BIAS = LAYER.out_proj.bias.detach()
IMAGE = torch.zeros(1, 3, 32, 32)
WHEN_SUMS = {
    "softmax over queries": HIDDEN.softmax(0),
    "mask after softmax": S.softmax(-1) * CAUSAL,
    "mask upside down": S.masked_fill(CAUSAL, -1e9).softmax(-1),
    "no division by √D": (5 * HIDDEN).softmax(-1),
}
EQUAL_VALUES = {
    "queries and keys swapped": S.mT.softmax(-1),
    "scores divided by D, not √D": (S / 6).softmax(-1),
    "softmax over the queries": S.softmax(0),
}
PAIRS = {
    "c_a - c_b": (1, -1),
    "2 c_a - c_b": (2, -1),
    "c_b - 2 c_a": (-2, 1),
    "2 c_a + c_b": (2, 1),
}


def numbered_patches(rows, columns):
    """Return an image (1, 3, 8 rows, 8 columns), in which each pixel has its patch's number."""
    grid = torch.arange(rows * columns).view(1, 1, rows, columns)
    return grid.repeat_interleave(8, 2).repeat_interleave(8, 3).expand(1, 3, -1, -1)


def merged_at_once(*n):
    """Give each number of a context the number of its token, and merge without the transpose."""
    tokens = torch.arange(n[1] * n[2]).view(n[1], n[2], 1)  # of all heads, one after the other
    first = tokens.expand(n[1:4]).reshape(n[5:7])[0]
    return words("those of tokens {} to {}, of head 0", first[[0, -1]])


def columns_of_a_head(heads, width, _, _width, head, _zero):
    channels = torch.eye(heads)[head].view(1, heads, 1, 1) * torch.ones(width)
    return words("columns {} to {}", merge_heads(channels).nonzero()[[0, -1], -1])


def bias_and_heads(heads):
    """Add up what the heads give without the bias, and see how many biases are missing."""
    alone = torch.eye(heads, dtype=torch.float64)[:, None, :, None, None] * STEPS.context
    total = sum(merge_heads(context) @ LAYER.out_proj.weight.T for context in alone)
    return ((STEPS.out - total) / BIAS).mean()


def forgotten_batch_first(*n):
    weights = nn.MultiheadAttention(*n[5:])(*[torch.ones(n[:3])] * 3)[1]
    return said(weights.shape == (n[1], n[0], n[0]), f"over the {n[0]} sentences")


def scaled_before(width, divisor):
    keys = torch.eye(2)[:, [1] * width]  # a score of 0, and one of width / divisor
    weights = F.scaled_dot_product_attention(torch.ones(1, width) / divisor, keys, torch.eye(2))
    return width / weights.log().diff()


def two_encodings(score_of, a, b, c, d):
    first = rope(Q, [a] * 5) @ rope(K, [b] * 5).mT
    return said(close(first, rope(Q, [c] * 5) @ rope(K, [d] * 5).mT), score_of)


def large_scores(score):
    exponentials = torch.tensor([float(score)] * 3).exp()
    return said((exponentials / exponentials.sum()).isnan().all(), "all NaN")


def page_of_token(size, *n):
    pages = torch.arange(9.0).view(9, 1, 1, 1).expand(9, 1, size, 1)
    return caching.gather_pages(pages, torch.tensor(n[:3]), n[3] + 1)[0, n[3], 0]


def cache_of(tokens=9, heads=8, width=64):
    return caching.kv_cache_bytes(1, 1, tokens, heads, width, 2)


def shares_merged(_, sum1, sum2, context1, context2):
    shapes = (2, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 1, 1)
    parts = (T(0, 0), T(sum1, sum2), T(context1, context2))
    return merge_partials(*(x.view(shape) for x, shape in zip(parts, shapes, strict=True)))


def mirrored_image(rows, columns, _, patch):
    mirrored = patchify(numbered_patches(rows, columns).flip(-1), 8)[0, :, 0]
    return (mirrored == patch).nonzero()


def shifted_image(rows, columns, _):
    noise = draw(1, 3, 8 * rows, 8 * columns)
    return (patchify(noise, 8) != patchify(noise.roll(1, -1), 8)).any(-1).sum()


def rank_of_scores(width, heads, tokens, *_):
    scores = MultiHeadAttention(width, heads).double().steps(draw(1, tokens, width)).scores
    return torch.linalg.matrix_rank(scores[0, 0])


def square_weight_forgotten(*n):
    weight, x = draw(*n[:2]), draw(*n[2:])
    return said(not close(x @ weight, x @ weight.T), "it gives other numbers")


def projected_zero(*n):
    layer = nn.Linear(*n)
    return said(close(layer(torch.zeros(n[0])), layer.bias), "its bias")


def whose_score(batch, head, query, key, _):
    product = Q[batch, head, query] @ K[batch, head, key]
    choice = f"head {head}: query {query} with key {key}"
    return said(close(STEPS.scores[batch, head, query, key], product), choice)


def no_transpose(*n):
    q, k = draw(*n[:4]), draw(*n[:4])
    to_heads = (q @ k.transpose(*n[4:])).shape == (*n[:2], n[2], n[2])
    return said(to_heads, "heads to heads, in each token")


def moved_by_transpose(*n):
    x = torch.zeros(n[:4])
    return x.numel() * (x.data_ptr() != x.transpose(*n[5:]).data_ptr())


def saturated_row(lead, *_):
    with torch.enable_grad():
        return torch.func.grad(lambda x: x.softmax(-1)[0])(T(lead, 0, 0)).abs().max()


def column_of_weights(tokens, *_):
    sums = torch.eye(tokens)[[0] * tokens].sum(0)  # all attend to token 0
    return words("{} and {}", [sums.min(), sums.max()])


def values_exchanged():
    before, after = attention(Q, K, V), attention(Q, K, V.flip(2))
    only_contexts = close(before[1], after[1]) and not close(before[0], after[0])
    return said(only_contexts, "the contexts alone")


def twin_heads():
    once, doubled = torch.cat((W[:6], W[:6])), 2 * W[:6]
    both = V[:, [1, 1]].transpose(1, 2).flatten(2) @ once
    return said(close(both, V[:, 1] @ doubled), "double them")


def handed_over():
    exact = close(merge_partials(*shares(Q, K, V)), attention(Q, K, V)[0])
    takes = [*inspect.signature(merge_partials).parameters]
    enough = exact and takes == ["maxima", "sums", "contexts"]
    return said(enough, "context, maximum and sum")


def one_layer_masked(_):
    last = later_seen(lambda x: LAYER(x, mask=CAUSAL)[0])
    both = later_seen(lambda x: LAYER(LAYER(x)[0], mask=CAUSAL)[0])
    return said(both and not last, "yes, through the first layer")


def unseen_with_one_head():
    mistakes = ["key-value-swapped", "scale-missing", "view-without-transpose", "mask-inverted"]
    only_split = unseen(*mistakes) == ["view-without-transpose"]
    return said(only_split, "a split without a transpose")


# What takes arguments gets the numbers of its question.
ANSWERS = {
    "dot-with-minus": lambda *n: T(*n[:2]) @ T(*n[2:]),
    "twice-as-long-vector": lambda product, factor: T(product) @ (factor * T(1)),
    "lead-of-two": lambda lead: row(lead, 0, 5)[0] / row(lead, 0, 5)[1],
    "column-of-weights": column_of_weights,
    "all-on-one": lambda *n: said(T(*n) @ T(3, 7) == 3, "the vector of “cat”"),
    "exchanged-values": values_exchanged,
    "square-weight-forgotten": square_weight_forgotten,
    "longer-sentence": lambda factor: said(
        LAYER.steps(X.repeat(1, factor, 1)).q.numel() == factor * Q.numel(), "q, k and v"
    ),
    "one-matrix-for-both": lambda: said(close(Q @ Q.mT, (Q @ Q.mT).mT), "They are symmetric"),
    "projected-zero": projected_zero,
    "query-length": lambda *n: MultiHeadAttention(*n).steps(torch.ones(1, 2, n[0])).q.size(-1),
    "count-tables": lambda sentences, heads: math.prod(
        MultiHeadAttention(24, heads).double().steps(draw(sentences, 5, 24)).weights.shape[:2]
    ),
    "channel-to-head": lambda width, heads, _, channel, _zero: (
        split_heads(torch.eye(width)[channel][None, None], heads).sum(-1).argmax()
    ),
    "no-transpose": no_transpose,
    "moved-by-transpose": moved_by_transpose,
    "saturated-row": saturated_row,
    "divided-twice": lambda _, a, b, c: 1 / ((T(1) / a) @ (T(1) / b) / c),
    "whose-score": whose_score,
    "keys-ask": lambda *n: (torch.ones(n[4:8]) @ torch.ones(n[:4]).transpose(*n[8:])).shape,
    "score-multiplications": lambda queries, keys, width: (
        torch.ones(queries, 1, width) * torch.ones(keys, width)
    ).numel(),
    "ratio-of-nine": lambda _, first, ratio, _log: row(first, math.log(ratio))[1],
    "hidden-third": lambda *weights: row(*T(*weights[:2]).log(), -torch.inf)[0],
    "large-scores": large_scores,
    "weight-of-minus-inf": lambda: said(row(1, -torch.inf, 2)[1] == 0, "exactly 0"),
    "softmax-again": lambda *weights: row(*weights[:2])[0],
    "two-numbers": lambda *n: T(*n[:2]) @ T(*n[2:]),
    "constant-added": lambda: said(close(STEPS.weights @ (V + 3), STEPS.context + 3), "c itself"),
    "doubled-token": lambda tokens, copies: row(*[3] * (tokens + copies - 1))[:copies].sum(),
    "empty-column": lambda weight: said(
        weight == 0 and close(HOLED @ V, HOLED @ (V + torch.eye(5)[2][:, None])),
        "No context contains A's value",
    ),
    "negative-context": lambda: said((STEPS.weights @ V.abs() > 0).all(), "never"),
    "merged-at-once": merged_at_once,
    "columns-of-a-head": columns_of_a_head,
    "bias-and-heads": bias_and_heads,
    "one-head-mixture": lambda: next(name for name, (a, b) in PAIRS.items() if a * b > 0),
    "wide-values": lambda heads, values, width: nn.Linear(heads * values, width).weight.shape,
    "heads-reordered": lambda a, b: said(
        close(reordered([b, a, 2, 3])(X)[0], STEPS.out), "it stays the same"
    ),
    "returned-weights": lambda width, heads, *sizes: (
        nn.MultiheadAttention(width, heads, batch_first=True)(*[torch.ones(*sizes, width)] * 3)[
            1
        ].shape
    ),
    "forgotten-batch-first": forgotten_batch_first,
    "scaled-before": scaled_before,
    "bias-of-keys": lambda: said(
        close((Q @ K.mT).softmax(-1), (Q @ (K + V[..., :1, :]).mT).softmax(-1)), "nothing"
    ),
    "first-token-context": lambda: said(
        close(attention(Q, K, V, CAUSAL)[0][..., 0, :], V[..., 0, :]), "its value"
    ),
    "last-row-of-both": lambda length, size, _: combine_masks(
        causal_mask(size), padding_mask([length], size)
    )[0, 0, -1].sum(),
    "two-new-tokens": lambda _, new, total: causal_mask_for_cache(new, total)[0].sum(),
    "small-fill": lambda fill, seen: said(row(seen, seen, fill)[2] > 0.999, "to the hidden keys"),
    "mask-in-one-layer": one_layer_masked,
    "translated-length": lambda *n: LAYER(draw(1, n[0], 24), draw(1, n[1], 24))[0].size(1),
    "cross-parameters": lambda: said(CROSS.shape == STEPS.out.shape, "they are equal"),
    "shuffled-memory": lambda: said(close(CROSS, LAYER(X, MEMORY.flip(1))[0]), "it stays the same"),
    "memory-padding": lambda batch, _, size, *_n: padding_mask([3] * batch, size).shape,
    "one-token-memory": lambda queries: LAYER(draw(1, queries, 24), MEMORY[:, :1])[1].mean(),
    "length-after-rope": lambda length, at: (
        rope(F.normalize(Q, dim=-1) * length, [at] * 5).norm(dim=-1).mean()
    ),
    "both-moved": lambda a, b, score, c, d: two_encodings(str(score), a, b, c, d),
    "at-position-zero": lambda at: said(close(rope(Q, [at] * 5), Q), "the same vector"),
    "partner-of-channel": lambda width, _, _half, channel: rope(
        torch.eye(width)[channel][None, None, None], [3]
    ).nonzero()[-1, -1],
    "encoding-of-zero": lambda count, at: sinusoidal_encoding(at + 1, 8)[at, :count].tolist(),
    "cache-of-twice": lambda factor: cache_of(9 * factor) / cache_of(9),
    "grouped-saving": lambda heads, groups: cache_of(heads=heads) / cache_of(heads=groups),
    "newest-query": lambda cached: caching.decode_step(
        X[:, :1], *draw(2, 1, 4, cached, 6), *[W] * 4, 4
    )[1].size(2),
    "page-of-token": page_of_token,
    "latent-saving": lambda heads, width, latent: cache_of(1, heads, width) / (latent * 2),
    "how-exact": lambda: said(
        (tiled_attention(Q, K, V, 2) - STEPS.context).abs().max() < 1e-12, "equal up to rounding"
    ),
    "shares-merged": shares_merged,
    "first-block-hidden": lambda: said((T(-torch.inf) - T(-torch.inf)).exp().isnan(), "NaN"),
    "causal-tiles": lambda rows, columns, _: (
        causal_mask(8 * rows).view(rows, 8, columns, 8).any(3).any(1).sum()
    ),
    "handed-over": handed_over,
    "shifted-token": lambda shift: said(
        close(F.layer_norm(X, (24,)), F.layer_norm(X + shift, (24,))), "nothing"
    ),
    "how-many-means": lambda *n: torch.native_layer_norm(draw(*n[:3]), n[3:], None, None, 1e-5)[
        1
    ].numel(),
    "parameters-of-norm": lambda width: parameters(nn.LayerNorm(width)),
    "mirrored-image": mirrored_image,
    "shifted-image": shifted_image,
    "finer-patches": lambda high, _: (
        (patchify(IMAGE, int(8 * high)).size(1) / patchify(IMAGE, 8).size(1)) ** 2
    ),
    "loss-of-quarter": lambda p: F.nll_loss(T(p, 1 - p).log()[None], torch.tensor([0])),
    "top-two": lambda count, *n: next_token_probabilities(T(*n[:count]).log()[None], 1.0, n[count])[
        0, 0
    ],
    "perplexity-of-dice": lambda count: F.cross_entropy(
        torch.zeros(1, count), torch.tensor([7])
    ).exp(),
    "rank-of-scores": rank_of_scores,
    "values-exchanged": lambda a, b, *_: said(
        close(T(a / b, a / b) @ S[:2], T(a / b, a / b) @ S[[1, 0]]), "it stays the same"
    ),
    "twin-outputs": lambda _: twin_heads(),
    "mean-ablated": lambda: said(
        close(X.expand(4, 5, 24).mean(0), X[0]) and bool(X.abs().sum() > 0), "not at all"
    ),
    "mean-relation": lambda *weights: relation_score(
        T(*weights).diag()[None], [(at, at) for at in range(len(weights))]
    ),
    "opposite-heads": lambda _, length, _heads: (T(length, 0) + T(-length, 0)).norm(),
    "where-k-lies": lambda width, columns, _: words(
        "columns {} to {}", gpt2_qkv(torch.arange(columns).expand(width, columns))[1][[0, -1], 0]
    ),
    "rms-of-equal": lambda *n: F.rms_norm(T(*n[:4]), (4,)).tolist(),
    "order-of-rows": lambda width, *_: to_half_split(
        torch.arange(width)[:, None].expand(width, width), 1
    )[:, 0].tolist(),
    "rows-below-one": lambda last: only(
        lambda sums: sums[-1].isclose(T(last)[0]) and (sums[:-1] < 0.999).all(), WHEN_SUMS
    ),
    "unseen-with-one-head": unseen_with_one_head,
    "unseen-with-equal-values": lambda: only(
        lambda sums: (sums - 1).abs().max() > 0.01, EQUAL_VALUES
    ),
}


@pytest.mark.parametrize("name", REVIEWS)
@torch.no_grad()
def test_the_right_choice_is_what_comes_out(name):
    question, compute = REVIEWS[name], ANSWERS[name]
    takes_numbers = inspect.signature(compute).parameters
    result = compute(*numbers_in(question.text)) if takes_numbers else compute()
    choice = result if isinstance(result, str) else nearest(result, question.choices)
    assert choice == question.right, result
