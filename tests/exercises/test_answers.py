"""Every question, on pages and in reviews, has the answer that comes out when you try it.

Numbers are read from the question: if they change, a different answer is right.
"""

import copy
import inspect
import math
import re
from statistics import fmean

import pytest
import torch
from numbers_in_text import nearest, numbers_in
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from mha_course import caching, flash
from mha_course.attention import MultiHeadAttention, attention, merge_heads, split_heads
from mha_course.datasets.grammar import sentences, vocabulary
from mha_course.example import guess, trained_model
from mha_course.exercises import QUESTIONS
from mha_course.experiments import faulty_attention, precomputed
from mha_course.experiments.costs import count_flops
from mha_course.experiments.head_analysis import ablate_heads
from mha_course.experiments.head_tasks import TwoTokens, learn
from mha_course.experiments.leakage import token_dependence
from mha_course.lessons.l07_multi_head_attention.exam import CASES
from mha_course.lessons.l14_vision import vision
from mha_course.lessons.l15_language_model import language_model, speculation
from mha_course.lessons.l15_language_model.exercises import (
    accept_or_redraw,
    next_token_probabilities,
    next_token_targets,
)
from mha_course.lessons.l17_what_heads_do import induction
from mha_course.lessons.l17_what_heads_do.exercises import contribution_norms, relation_score
from mha_course.lessons.l18_real_models.exercises import gpt2_qkv, to_half_split
from mha_course.lessons.l19_bug_hunt import costs
from mha_course.masks import causal_mask, causal_mask_for_cache, combine_masks, padding_mask
from mha_course.models import EncoderBlock, language
from mha_course.positions import rope, sinusoidal_encoding
from mha_course.questions import review_questions
from mha_course.variants import to_torch

BANK = {**QUESTIONS, **review_questions()}
attend = F.scaled_dot_product_attention


def T(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def row(*scores):
    return T(*scores).softmax(-1)


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def close(*pair):
    return torch.allclose(*pair, atol=1e-9)


def when(holds, choice):
    """Return a choice in words if what it says holds."""
    return choice if holds else f"not: {choice}"


def words(form, numbers):
    return form.format(*map(int, numbers))


def only(choices):
    """Return the one choice that passed."""
    (choice,) = choices
    return choice


def closest(ways, number):
    """Return the choice whose number is nearest."""
    return min(ways, key=lambda way: abs(ways[way] - number))


def raises(compute, *arguments):
    try:
        compute(*arguments)
    except RuntimeError:
        return True
    return False


def raising(question, **names):
    """Return the one answer that raises, to a question whose answers are code."""
    return only(code for code in BANK[question].answers if raises(eval, code, names))


def itself(x):
    """Let tokens attend to each other, each its own query, key and value."""
    return attend(x, x, x)


def parameters(layer):
    return sum(p.numel() for p in layer.parameters())


def double_layer(heads, width=24):
    return MultiHeadAttention(width, heads).double()


def silence(*layers):
    for layer in layers:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)


def later_seen(layer):
    """Return whether a token depends on one that comes two places later."""
    return bool(token_dependence(layer, X)[0, 2])


with torch.random.fork_rng(devices=[]), torch.no_grad():
    torch.manual_seed(0)
    LAYER = double_layer(4)
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
CAT = language.encode([["the", "grey", "cat", "ate", "greedily"]])  # with <start> and <end>
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


# 0 Start here
def without_head_1():
    model = ablate_heads(trained_model(), [(1, 1)])
    asked = "the grey cat that chased the loud dogs were hungry , so <mask> ate greedily"
    word, probability = guess(asked, model=model)[0]
    return when(probability > 0.5, word)


def context_of_a(*points):
    """Find the one choice that is a mean of the tokens, with no negative weights."""
    system = torch.cat((T(*points).view(3, 2).T, T([1, 1, 1])))
    contexts = {choice: T(*numbers_in(choice), 1) for choice in BANK["context-of-a"].answers}
    solved = {choice: torch.linalg.solve(system, at) for choice, at in contexts.items()}
    return only(choice for choice, weights in solved.items() if (weights > 0).all())


# 1 Projection
def exchanged_values():
    before, after = attention(Q, K, V), attention(Q, K, V.flip(2))
    only_contexts = close(before[1], after[1]) and not close(before[0], after[0])
    return when(only_contexts, "only the contexts")


def square_weight_forgotten(*n):
    weight, x = draw(*n[:2]), draw(*n[2:])
    return when(not close(x @ weight, x @ weight.T), "it gives different numbers")


def projected_zero(*n):
    layer = nn.Linear(*n)
    return when(close(layer(torch.zeros(n[0])), layer.bias), "its bias")


# 3 Scores and scaling
def typical_score(count, mean, variance):
    q, k = mean + variance**0.5 * torch.randn(2, 10_000, count)
    return (q * k).sum(-1).std()


def scores_fit(*n):
    q, k = torch.ones(n[:4]), torch.ones(n[4:8])
    queries, keys, width = n[8:]
    holds = raises(lambda: q @ k) and (q @ k.mT).shape[2:] == (queries, keys)
    return when(holds, f"k has a {keys} where a {width} is needed")


def saturated_row(lead, *_):
    with torch.enable_grad():
        return torch.func.grad(lambda x: x.softmax(-1)[0])(T(lead, 0, 0)).abs().max()


def whose_score(batch, head, query, key, _):
    product = Q[batch, head, query] @ K[batch, head, key]
    choice = f"head {head}: query {query} with key {key}"
    return when(close(STEPS.scores[batch, head, query, key], product), choice)


# 4 Softmax
def softmax_axis(*n):
    q, k, sees_weights = draw(*n[:3], 6), draw(*n[:2], n[3], 6), torch.eye(n[3]).double()
    weights = attend(q, k, sees_weights.expand(*n[:2], -1, -1))
    scores = q @ k.mT / 6**0.5
    return only(f"dim={dim}" for dim in (1, -2, -1) if close(scores.softmax(dim), weights))


def large_scores(score):
    exponentials = torch.tensor([float(score)] * 3).exp()
    return when((exponentials / exponentials.sum()).isnan().all(), "all NaN")


# 5 Weighted sum
def shuffle():
    order = [3, 0, 4, 2, 1]
    before, after = itself(X), itself(X[:, order])
    alike = close(before[:, order], after) and not close(before, after)
    return when(alike, "the same results, shuffled alike")


# 6 Concatenation
def merge_order(_):
    """Join two axes that are neighbours, and see which give the heads of a token side by side."""
    context = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)  # (B, H, T, D)
    joined = {"H and D": context.transpose(1, 2).flatten(2), "T and D": context.flatten(2)}
    want = torch.cat(context.unbind(1), dim=-1)  # (B, T, C)
    return only(axes for axes, merged in joined.items() if torch.equal(merged, want))


def output_mixes(heads, head):
    changed = torch.zeros(heads, 3)
    changed[head] = 1.0
    reached = (torch.eye(3 * heads) @ changed.flatten()).nonzero().flatten()
    return when(reached.tolist() == [0, 1, 2], "the first half")


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


def one_part_gone(heads, width, head, _zero, channels):
    """Mix merged heads by a matrix without zeros, with and without one of them."""
    contexts = torch.ones(heads, 1, width, dtype=torch.float64)
    without = contexts.clone()
    without[head] = 0.0
    w_o = torch.arange(1.0, channels**2 + 1, dtype=torch.float64).view(channels, channels)
    lost = merge_heads((contexts - without)[None]) @ w_o.T
    left = merge_heads(without[None]) @ w_o.T
    return when(bool((lost != 0).all() and (left != 0).all()), "Each may lose a part.")


# 7 Multi-head attention
# What the lines of each step hold, and no other lines.
STEP_OF = {
    ".chunk(3": "the projections",
    "return x.view(batch,": "the split",
    "math.sqrt": "the scores",
    "softmax(": "mask and softmax",
    "@ v": "the weighted sum",
    "merged =": "the merge",
}


def broken(case):
    """Return the step of the one line that differs from the right module's."""
    source, broken = CASES[case].edit.of(CASES[case].reference)
    lines = zip(source.splitlines(), broken.splitlines(), strict=True)
    wrong = only(line for right, line in lines if line != right)
    return only(step for text, step in STEP_OF.items() if text in wrong)


def divide_by_d(width, _, divisor):
    q, k = torch.randn(2, 200, width)
    none, root, whole = (
        float((q @ k.mT / divisor**power).softmax(-1).max()) for power in (0, 0.5, 1)
    )
    return when(none > 0.99 and whole < 2 / 200 < root, "they are nearly all alike")


@torch.enable_grad()
def what_a_head_reads(heads, width, size):
    x = torch.randn(1, 5, width).requires_grad_()
    q = MultiHeadAttention(width, heads).steps(x).q[0, 2, 3]  # of head 2, for token 3
    (gradient,) = torch.autograd.grad(q.sum(), x)
    return f"a head reads all {int(gradient[0, 3].count_nonzero())} and makes {len(q)}"


def twice_the_heads():
    four, eight = double_layer(4), double_layer(8)
    sizes = {
        "the number of parameters": parameters,
        "the width of a head": lambda layer: layer.steps(X).q.size(-1),
        "the number of weight tables": lambda layer: layer.steps(X).weights.size(1),
    }
    return only(name for name, size in sizes.items() if size(eight) > size(four))


def nan_with_mask():
    blind = CAUSAL & torch.arange(5).bool()  # token 0 sees nothing
    ways = {
        "a row may attend to nothing": (Q, blind),
        "some score is too large for exp": (1e4 * Q, CAUSAL),
        "hidden values are multiplied by 0": (Q, CAUSAL),
    }
    weights = {
        name: (queries @ K.mT).masked_fill(~mask, -torch.inf).softmax(-1)
        for name, (queries, mask) in ways.items()
    }
    return only(name for name in ways if (weights[name] @ V).isnan().any())


def true_means():
    want = LAYER(X, mask=CAUSAL)[0]
    by_function = LAYER.out_proj(merge_heads(attend(Q, K, V, attn_mask=CAUSAL)))
    by_module = to_torch(LAYER)(X, X, X, attn_mask=CAUSAL)[0]
    holds = close(by_function, want) and not close(by_module, want)
    return when(holds, "only F.scaled_dot_product_attention")


def dog_bites_man(layers):
    first, second = X, X.flip(1)
    for _ in range(layers):
        layer = double_layer(4)
        first, second = first + layer(first)[0], second + layer(second)[0]
    return when(close(first, second.flip(1)), "not at all")


@torch.enable_grad()
def without_w_o():
    """Count the heads that reach a number of the output, without W_O and with it."""
    context = STEPS.context.detach().requires_grad_()  # (B, H, T, D)
    merged = merge_heads(context)
    used = []
    for result in (merged, LAYER.out_proj(merged)):
        (gradient,) = torch.autograd.grad(result[0, 2, 0], context, retain_graph=True)
        used.append(int(gradient[0, :, 2].any(-1).sum()))
    holds = merged.shape == X.shape and used == [1, 4]
    return when(holds, "no output number can use two heads")


def heads_reordered(a, b):
    """Swap two heads in all weights of the layer."""
    rows = torch.arange(24).view(4, 6)[[b, a, 2, 3]].flatten()
    layer = copy.deepcopy(LAYER)
    for part in (layer.q_proj, layer.k_proj, layer.v_proj):
        part.weight.data = part.weight[rows]
        part.bias.data = part.bias[rows]
    layer.out_proj.weight.data = layer.out_proj.weight[:, rows]
    return when(close(layer(X)[0], STEPS.out), "it stays the same")


def scaled_before(width, divisor):
    keys = torch.eye(2)[:, [1] * width]  # a score of 0, and one of width / divisor
    weights = attend(torch.ones(1, width) / divisor, keys, torch.eye(2))
    return width / weights.log().diff()


# 8 Masks
def seen(mask, heads=4):
    """Return which keys have a weight above 0, (B, H, 5, 5), read off one-hot values."""
    q, k = torch.randn(2, 2, heads, 5, 6)
    return attend(q, k, torch.eye(5).expand(2, heads, 5, 5), mask) > 0


def padding_shape(*sizes):
    """Find the shape that hides the padding of sentence 1, and nothing else, from everybody."""
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # (B, S)
    want = real[:, None, None].expand(sizes[:4])
    masks = [real[:, None, None], real[:, None, :, None]]
    assert raises(lambda: seen(real))
    assert raises(lambda: seen(real[:, None].expand(2, 5, 5)))
    return only(str(tuple(mask.shape)) for mask in masks if torch.equal(seen(mask), want))


def three_axes(sentences, heads):
    mask = torch.ones(sentences, 5, 5, dtype=torch.bool)
    mask[1, :, 3:] = False  # meant for sentence 1
    hidden = ~seen(mask, heads)[:, :, 0, -1]  # (B, H)
    return when(hidden.tolist() == [[False, True]] * sentences, "head h gets mask h")


def who_ignores(tokens, pads):
    module = nn.MultiheadAttention(24, 4, batch_first=True)
    real = torch.arange(tokens + pads)[None] < tokens
    weights = module(*[torch.ones(1, tokens + pads, 24)] * 3, key_padding_mask=real)[1]
    return when(torch.equal(weights[0, 0] > 0, ~real[0]), "the two pads")


def mask_in_one_layer(_):
    last = later_seen(lambda x: LAYER(x, mask=CAUSAL)[0])
    both = later_seen(lambda x: LAYER(LAYER(x)[0], mask=CAUSAL)[0])
    return when(both and not last, "yes, through the first layer")


# 10 Positions
def first_two_exchanged(layers, _, tokens):
    x, mask = draw(1, tokens, 24), causal_mask(tokens)
    other = x[:, [1, 0, *range(2, tokens)]]
    for _ in range(layers):
        x, other = x + LAYER(x, mask=mask)[0], other + LAYER(other, mask=mask)[0]
    return when(not close(x[:, -1], other[:, -1]), "yes")


def far_away(*positions):
    encoding = sinusoidal_encoding(200, 24)[[*positions]]
    near, far = encoding[0] @ encoding[1], encoding[2] @ encoding[3]
    return when(torch.isclose(near, far, rtol=1e-4), "the same")


def turned_values(moved):
    places = torch.arange(5), torch.arange(moved, moved + 5)
    now, later = (attend(rope(Q, at), rope(K, at), rope(V, at)) for at in places)
    return when((now - later).abs().max() > 1e-3, "the context changes")


# 11 KV cache and fewer KV heads
@torch.enable_grad()
def read_later():
    parts = draw(3, 1, 1, 7, 6).requires_grad_()
    context = attend(*parts, attn_mask=causal_mask(7))
    (gradients,) = torch.autograd.grad(context[0, 0, 5].sum(), parts)
    needed = zip("qkv", gradients[:, 0, 0, 2], strict=True)
    return " and ".join(name for name, gradient in needed if gradient.any())


def word_appended():
    x = draw(1, 7, 6)
    before, after = itself(x[:, :6]), itself(x)
    return when(not any(close(before[0, t], after[0, t]) for t in range(6)), "none")


def always_zero(position):
    here, right = ((rope(Q, at), rope(K, at), V) for at in ([position] * 5, range(5)))
    plain = close(attend(*here), STEPS.context) and not close(attend(*here), attend(*right))
    return when(plain, "attention without positions")


def shared_prefix(size, _, length, other, common):
    texts = ([*range(length)], [*range(common), *range(-1, common - other - 1, -1)])
    return len({str(text[: start + size]) for text in texts for start in range(0, len(text), size)})


def cache_of(tokens=9, heads=8, width=64):
    return caching.kv_cache_bytes(1, 1, tokens, heads, width, 2)


# 12 FlashAttention
def scores_bytes(factor):
    long, short = (attention(*torch.zeros(3, 1, 1, n, 6))[1] for n in (7 * factor, 7))
    return long.nbytes / short.nbytes


@torch.enable_grad()
def paper_gflops(tokens, heads, width, batch, *_):
    """Count the products of attention and of its gradients."""
    q, k, v = torch.zeros(3, batch, heads, tokens, width, device="meta", requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        attention(q, k, v)[0].sum().backward()
    return round(counter.get_total_flops() / 1e9)


@torch.enable_grad()
def flash_saved():
    """Look at what tiled attention saves besides its inputs and its result."""
    q, k, v = (x.requires_grad_() for x in torch.randn(3, 2, 4, 16, 6).unbind(0))
    saved = []

    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        context = flash.tiled_attention(q, k, v, 4)
    known = {context.data_ptr(), *(x.data_ptr() for x in (q, k, v))}
    sizes = [tensor.numel() for tensor in saved if tensor.data_ptr() not in known]
    return when(max(sizes) == 2 * 4 * 16, "one number for each query")


def rising_scores():
    """Add up blocks without shrinking the sum, and see which order of scores comes out wrong."""
    rising, wrong = torch.arange(8.0), []
    orders = (("largest first", -rising), ("all the same", 0 * rising), ("largest last", rising))
    for name, scores in orders:
        blocks = scores.view(4, 2)
        running_max = blocks.amax(1).cummax(0).values  # after each block
        total = (blocks - running_max[:, None]).exp().sum()
        if not torch.isclose(total, (scores - scores.max()).exp().sum()):
            wrong.append(name)
    return only(wrong)


def shares_merged(_, sum1, sum2, context1, context2):
    maxima, sums = T(0, 0).view(2, 1, 1, 1), T(sum1, sum2).view(2, 1, 1, 1)
    return flash.merge_partials(maxima, sums, T(context1, context2).view(2, 1, 1, 1, 1))


def handed_over():
    """Merge the results of two workers, each of which attends to some of the keys."""
    both = [(Q @ K[..., at, :].mT / 6**0.5, V[..., at, :]) for at in ([0, 1], [2, 3, 4])]
    maxima = torch.stack([scores.amax(-1) for scores, _ in both])
    sums = (torch.stack([scores.logsumexp(-1) for scores, _ in both]) - maxima).exp()
    contexts = torch.stack([scores.softmax(-1) @ values for scores, values in both])
    exact = close(flash.merge_partials(maxima, sums, contexts), STEPS.context)
    return when(exact, "context, maximum and sum")


# 13 Encoder block
@torch.enable_grad()
def residual_gradient(_):
    part = nn.Linear(24, 24)
    silence(part)
    x, above = torch.randn(2, 5, 24).requires_grad_(), torch.randn(2, 5, 24)
    (below,) = torch.autograd.grad(x + part(x), x, above)
    return when(torch.equal(below, above), "all of it, unchanged")


def where_numbers_are(width, factor):
    block = EncoderBlock(width, 4, factor * width)
    ways = {"a third": 1 / 3, "half": 1 / 2, "two thirds": 2 / 3}
    return closest(ways, parameters(block.feed_forward) / parameters(block))


def silent_parts(_):
    unchanged = []
    for name, norm_first in (("pre-norm only", True), ("post-norm only", False)):
        block = EncoderBlock(24, 4, 96, norm_first=norm_first).double()
        silence(block.attention.out_proj, block.feed_forward[3])
        if torch.equal(block(X), X):
            unchanged.append(name)
    return only(unchanged)


# 14 Vision
def patch_beneath(rows, columns, _, patch):
    images = torch.zeros(1, 3, 4 * rows, 4 * columns)
    at, column = divmod(patch, columns)
    images[0, :, 4 * at + 4, 4 * column] = 1.0
    return vision.patchify(images, 4)[0].sum(-1).argmax()


def patch_order(*_):
    image = torch.arange(3 * 20 * 28).view(1, 3, 20, 28)  # every pixel tells what it is
    row_first = torch.equal(vision.patchify(image, 4)[0, 0, :4], image[0, 0, 0, :4])
    return when(row_first, "four pixels of the top row, red")


def vit_tokens(_, height, width, *patch):
    patches = vision.patchify(torch.zeros(1, 3, height, width), patch[0])
    return vision.add_class_token(patches, torch.zeros(patches.size(2))).size(1)


def shuffled_patches():
    """Take a model's positions away, shuffle the patches of an image, and compare the answers."""
    model = vision.new_model(0).double()
    model.position_embedding.zero_()
    images = torch.rand(1, 3, 20, 28).double()
    shuffled = vision.unpatchify(vision.patchify(images, 4).flip(1), 4, 7)
    return when(close(model(images), model(shuffled)), "the same")


def votes_of_patches(*_):
    """Look for one number for each colour whose sums answer all four pictures."""
    steps = torch.linspace(-1, 1, 21)
    red, blue = torch.cartesian_prod(steps, steps).T
    right = (2 * red > 0).int() + (2 * blue > 0).int() + 2 * (red + blue < 0).int()
    return right.max()


def numbered_patches(rows, columns):
    """Return an image (1, 3, 8 rows, 8 columns), in which each pixel has its patch's number."""
    grid = torch.arange(rows * columns).view(1, 1, rows, columns)
    return grid.repeat_interleave(8, 2).repeat_interleave(8, 3).expand(1, 3, -1, -1)


def shifted_image(rows, columns, _):
    noise = draw(1, 3, 8 * rows, 8 * columns)
    return (vision.patchify(noise, 8) != vision.patchify(noise.roll(1, -1), 8)).any(-1).sum()


# 15 Language model
def who_guesses():
    text = re.search("<start> (.*) <end>", BANK["who-guesses"].text)[1]
    inputs, targets = next_token_targets(language.encode([text.split()]))
    place = [language.WORDS[i] for i in targets[0].tolist()].index("cat")
    return f"“{language.WORDS[int(inputs[0, place])]}”"


def causal_padding():
    model = language_model.new_language_model(0).double().eval()
    filled = torch.cat((CAT, torch.full((1, 4), language.PAD)), dim=1)
    return when(close(model(CAT), model(filled)[:, : CAT.size(1)]), "nothing")


def loss_at_best():
    """Measure how surprised a reader is who knows the whole grammar."""
    mean = math.log(language_model.limit(sentences(300, "train", 0), "train"))
    return closest({"0": 0.0, "about 0.9": 0.9, "about 4.8, ln 126": math.log(126)}, mean)


def poor_drafts():
    """Draft with the model itself and with its opposite; compare chances and passes."""
    model = language_model.new_language_model(0).double().eval()

    def opposite(ids):
        return -9 * model(ids)

    drafted = speculation.surprisal(model, opposite, CAT, 3)
    same_text = close(drafted, language_model.surprisal(model, CAT))
    good, poor = (
        speculation.speculate(model, small, CAT[:, :1], 3, torch.Generator().manual_seed(0))[1]
        for small in (model, opposite)
    )
    return when(same_text and poor > good, "only the speed")


def draft_kept(drafted, wanted):
    q, p = torch.tensor([[drafted, 1 - drafted], [wanted, 1 - wanted]])
    return fmean(bool(accept_or_redraw(p, q, 0, at / 1000)[0]) for at in range(1000))


def without_mask():
    """See whether a place depends on the very word that it should guess, without a mask."""
    model, ids = language_model.new_language_model(0, see_ahead=True).eval(), CAT[:, :-1]
    other = ids.clone()
    other[0, 3] += 1  # the target of place 2
    return when(not torch.equal(model(ids)[0, 2], model(other)[0, 2]), "far below the limit")


def below_the_limit():
    """Memorise one sentence by its newest word, then ask for others."""
    known, fresh = sentences(1, "train", 0), sentences(50, "train", 1)
    by_heart = language_model.bigram(known * 10_000)
    below = [
        language_model.perplexity(by_heart, texts) < language_model.limit(texts, "train")
        for texts in (known, fresh)
    ]
    return when(below == [True, False], "nothing yet: look at fresh text")


# 16 Why many heads
def one_head_difference(*_):
    """Return how much of c_a - c_b the best mixture of a and b explains."""
    a, b = torch.cartesian_prod(*[torch.linspace(0, 1, 11)] * 2)[1:].T  # never negative
    best = float(((a - b).square() / (2 * (a.square() + b.square()))).max())
    return closest({"about 0": 0.0, "about ½": 0.5, "about 1": 1.0}, best)


def signed_pair(*_):
    """Return how much of two independent contents the best of all mixtures explains."""
    contents = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0))
    explained = torch.linalg.svdvals(contents).square()
    return closest({"0": 0.0, "½": 0.5, "1": 1.0}, float(explained[0] / explained.sum()))


@torch.enable_grad()
def twin_heads(*_):
    """Train two heads that start alike for a few steps, and compare what they have become."""
    layers = learn(TwoTokens(), 2, runs=1, steps=5, identical_heads=True).layers
    heads = [weight.unbind(1) for weight in layers.parameters() if weight.dim() > 2]
    return when(all(torch.equal(*pair) for pair in heads), "bit for bit the same")


def thin_part(*_):
    """Compare what ships: what widening one of the two leaves thin."""
    r2 = {part: fmean(runs) for part, runs in precomputed.load().thin[16].items()}
    return when(r2["v"] > 0.95 > r2["q and k"], "q and k")


def twin_outputs(_):
    once, doubled = torch.cat((W[:6], W[:6])), 2 * W[:6]
    both = V[:, [1, 1]].transpose(1, 2).flatten(2) @ once
    return when(close(both, V[:, 1] @ doubled), "double them")


# 17 What heads do
def largest_contribution(dog, length_of_dog, cat, length_of_cat, _):
    v = torch.tensor([length_of_dog, length_of_cat]).float().diag()[None]
    brought = contribution_norms(torch.tensor([[[dog, cat]]]), v, torch.eye(2))[0, 0]
    return ("dog", "cat")[int(brought.argmax())]


def carried_word():
    """Send “queen” through the values and the output of head 1 of the last layer, into logits."""
    model, own = trained_model(), slice(12, 24)
    index = {word: vocabulary().index(word) for word in BANK["carried-word"].answers}
    layer = model.blocks[1].attention
    word = model.blocks[1].norm1(model.token_embedding.weight[index["queen"]])
    carried = layer.out_proj.weight[:, own] @ (layer.v_proj.weight[own] @ word)
    logits = model.to_words.weight @ ((carried - carried.mean()) * model.encoder.norm.weight)
    return max(index, key=lambda word: logits[index[word]])


def layers_that_know_the_word_before(layers, heads):
    """Find the layers in which the word before a key moves its share against another."""
    model = induction.AttentionOnly(layers, heads)
    ids = induction.repeated_words(1, torch.Generator().manual_seed(0))
    changed = ids.clone()
    changed[0, 3] = (ids[0, 3] + 1) % 32
    # (L, H, S) each
    rows = [model.weights_and_logits(one)[0][:, 0, :, 9] for one in (ids, changed)]
    pairs = enumerate(zip(*(row[..., 4] / row[..., 6] for row in rows), strict=True))
    return [layer for layer, pair in pairs if not torch.allclose(*pair, rtol=1e-4)]


def copy_layers(*_):
    sizes = {
        "one layer, with one head": (1, 1),
        "one layer, with two heads side by side": (1, 2),
        "two layers, with one head each": (2, 1),
    }
    return only(name for name, size in sizes.items() if layers_that_know_the_word_before(*size))


def free_directions(width, tokens, _):
    """Count the directions in which a row of weights may move unseen."""
    kept = torch.cat((draw(tokens, width), torch.ones(tokens, 1)), dim=1)  # (S, D+1)
    return tokens - torch.linalg.matrix_rank(kept)


# 19 Bug hunt
def shipped(*names):
    """Return the mean of each loss over the runs of these; NaN where a run has none."""
    for record in map(costs.load().get, names):
        means = {
            way: fmean(torch.nan if value is None else value for value in getattr(record, way))
            for way in ("at_once", "in_use", "loaded")
        }
        yield record._replace(**means)


def lowest_loss(*_):
    """Compare the shipped losses of cases 1 and 7: on whole sentences, and word by word."""
    best, *ahead = shipped("right", "mask-after-softmax", "merge-without-transpose")
    below = all(case.at_once <= best.at_once and case.in_use > 2 * best.in_use for case in ahead)
    return when(below, "they see some of what they should guess")


def padding_unseen(_):
    best, case = shipped("right", "mask-inverted")
    return when(case.losses == best.losses, "nothing at all")


def own_order(*_):
    best, case = shipped("right", "kv-repeat-interleaved-wrongly")
    cost = max(case.in_use / best.in_use, case.losses[-1] / best.losses[-1]) - 1
    return when(cost < 0.02, "nothing")


def sums_show(check, ways):
    """Return the one way of making weights whose row sums pass a check."""
    return only(name for name, weights in ways.items() if check(weights.sum(-1)))


def unseen_with_one_head():
    """Find the one mistake that a module with one head computes right with."""
    right = faulty_attention.CausalAttention(24, 1, 1).double().eval()
    x, real = draw(2, 5, 24), padding_mask([5, 3], 5)[:, 0, 0]
    unseen = []
    for name in ("key-value-swapped", "scale-missing", "view-without-transpose", "mask-inverted"):
        case = faulty_attention.faulty(name)(24, 1, 1).double().eval()
        case.load_state_dict(right.state_dict())
        if close(case(x, mask=real), right(x, mask=real)):
            unseen.append(name)
    return when(unseen == ["view-without-transpose"], "a split without a transpose")


# Where a line is enough; the others are functions of their names. What takes arguments gets the
# numbers of its question.
SHORT = {
    "row-sum": lambda tokens: draw(tokens).softmax(-1).sum(),
    "dot-with-minus": lambda *n: T(*n[:2]) @ T(*n[2:]),
    "twice-as-long-vector": lambda product, factor: T(product) @ (factor * T(1)),
    "lead-of-two": lambda lead: row(lead, 0, 5)[0] / row(lead, 0, 5)[1],
    "column-of-weights": lambda tokens, *_: words(
        "{} and {}", torch.eye(tokens)[[0] * tokens].sum(0).aminmax()
    ),
    "all-on-one": lambda *n: when(T(*n) @ T(3, 7) == 3, "the vector of “cat”"),
    "linear-weight": lambda *n: nn.Linear(*n[:2]).weight.shape,
    "linear-result": lambda *n: nn.Linear(*n[3:])(torch.ones(n[:3])).shape,
    "whose-heads": lambda width, heads, size: when(
        (draw(width, width) @ torch.eye(width)[0].double()).view(heads, size).any(-1).sum() == 4,
        "all four",
    ),
    "which-crashes": lambda *n: raising(
        "which-crashes", x=torch.ones(n[:3]), W=torch.ones(n[3:]), F=F
    ),
    "fused-parameters": lambda *n: parameters(nn.Linear(*n)),
    "longer-sentence": lambda factor: when(
        LAYER.steps(X.repeat(1, factor, 1)).q.numel() == factor * Q.numel(), "q, k and v"
    ),
    "one-matrix-for-both": lambda: when(close(Q @ Q.mT, (Q @ Q.mT).mT), "They are symmetric"),
    "no-transpose": lambda *n: when(
        (draw(*n[:4]) @ draw(*n[:4]).transpose(*n[4:])).shape == (*n[:2], n[2], n[2]),
        "heads to heads, in each token",
    ),
    "split-shape": lambda *n: torch.ones(n[:3]).view(n[3:7]).transpose(*n[7:]).shape,
    "half-and-half": lambda *n: when(
        close(T(*n) @ MEMORY[:, :2], MEMORY[:, :2].mean(1)), "the mean of the two values"
    ),
    "wrong-row": lambda *n: (
        torch.arange(math.prod(n[:4])).view(n[:4])[0, n[5], n[4], 0] // (n[1] * n[3])
    ),
    "view-or-not": lambda *n: raising(
        "view-or-not", heads=torch.ones(2, 5, 24).view(n[:4]).transpose(*n[4:])
    ),
    "contiguous-copies": lambda heads: when(
        torch.ones(2, 5, heads, 6).transpose(1, 2).is_contiguous(), "no"
    ),
    "query-length": lambda *n: MultiHeadAttention(*n).steps(torch.ones(1, 2, n[0])).q.size(-1),
    "count-tables": lambda texts, heads: math.prod(
        double_layer(heads).steps(draw(texts, 5, 24)).weights.shape[:2]
    ),
    "channel-to-head": lambda width, heads, _, channel, _zero: (
        split_heads(torch.eye(width)[channel][None, None], heads).sum(-1).argmax()
    ),
    "moved-by-transpose": lambda *n: n[4] * (Q.data_ptr() != Q.transpose(*n[5:]).data_ptr()),
    "twice-the-text": lambda *n: (torch.ones(n[-1], 12) @ torch.ones(n[-1], 12).T).numel(),
    "which-width": lambda width, heads: (width // heads) ** 0.5,
    "scale-of-one": lambda lead, factor: when(
        row(0, 0, 0, lead).max() < 0.5 and row(0, 0, 0, factor * lead).max() > 0.99,
        "it comes close to 1",
    ),
    "divided-twice": lambda _, a, b, c: 1 / ((T(1) / a) @ (T(1) / b) / c),
    "keys-ask": lambda *n: (torch.ones(n[4:8]) @ torch.ones(n[:4]).transpose(*n[8:])).shape,
    "score-multiplications": lambda queries, keys, width: (
        torch.ones(queries, 1, width) * torch.ones(keys, width)
    ).numel(),
    "softmax-shift": lambda shift: when(close(S.softmax(-1), (S + shift).softmax(-1)), "nothing"),
    "all-hidden": lambda score: when(
        torch.randn(4).masked_fill(torch.ones(4) > 0, score).softmax(-1).tolist() == [0.25] * 4,
        "all alike",
    ),
    "most-entropy": lambda tokens: torch.special.entr(torch.full((tokens,), 1 / tokens)).sum(),
    "ratio-of-nine": lambda _, first, ratio, _log: row(first, math.log(ratio))[1],
    "hidden-third": lambda *weights: row(*T(*weights[:2]).log(), -torch.inf)[0],
    "weight-of-minus-inf": lambda: when(row(1, -torch.inf, 2)[1] == 0, "exactly 0"),
    "softmax-again": lambda *weights: row(*weights[:2])[0],
    "uniform-weights": lambda: when(close(T(*[0.2] * 5) @ X, X.mean(1)), "the mean of the values"),
    "context-shape": lambda *n: (torch.ones(n[:4]) @ torch.ones(n[4:])).shape,
    "own-width": lambda width: when(
        attend(*torch.ones(2, 3, width), torch.ones(3, 2 * width)).size(-1) == 2 * width,
        "any number",
    ),
    "two-numbers": lambda *n: T(*n[:2]) @ T(*n[2:]),
    "constant-added": lambda: when(close(STEPS.weights @ (V + 3), STEPS.context + 3), "c itself"),
    "doubled-token": lambda tokens, copies: row(*[3] * (tokens + copies - 1))[:copies].sum(),
    "empty-column": lambda weight: when(
        weight == 0 and close(HOLED @ V, HOLED @ (V + ONE[:, None])),
        "No context contains A's value",
    ),
    "negative-context": lambda: when((STEPS.weights @ V.abs() > 0).all(), "never"),
    "one-head-mixture": lambda: only(name for name, (a, b) in PAIRS.items() if a * b > 0),
    "wide-values": lambda heads, values, width: nn.Linear(heads * values, width).weight.shape,
    "count-heads": lambda width, *heads: [
        parameters(nn.MultiheadAttention(width, number)) for number in heads
    ],
    "which-is-other": lambda _: when(
        nn.Linear(12, 12).weight.numel() < nn.Linear(12, 2 * 12).weight.numel(),
        "every head as wide as d_model",
    ),
    **{f"broken-{case}": broken for case in CASES},
    "fused-merge": lambda: when(
        attend(*torch.randn(3, 2, 5, 4, 6).transpose(2, 3)).transpose(1, 2).is_contiguous(), "no"
    ),
    "bias-of-keys": lambda: when(
        close((Q @ K.mT).softmax(-1), (Q @ (K + V[..., :1, :]).mT).softmax(-1)), "nothing"
    ),
    "forgotten-batch-first": lambda *n: when(
        nn.MultiheadAttention(*n[5:])(*[torch.ones(n[:3])] * 3)[1].shape == (n[1], n[0], n[0]),
        f"over the {n[0]} sentences",
    ),
    "causal-count": lambda tokens, _: causal_mask(tokens).sum(),
    "blind-rows": lambda tokens, size, _: (
        ~combine_masks(causal_mask(size), padding_mask([tokens], size, side="left")).any(-1)
    ).sum(),
    "causal-corner": lambda keys: (
        attend(torch.ones(1, 6), torch.ones(keys, 6), torch.eye(keys), is_causal=True) > 0
    ).sum(),
    "returned-weights": lambda width, heads, *sizes: (
        nn.MultiheadAttention(width, heads, batch_first=True)(*[torch.ones(*sizes, width)] * 3)[
            1
        ].shape
    ),
    "first-token-context": lambda: when(
        close(attention(Q, K, V, CAUSAL)[0][..., 0, :], V[..., 0, :]), "its value"
    ),
    "last-row-of-both": lambda length, size, _: combine_masks(
        causal_mask(size), padding_mask([length], size)
    )[0, 0, -1].sum(),
    "two-new-tokens": lambda _, new, total: causal_mask_for_cache(new, total)[0].sum(),
    "after-softmax": lambda _: when(
        later_seen(lambda x: (x @ x.mT).softmax(-1).masked_fill(~CAUSAL, 0.0) @ x),
        "yes, through the sum",
    ),
    "small-fill": lambda fill, visible: when(
        row(visible, visible, fill)[2] > 0.999, "to the hidden keys"
    ),
    "cross-weights": lambda *n: (
        MultiHeadAttention(n[2], n[6])(torch.ones(n[:3]), torch.ones(n[3:6]))[1].shape
    ),
    "later-word": lambda: when(
        close(CROSS[:, :4], LAYER(torch.cat((X[:, :4], X[:, 4:] + 1), 1), MEMORY)[0][:, :4]), "no"
    ),
    "keys-once": lambda steps: len(
        {tuple((torch.ones(7, 24) @ torch.ones(24)).tolist()) for _ in range(steps)}
    ),
    "translated-length": lambda *n: LAYER(draw(1, n[0], 24), draw(1, n[1], 24))[0].size(1),
    "cross-parameters": lambda: when(CROSS.shape == STEPS.out.shape, "they are equal"),
    "shuffled-memory": lambda: when(close(CROSS, LAYER(X, MEMORY.flip(1))[0]), "it stays the same"),
    "memory-padding": lambda batch, _, size, *_n: padding_mask([3] * batch, size).shape,
    "one-token-memory": lambda queries: LAYER(draw(1, queries, 24), MEMORY[:, :1])[1].mean(),
    "bag-of-words": lambda: when(close(itself(X)[:, 2], itself(X.flip(1))[:, 2]), "the same"),
    "slowest-pair": lambda width, base, *_: round(2 * math.pi * base ** ((width - 2) / width), -3),
    "length-after-rope": lambda length, at: (
        rope(F.normalize(Q, dim=-1) * length, [at] * 5).norm(dim=-1).mean()
    ),
    "both-moved": lambda a, b, score, c, d: when(
        close(rope(Q, [a] * 5) @ rope(K, [b] * 5).mT, rope(Q, [c] * 5) @ rope(K, [d] * 5).mT),
        str(score),
    ),
    "at-position-zero": lambda at: when(close(rope(Q, [at] * 5), Q), "the same vector"),
    "partner-of-channel": lambda width, _, _half, channel: rope(
        torch.eye(width)[channel][None, None, None], [3]
    ).nonzero()[-1, -1],
    "encoding-of-zero": lambda count, at: sinusoidal_encoding(at + 1, 8)[at, :count].tolist(),
    "twice-as-long": lambda factor: (
        sum(n * n for n in range(factor * 10_000 + 1)) / sum(n * n for n in range(10_001))
    ),
    "which-kv-head": lambda heads, kv_heads, head, _: caching.repeat_kv(
        torch.arange(float(kv_heads)).view(1, -1, 1, 1), heads
    )[0, head],
    "page-of-token": lambda size, *n: caching.gather_pages(
        torch.arange(9.0).view(9, 1, 1, 1).expand(9, 1, size, 1), torch.tensor(n[:3]), n[3] + 1
    )[0, n[3], 0],
    "narrow-key": lambda *n: caching.GroupedQueryAttention(*n).k_proj.weight.shape,
    "latent-width": lambda d, r: (torch.zeros(1, 1, 1, d) @ torch.zeros(1, d, r)).size(-1),
    "bytes-a-token": lambda layers, heads, width, size, kib: (
        caching.kv_cache_bytes(layers, 1, 1, heads, width, size) // kib
    ),
    "cache-of-twice": lambda factor: cache_of(9 * factor) / cache_of(9),
    "grouped-saving": lambda heads, groups: cache_of(heads=heads) / cache_of(heads=groups),
    "newest-query": lambda cached: caching.decode_step(
        X[:, :1], *draw(2, 1, 4, cached, 6), *[W] * 4, 4
    )[1].size(2),
    "latent-saving": lambda heads, width, latent: cache_of(1, heads, width) / (latent * 2),
    "rows-of-tiles": lambda heads, keys, size, _: (
        heads * len({str(rows) for rows, _ in flash.blocks(1, keys, size)})
    ),
    "flash-work": lambda: when(
        count_flops(attention, Q, K, V) == count_flops(flash.tiled_attention, Q, K, V, 2),
        "the same number",
    ),
    "running-sum": lambda maximum, total, score, _: flash.online_softmax(
        torch.tensor([float(maximum)] * total + [math.log(score)]), total
    )[1],
    "how-exact": lambda: when(
        (flash.tiled_attention(Q, K, V, 2) - STEPS.context).abs().max() < 1e-12,
        "equal up to rounding",
    ),
    "first-block-hidden": lambda: when((T(-torch.inf) - T(-torch.inf)).exp().isnan(), "NaN"),
    "causal-tiles": lambda rows, columns, _: (
        causal_mask(8 * rows).view(rows, 8, columns, 8).any(3).any(1).sum()
    ),
    "feed-forward-reach": lambda: when(
        token_dependence(EncoderBlock(24, 4, 96).double().feed_forward, X).equal(torch.eye(5) > 0),
        "only its own",
    ),
    "norm-by-hand": lambda *n: F.layer_norm(T(*n[:4]), (4,)).max(),
    "dropout-values": lambda p, x: (
        F.dropout(torch.full((1000,), float(x)), p, training=True).unique().tolist()
    ),
    "shifted-token": lambda shift: when(
        close(F.layer_norm(X, (24,)), F.layer_norm(X + shift, (24,))), "nothing"
    ),
    "how-many-means": lambda *n: torch.native_layer_norm(draw(*n[:3]), n[3:], None, None, 1e-5)[
        1
    ].numel(),
    "parameters-of-norm": lambda width: parameters(nn.LayerNorm(width)),
    "patches-shape": lambda *n: vision.patchify(torch.zeros(n[:4]), n[4]).shape,
    "mirrored-image": lambda rows, columns, _, patch: (
        vision.patchify(numbered_patches(rows, columns).flip(-1), 8)[0, :, 0] == patch
    ).nonzero(),
    "finer-patches": lambda high, _: (
        (vision.patchify(IMAGE, int(8 * high)).size(1) / vision.patchify(IMAGE, 8).size(1)) ** 2
    ),
    "shift-shape": lambda *n: next_token_targets(torch.zeros(n, dtype=torch.long))[0].shape,
    "colder": lambda _, p, q, _p, temperature, *_n: (T(p, q).log() / temperature).softmax(-1)[0],
    "read-in-all": lambda tokens: sum(range(1, tokens + 1)),
    "loss-of-quarter": lambda p: F.nll_loss(T(p, 1 - p).log()[None], torch.tensor([0])),
    "top-two": lambda count, *n: next_token_probabilities(T(*n[:count]).log()[None], 1.0, n[count])[
        0, 0
    ],
    "perplexity-of-dice": lambda count: F.cross_entropy(
        torch.zeros(1, count), torch.tensor([7])
    ).exp(),
    "rank-of-scores": lambda width, heads, tokens, *_: torch.linalg.matrix_rank(
        double_layer(heads, width).steps(draw(1, tokens, width)).scores[0, 0]
    ),
    "values-exchanged": lambda a, b, *_: when(
        close(T(a / b, a / b) @ S[:2], T(a / b, a / b) @ S[[1, 0]]), "it stays the same"
    ),
    "zero-query": lambda factor: when(
        close(attend(factor * Q, K, V)[..., 0, :], V.mean(2)), "the mean of all values"
    ),
    "mean-ablated": lambda: when(
        close(X.expand(4, 5, 24).mean(0), X[0]) and bool(X.abs().sum() > 0), "not at all"
    ),
    "mean-relation": lambda *weights: relation_score(
        T(*weights).diag()[None], [(at, at) for at in range(len(weights))]
    ),
    "opposite-heads": lambda _, length, _heads: (T(length, 0) + T(-length, 0)).norm(),
    # as (in, out), where nn.Linear stores (out, in)
    "square-weight": lambda: only(
        answer
        for answer in BANK["square-weight"].answers
        if [*nn.Linear(*numbers_in(answer)).weight.shape] == numbers_in(answer)
    ),
    "narrow-file": lambda *n: caching.GroupedQueryAttention(*n).k_proj.weight.shape,
    "first-induction": lambda _: layers_that_know_the_word_before(3, 2)[0],
    "where-k-lies": lambda width, columns, _: words(
        "columns {} to {}", gpt2_qkv(torch.arange(columns).expand(width, columns))[1][[0, -1], 0]
    ),
    "rms-of-equal": lambda *n: F.rms_norm(T(*n[:4]), (4,)).tolist(),
    "order-of-rows": lambda width, *_: to_half_split(
        torch.arange(width)[:, None].expand(width, width), 1
    )[:, 0].tolist(),
    "rows-below-one": lambda last: sums_show(
        lambda sums: sums[-1].isclose(T(last)[0]) and (sums[:-1] < 0.999).all(), WHEN_SUMS
    ),
    "unseen-with-equal-values": lambda: sums_show(
        lambda sums: (sums - 1).abs().max() > 0.01, EQUAL_VALUES
    ),
}


@pytest.mark.parametrize("name", BANK)
@torch.no_grad()
def test_the_right_answer_is_what_comes_out(name):
    question, compute = BANK[name], SHORT.get(name) or globals()[name.replace("-", "_")]
    numbers = numbers_in(question.text) if inspect.signature(compute).parameters else []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        result = compute(*numbers)
    answer = result if isinstance(result, str) else nearest(result, question.answers)
    assert answer == question.right, result


def test_no_computation_is_left_over():
    assert set(SHORT) <= set(BANK)
