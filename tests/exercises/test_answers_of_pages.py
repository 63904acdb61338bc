"""Every question of a page has the answer that comes out when it is tried.

The numbers are read from the question: with others in it, another answer is right.
"""

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

from mha_course import flash
from mha_course.attention import MultiHeadAttention, attention
from mha_course.caching import GroupedQueryAttention, kv_cache_bytes, repeat_kv
from mha_course.datasets.grammar import sentences, vocabulary
from mha_course.example import guess, trained_model
from mha_course.exercises import QUESTIONS
from mha_course.experiments import faulty_attention, precomputed
from mha_course.experiments.head_analysis import ablate_heads
from mha_course.experiments.head_tasks import TwoTokenSum, learn
from mha_course.experiments.leakage import token_dependence
from mha_course.lessons.l07_multi_head_attention.exam import CASES
from mha_course.lessons.l12_flash_attention import kernels
from mha_course.lessons.l14_vision import vision
from mha_course.lessons.l15_language_model import language_model, speculation
from mha_course.lessons.l15_language_model.exercises import accept_or_redraw, next_token_targets
from mha_course.lessons.l17_what_heads_do import induction
from mha_course.lessons.l17_what_heads_do.exercises import contribution_norms
from mha_course.lessons.l19_bug_hunt import costs
from mha_course.masks import causal_mask, combine_masks, padding_mask
from mha_course.models import EncoderBlock, language
from mha_course.positions import rope, sinusoidal_encoding
from mha_course.variants import to_torch

attend = F.scaled_dot_product_attention
ROW = torch.tensor([0.3, 2.0, -1.0, 0.5])
SENTENCE = torch.randn(1, 3, 6, generator=torch.Generator().manual_seed(0))


def itself(x):
    """Let tokens attend to each other, each its own query, key and value."""
    return attend(x, x, x)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def raising(name, **names):
    """Run the answers to a question, which are code, and return those that raise."""
    failed = []
    for code in QUESTIONS[name].answers:
        try:
            eval(code, names)
        except RuntimeError:
            failed.append(code)
    return " and ".join(failed)


def either(holds, one, other="nothing"):
    return one if holds else other


# 0 Start here
def without_head_1():
    model = ablate_heads(trained_model(), [(1, 1)])
    asked = "the grey cat that chased the loud dogs were hungry , so <mask> ate greedily"
    word, probability = guess(asked, model=model)[0]
    return "no word in particular" if probability < 0.5 else word


def context_of_a(*points):
    """Find the one choice that is a mean of the tokens, with weights of 0 and more."""
    corners = torch.tensor(points, dtype=torch.float64).view(-1, 2).T
    system = torch.cat((corners, torch.ones(1, corners.size(1))))
    inside = []
    for choice in QUESTIONS["context-of-a"].answers:
        weights = torch.linalg.solve(system, torch.tensor([*numbers_in(choice), 1.0]).double())
        inside += [choice] if (weights > 0).all() else []
    return " and ".join(inside)


# 1 Projection
def whose_heads(width, heads, size):
    weight = torch.randn(width, width)
    x = torch.zeros(1, 5, width)
    changed = x.clone()
    changed[0, 2, 0] = 1.0
    moved = F.linear(changed, weight) - F.linear(x, weight)
    moved = moved.unflatten(2, (heads, size)).abs().sum((0, 1, 3))  # (H,)
    return {heads: "all four", 1: "head 0 alone", 0: "none"}[int((moved > 0).sum())]


# 4 Softmax
def softmax_axis(*sizes):
    keys = sizes[-1]
    q, k = torch.randn(*sizes[:3], 6), torch.randn(*sizes[:2], keys, 6)
    shows_weights = torch.eye(keys).expand(*sizes[:2], keys, keys)
    want = attend(q, k, shows_weights)
    scores = q @ k.mT / 6**0.5
    right = [dim for dim in (1, -2, -1) if torch.allclose(scores.softmax(dim), want, atol=1e-5)]
    return f"dim={right[0]}"


def all_hidden(score):
    weights = ROW.masked_fill(torch.ones(4, dtype=torch.bool), score).softmax(-1)
    return "NaN" if weights.isnan().any() else "all 0" if not weights.any() else "all alike"


# 5 Weighted sum
def shuffle():
    x, order = torch.randn(1, 5, 6), torch.tensor([3, 0, 4, 2, 1])
    before, after = itself(x), itself(x[:, order])
    if torch.allclose(before, after, atol=1e-5):
        return "the same result"
    alike = torch.allclose(before[:, order], after, atol=1e-5)
    return "the same results, shuffled alike" if alike else "something else"


# 6 Concatenation
def merge_order():
    """Join two axes that are neighbours after moves that bring them together, in every way."""
    context = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)  # B, H, T, D
    want = torch.cat(context.unbind(1), dim=-1)  # (B, T, C), the heads side by side
    ways = {
        "H and T": context.flatten(1, 2),
        "H and D": context.transpose(1, 2).flatten(2),
        "T and D": context.flatten(2),
    }
    return next(axes for axes, merged in ways.items() if torch.equal(merged, want))


def scores_fit(*sizes):
    """Ask torch, and then with as many keys as queries, and with fewer axes."""
    q, k = torch.ones(sizes[:4]), torch.ones(sizes[4:8])
    queries, keys, width = sizes[8:]
    with pytest.raises(RuntimeError, match="size"):
        q @ k
    with pytest.raises(RuntimeError, match="size"):
        q[:, :, :queries] @ k[:, :, :queries]
    with pytest.raises(RuntimeError, match="shape"):
        q[0, 0] @ k[0, 0]
    assert (q @ k.mT).shape[2:] == (queries, keys)
    return f"the {keys} of k stands where a {width} is needed"


def output_mixes():
    changed = torch.zeros(2, 3)
    changed[0] = 1.0  # head 0 of two, three numbers each
    reached = (changed.flatten() @ torch.eye(6)).nonzero().flatten().tolist()
    return {(0, 1, 2): "the first half", (): "none"}.get(tuple(reached), "all")


# 7 Multi-head attention
def broken(case):
    """Return what the line makes that differs from the right module's."""
    source, broken = faulty_attention.PLAIN[CASES[case]].of(faulty_attention.PlainAttention)
    lines = zip(source.splitlines(), broken.splitlines(), strict=True)
    (wrong,) = [line for right, line in lines if line != right]
    return wrong.split(" = ")[0].strip()


def divide_by_d(d, _, divisor):
    q, k = torch.randn(2, 200, d)
    most = {power: float((q @ k.mT / divisor**power).softmax(-1).max()) for power in (0, 0.5, 1)}
    assert most[0] > 0.99
    if most[1] < 2 / 200 < most[0.5]:
        return "they are nearly all alike"
    return "one key takes nearly all" if most[1] > 0.5 else "the same as with √D"


def what_a_head_reads(heads, width, size):
    mha, x = MultiHeadAttention(width, heads), torch.randn(1, 5, width).requires_grad_()
    q = mha.steps(x).q[0, 2, 3]  # of head 2, for token 3
    (gradient,) = torch.autograd.grad(q.sum(), x)
    read = int((gradient[0, 3] != 0).sum())
    if (read, len(q)) == (size, size):
        return "exactly that"
    which = f"all {read}" if read == width else f"{read}"
    return f"a head reads {which} and makes {len(q)}"


def twice_the_heads():
    four, eight = MultiHeadAttention(24, 4), MultiHeadAttention(24, 8)
    x = torch.randn(1, 5, 24)
    sizes = {
        "the number of parameters": lambda m: sum(p.numel() for p in m.parameters()),
        "the width of a head": lambda m: m.steps(x).q.size(-1),
        "the number of weight tables": lambda m: m.steps(x).weights.size(1),
    }
    grown = [name for name, size in sizes.items() if size(eight) > size(four)]
    return " and ".join(grown) or "nothing"


def nan_with_mask():
    q, k, v = torch.randn(3, 1, 4, 5, 6)
    blind = causal_mask(5).clone()
    blind[0, 0] = False
    ways = {
        "-inf in the scores always gives NaN": (q, causal_mask(5)),
        "a row may attend to nothing": (q, blind),
        "some score is too large for exp": (1e4 * q, causal_mask(5)),
        "hidden values are multiplied by 0": (q, causal_mask(5)),
    }
    found = []
    for name, (queries, mask) in ways.items():
        scores = queries @ k.mT / 6**0.5
        if (scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v).isnan().any():
            found.append(name)
    return " and ".join(found)


def true_means():
    mha, x, allowed = MultiHeadAttention(24, 4), torch.randn(1, 5, 24), causal_mask(5)
    steps = mha.steps(x)
    want = mha(x, mask=allowed)[0]
    merged = attend(steps.q, steps.k, steps.v, attn_mask=allowed).transpose(1, 2).flatten(2)
    by_module = to_torch(mha)(x, x, x, attn_mask=allowed)[0]
    ways = {
        (True, True): "both",
        (True, False): "only F.scaled_dot_product_attention",
        (False, True): "only nn.MultiheadAttention",
    }
    agree = tuple(torch.allclose(out, want, atol=1e-5) for out in (mha.out_proj(merged), by_module))
    return ways.get(agree, "neither")


@torch.no_grad()
def dog_bites_man():
    layers, words = [MultiHeadAttention(24, 4) for _ in range(3)], torch.randn(1, 3, 24)
    first, second = words, words.flip(1)
    apart = []
    for layer in layers:
        first, second = first + layer(first)[0], second + layer(second)[0]
        apart.append(float((first[0, 0] - second[0, 2]).abs().max()))
    return "not at all" if max(apart) < 1e-5 else "a little more with every layer"


def without_w_o():
    mha, x = MultiHeadAttention(24, 4), torch.randn(1, 5, 24)
    context = mha.steps(x).context.detach().requires_grad_()  # (B, H, T, D)
    merged = context.transpose(1, 2).flatten(2)
    if merged.shape != x.shape:
        return "the shape: the result is no longer C wide"
    used = []
    for result in (merged, mha.out_proj(merged)):
        (gradient,) = torch.autograd.grad(result[0, 2, 0], context, retain_graph=True)
        used.append(int(gradient[0, :, 2].any(-1).sum()))
    return "no output number can use two heads" if used == [1, 4] else "nothing"


# 8 Masks
def seen(mask, *, heads=4):
    """Return which keys have a weight above 0, (B, H, 5, 5), read off one-hot values."""
    q, k = torch.randn(2, 2, heads, 5, 6)
    return attend(q, k, torch.eye(5).expand(2, heads, 5, 5), mask) > 0


def works(mask, want):
    try:
        return torch.equal(seen(mask), want)
    except RuntimeError:
        return False


def padding_shape(*sizes):
    """Find the shape that hides the padding of sentence 1, and nothing else, from everybody."""
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # (B, S)
    want = real[:, None, None].expand(sizes[:4])
    masks = (real, real[:, None, None], real[:, None, :, None], real[:, None].expand(2, 5, 5))
    return " and ".join(str(tuple(mask.shape)) for mask in masks if works(mask, want))


def three_axes():
    """Give two heads and two sentences a mask (B, T, S), and see who took what."""
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[1, :, 3:] = False  # meant for sentence 1
    try:
        hidden = ~seen(mask, heads=2)[:, :, 0, -1]  # (B, H)
    except RuntimeError:
        return "it raises"
    ways = {(True, False): "sentence b gets mask b", (False, True): "head h gets mask h"}
    return ways[bool(hidden[1, 0]), bool(hidden[0, 1])]


def first_two_exchanged(_, layers, words):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(24, 4).double(), torch.randn(2, words, 24).double()
    both = torch.stack((x, x[:, [1, 0, *range(2, words)]]))
    for _ in range(layers):
        both = torch.stack([one + layer(one, mask=causal_mask(words))[0] for one in both])
    return "no" if torch.allclose(*both[:, :, -1]) else "yes"


def who_ignores(words, pads):
    module = nn.MultiheadAttention(24, 4, batch_first=True)
    x = torch.ones(1, words + pads, 24)
    real = torch.arange(words + pads)[None] < words
    weights = module(x, x, x, key_padding_mask=real)[1]
    seen = tuple((weights[0, 0] > 0).tolist())
    ways = {
        tuple(real[0].tolist()): "the three words",
        tuple((~real[0]).tolist()): "the two pads",
    }
    return ways.get(seen, "everything")


def after_softmax():
    allowed = causal_mask(5)

    def masked_late(x):
        return (x @ x.mT).softmax(-1).masked_fill(~allowed, 0.0) @ x

    found = token_dependence(masked_late, torch.ones(1, 5, 6))
    ahead = (found & ~allowed).nonzero()
    if not len(ahead):
        return "no, its weight is 0"
    far = int((ahead[:, 1] - ahead[:, 0]).max()) > 1
    return either(far, "yes, through the sum", "only if it is the next one")


# 9 Cross-attention
def later_word():
    mha, x, memory = MultiHeadAttention(24, 4), torch.randn(1, 5, 24), torch.randn(1, 7, 24)
    changed = x.clone()
    changed[0, -1] += 1
    same = torch.allclose(mha(x, memory)[0][0, :-1], mha(changed, memory)[0][0, :-1])
    return "no" if same else "yes"


# 10 Positions
def far_away(*positions):
    encoding = sinusoidal_encoding(200, 24)[[*positions]]
    near, far = float(encoding[0] @ encoding[1]), float(encoding[2] @ encoding[3])
    return "the same" if math.isclose(near, far, rel_tol=1e-4) else "smaller"


def turned_values(moved):
    q, k, v = torch.randn(3, 1, 1, 5, 6)
    now, later = torch.arange(5), torch.arange(moved, moved + 5)
    first, second = (attend(rope(q, at), rope(k, at), rope(v, at)) for at in (now, later))
    return "the context changes" if not torch.allclose(first, second, atol=1e-3) else "nothing"


# 11 KV cache and fewer KV heads
def read_later():
    parts = torch.randn(3, 1, 1, 7, 6).requires_grad_()
    context = attend(parts[0], parts[1], parts[2], attn_mask=causal_mask(7))
    (found,) = torch.autograd.grad(context[0, 0, 5].sum(), parts)
    needed = [name for name, grad in zip("qkv", found[:, 0, 0, 2], strict=True) if bool(grad.any())]
    return {"kv": "k and v", "qkv": "q, k and v"}.get("".join(needed), "none")


def word_appended():
    x = torch.randn(1, 7, 6)
    before, after = itself(x[:, :6]), itself(x)
    same = [torch.allclose(before[0, t], after[0, t], atol=1e-6) for t in range(6)]
    return "all" if all(same) else "some" if any(same) else "none"


def always_zero():
    q, k, v = torch.randn(3, 1, 1, 7, 6).unbind(0)
    places = torch.zeros(7), torch.arange(7)
    found, right = (attend(rope(q, p), rope(k, p), v) for p in places)
    if torch.allclose(found, right, atol=1e-5):
        return "the same as always: RoPE knows distances only"
    plain = torch.allclose(found, attend(q, k, v), atol=1e-6)
    return "attention without positions" if plain else "noise"


# 12 FlashAttention
def flash_work():
    q, k, v = torch.zeros(3, 2, 4, 32, 6)
    whole = kernels.flops(attention, q, k, v)
    tiled = kernels.flops(flash.tiled_attention, q, k, v, 8)
    return {1: "the same number", 2: "half as many"}.get(whole / tiled, "32 times fewer")


def paper_gflops(tokens, heads, width, batch, *_):
    """Count the products of attention and of its gradients."""
    q, k, v = torch.zeros(3, batch, heads, tokens, width, device="meta", requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        attention(q, k, v)[0].sum().backward()
    return round(counter.get_total_flops() / 1e9)


def flash_saved():
    """Look at what tiled attention saves beside its inputs and its result."""
    q, k, v = (x.requires_grad_() for x in torch.randn(3, 2, 4, 16, 6).unbind(0))
    saved = []

    def keep(tensor):
        return saved.append(tensor) or tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        context = flash.tiled_attention(q, k, v, 4)
    known = {context.data_ptr(), *(x.data_ptr() for x in (q, k, v))}
    sizes = {tensor.numel() for tensor in saved if tensor.data_ptr() not in known}
    words = {2 * 4 * 16: "one number for each query", 2 * 4 * 16 * 16: "the weights"}
    return words.get(max(sizes, default=0), "nothing")


def rising_scores():
    """Add up blocks without shrinking the sum, and see which order of scores comes out wrong."""
    rising, found = torch.arange(8.0), []
    orders = {"largest first": rising.flip(0), "all the same": torch.ones(8)}
    orders["largest last"] = rising
    for name, scores in orders.items():
        running_max, total = torch.tensor(-torch.inf), torch.tensor(0.0)
        for block in scores.split(2):
            running_max = torch.maximum(running_max, block.max())
            total = total + (block - running_max).exp().sum()
        if not torch.isclose(total, (scores - scores.max()).exp().sum()):
            found.append(name)
    return " and ".join(found)


# 13 Encoder block
def tokens():
    return torch.randn(2, 5, 24)


def residual_gradient():
    part = nn.Linear(24, 24)
    nn.init.zeros_(part.weight)
    nn.init.zeros_(part.bias)
    x, above = tokens().requires_grad_(), torch.ones(2, 5, 24)
    (below,) = torch.autograd.grad(x + part(x), x, above)
    factor = float((below / above).mean())
    return {0.0: "nothing of it", 1.0: "all of it, unchanged", 2.0: "twice as much"}[factor]


def make_block(*, norm_first=True):
    return EncoderBlock(24, 4, 96, norm_first=norm_first)


def feed_forward_reach():
    found = token_dependence(make_block().feed_forward, tokens())
    ways = {5: "its own alone", 25: "those of all words", 15: "its own and all later ones"}
    return ways[int(found.sum())]


def where_numbers_are(width, factor):
    block = EncoderBlock(width, 4, factor * width)
    inside, whole = parameters(block.feed_forward), parameters(block)
    ways = {"a third": 1 / 3, "half": 1 / 2, "two thirds": 2 / 3}
    return min(ways, key=lambda way: abs(ways[way] - inside / whole))


def silent_parts():
    x, found = tokens(), []
    for name, norm_first in (("pre-norm", True), ("post-norm", False)):
        block = make_block(norm_first=norm_first)
        for last in ("attention.out_proj", "feed_forward.3"):
            nn.init.zeros_(block.get_parameter(f"{last}.weight"))
            nn.init.zeros_(block.get_parameter(f"{last}.bias"))
        if torch.equal(block(x), x):
            found.append(name)
    return ("neither", f"{''.join(found)} only", "both")[len(found)]


# 14 Vision
def patch_beneath(rows, columns, _, patch):
    images = torch.zeros(1, 3, 4 * rows, 4 * columns)
    row, column = divmod(patch, columns)
    images[0, :, 4 * row + 4, 4 * column] = 1.0
    return vision.patchify(images, 4)[0].sum(-1).argmax()


def patch_order():
    """Give every pixel a number that tells what it is, and read the first four of a patch."""
    images = torch.arange(3 * 20 * 28).view(1, 3, 20, 28)
    first = vision.patchify(images, 4)[0, 0, :4].tolist()
    ways = {
        "four pixels of the top row, red": images[0, 0, 0, :4],
        "red, green and blue of the first pixel, and red of the next": images[
            0, :, 0, :2
        ].T.flatten()[:4],
        "four pixels of the left column, red": images[0, 0, :4, 0],
    }
    return next(name for name, want in ways.items() if want.tolist() == first)


@torch.no_grad()
def shuffled_patches():
    """Take a model's positions away, shuffle the patches of an image, and compare the answers."""
    model = vision.new_model(0)
    assert isinstance(model, vision.VisionTransformer)
    model.position_embedding.zero_()
    images = torch.rand(1, 3, 20, 28)
    patches = vision.patchify(images, 4)  # (1, 35, 48)
    shuffled = vision.unpatchify(patches.flip(1), 4, 7)
    before, after = model(images), model(shuffled)
    if torch.allclose(before, after, atol=1e-5):
        return "the same"
    moved = torch.allclose(before.flip(-1), after, atol=1e-5)
    return "the same numbers, shuffled alike" if moved else "something else"


def votes_of_patches():
    """Look for one number for each colour whose sums answer all four pictures."""
    steps = torch.linspace(-1, 1, 21)
    red, blue = torch.cartesian_prod(steps, steps).T
    right = (2 * red > 0).int() + (2 * blue > 0).int() + 2 * (red + blue < 0).int()
    return str(int(right.max()))


# 15 Language model
CAT = language.encode([["the", "grey", "cat", "ate", "greedily"]])  # with <start> and <end>


def who_guesses():
    text = re.search("<start> (.*) <end>", QUESTIONS["who-guesses"].text)[1]
    inputs, targets = next_token_targets(language.encode([text.split()]))
    place = [language.WORDS[i] for i in targets[0].tolist()].index("cat")
    return f"“{language.WORDS[int(inputs[0, place])]}”"


def causal_padding():
    model, ids = language_model.new_language_model(0).eval(), CAT
    filled = torch.cat((ids, torch.full((1, 4), language.PAD)), dim=1)
    with torch.no_grad():
        same = torch.allclose(model(ids), model(filled)[:, : ids.size(1)], atol=1e-5)
    return "nothing" if same else "they see the padding"


def loss_at_best():
    """Ask how surprised one is who knows the grammar by heart."""
    mean = math.log(language_model.limit(sentences(300, "train", 0), "train"))
    ways = {"0": 0.0, "about 0.9": 0.9, "about 4.8, ln 126": math.log(126)}
    return min(ways, key=lambda way: abs(ways[way] - mean))


def poor_drafts():
    """Draft with the model itself and with its opposite; compare chances and passes."""
    model, ids = language_model.new_language_model(0).double().eval(), CAT

    def opposite(ids):
        return -9 * model(ids)

    alone = language_model.surprisal(model, ids)
    drafted = speculation.surprisal(model, opposite, ids, 3)
    text = not torch.allclose(drafted, alone, atol=1e-9)
    passes = [
        speculation.speculate(model, small, ids[:, :1], 3, torch.Generator().manual_seed(0))[1]
        for small in (model, opposite)
    ]
    speed = passes[1] > passes[0]
    names = ["neither", "the text alone", "the speed alone", "the speed and the text"]
    return names[2 * speed + text]


def without_mask():
    """See whether a place depends on the very word that it should guess, without a mask."""
    model, ids = language_model.new_language_model(0, see_ahead=True).eval(), CAT[:, :-1]
    other = ids.clone()
    other[0, 3] += 1  # the target of place 2
    with torch.no_grad():
        cheats = not torch.equal(model(ids)[0, 2], model(other)[0, 2])
    return "far below the limit" if cheats else "to the limit"


def below_the_limit():
    """Memorise one sentence by its newest word, and be asked for others."""
    known, fresh = sentences(1, "train", 0), sentences(50, "train", 1)
    by_heart = language_model.bigram(known * 10_000)
    below = [
        language_model.perplexity(by_heart, texts) < language_model.limit(texts, "train")
        for texts in (known, fresh)
    ]
    return "nothing yet: look at fresh text" if below == [True, False] else "the mask leaks"


# 16 Why many heads
def one_head_difference():
    """Return how much of c_a - c_b the best mixture of a and b explains."""
    a, b = torch.cartesian_prod(*[torch.linspace(0, 1, 11)] * 2)[1:].T  # never negative
    best = float(((a - b).square() / (2 * (a.square() + b.square()))).max())
    ways = {"about 0": 0.0, "about ½": 0.5, "about 1": 1.0}
    return min(ways, key=lambda way: abs(ways[way] - best))


def twin_heads():
    """Train two heads that start alike for a few steps, and compare what they have become."""
    layers = learn(TwoTokenSum(), 2, runs=1, steps=5, count=8, identical_heads=True).layers
    heads = [weight.unbind(1) for weight in layers.parameters() if weight.dim() > 2]
    if all(torch.equal(one, two) for one, two in heads):
        return "bit for bit the same"
    dead = any(float(two.abs().max()) < 1e-3 for _, two in heads)
    return "one has switched itself off" if dead else "each attends to another token"


def thin_part():
    """Compare what ships: what widening one of the two leaves thin."""
    r2 = {part: sum(runs) / len(runs) for part, runs in precomputed.load().thin[16].items()}
    if r2["v"] > 0.95 > r2["q and k"]:
        return "q and k"
    return either(r2["q and k"] > 0.95, "v", "neither")


def largest_contribution(dog, length_of_dog, cat, length_of_cat, _):
    v = torch.tensor([length_of_dog, length_of_cat]).float().diag()[None]
    brought = contribution_norms(torch.tensor([[[dog, cat]]]), v, torch.eye(2))[0, 0]
    return ("dog", "cat")[int(brought.argmax())]


def layers_that_know_the_word_before(model):
    """Find the layers in which the word before a key moves its share against another."""
    ids = induction.repeated_words(1, torch.Generator().manual_seed(0))
    changed = ids.clone()
    changed[0, 3] = (ids[0, 3] + 1) % 32
    # (L, H, S) each
    rows = [model.weights_and_logits(one)[0][:, 0, :, 9] for one in (ids, changed)]
    before, after = (row[..., 4] / row[..., 6] for row in rows)
    pairs = enumerate(zip(before, after, strict=True))
    return [layer for layer, pair in pairs if not torch.allclose(*pair, rtol=1e-4)]


def carried_word():
    """Send “queen” through the values and the output of head 1 of the last layer, into logits."""
    model, own = trained_model(), slice(12, 24)
    index = {word: vocabulary().index(word) for word in QUESTIONS["carried-word"].answers}
    attention = model.blocks[1].attention
    word = model.blocks[1].norm1(model.token_embedding.weight[index["queen"]])
    carried = attention.out_proj.weight[:, own] @ (attention.v_proj.weight[own] @ word)
    logits = model.to_words.weight @ ((carried - carried.mean()) * model.encoder.norm.weight)
    return max(index, key=lambda word: logits[index[word]])


def copy_layers():
    models = (("one head", 1, 1), ("two heads side by side", 1, 2), ("two layers", 2, 1))
    for name, layers, heads in models:
        if layers_that_know_the_word_before(induction.AttentionOnly(layers, heads)):
            return next(answer for answer in QUESTIONS["copy-layers"].answers if name in answer)
    return "none"


def square_weight():
    """Compare each weight, stored as (in, out), with that of a Linear of these sizes."""
    answers = QUESTIONS["square-weight"].answers
    # (in, out)
    sizes = {answer: tuple(map(int, re.findall(r"\d{3,}", answer))) for answer in answers}
    fits = [answer for answer, size in sizes.items() if nn.Linear(*size).weight.shape == size]
    return " and ".join(fits)


def free_directions(width, tokens, _):
    """Count the directions in which a row of weights may move unseen."""
    v = torch.randn(tokens, width, dtype=torch.float64)
    kept = torch.cat((v, torch.ones_like(v[:, :1])), dim=1)  # (S, D+1)
    return tokens - torch.linalg.matrix_rank(kept)


# 19 Bug hunt
def lowest_loss():
    """Compare what ships of cases 1 and 7, on held-out text and where nothing is ahead."""
    best, *found = shipped("right", "mask-after-softmax", "merge-without-transpose")
    if any(record.at_once > best.at_once for record in found):
        return "they have memorised their sentences"
    ahead = all(record.in_use > 2 * best.in_use for record in found)
    return "they see some of what they should guess" if ahead else "their attention is better"


def shipped(*names):
    """Return the mean of each loss over the runs of these; NaN where a run has none."""
    for record in map(costs.load().get, names):
        means = {
            way: fmean(torch.nan if value is None else value for value in getattr(record, way))
            for way in ("at_once", "in_use", "loaded")
        }
        yield record._replace(**means)


def padding_unseen():
    best, found = (record.losses for record in shipped("right", "mask-inverted"))
    if found == best:
        return "nothing at all"
    return "it becomes NaN" if None in found else "it ends somewhat higher"


def own_order():
    best, found = shipped("right", "kv-repeat-interleaved-wrongly")
    cost = max(found.in_use / best.in_use, found.losses[-1] / best.losses[-1]) - 1
    if cost < 0.02:
        return "nothing"
    return "a little on every word" if cost < 1 else "it cannot learn"


def half_and_half(*weights):
    values = torch.randn(2, 6)
    mixed = torch.tensor(weights) @ values
    return either(torch.allclose(mixed, values.mean(0)), "the mean of the two values")


def typical_score(count, mean, variance):
    q, k = mean + variance**0.5 * torch.randn(2, 10_000, count)
    return (q * k).sum(-1).std()


def scale_of_one(lead, factor):
    row = torch.tensor([0.0, 0.0, 0.0, lead])
    close = row.softmax(-1).max() < 0.5 and (factor * row).softmax(-1).max() > 0.99
    return either(close, "it comes close to 1")


def slowest_pair(width, base, *_):
    pair = width // 2 - 1
    return round(2 * math.pi * base ** (2 * pair / width), -3)


def shared_prefix(size, _, length, other, common):
    texts = ([*range(length)], [*range(common), *range(-1, common - other - 1, -1)])
    return len({str(text[: start + size]) for text in texts for start in range(0, len(text), size)})


def running_sum(maximum, total, score, _):
    scores = torch.tensor([float(maximum)] * total + [math.log(score)])
    return flash.online_softmax(scores, total)[1]


def draft_kept(drafted, wanted):
    q, p = torch.tensor([[drafted, 1 - drafted], [wanted, 1 - wanted]])
    return fmean(bool(accept_or_redraw(p, q, 0, at / 1000)[0]) for at in range(1000))


def vit_tokens(_, height, width, *patch):
    model = vision.VisionTransformer((height, width), patch[0], d_model=4, num_layers=1)
    return model.embed(torch.zeros(1, 3, height, width)).size(1)


# Where a line is enough. What takes arguments gets the numbers of its question.
SHORT = {
    "row-sum": lambda words: torch.randn(words).softmax(-1).sum(),
    "linear-weight": lambda *n: nn.Linear(*n[:2]).weight.shape,
    "linear-result": lambda *n: nn.Linear(*n[3:])(torch.ones(n[:3])).shape,
    "fused-parameters": lambda *n: parameters(nn.Linear(*n)),
    "which-crashes": lambda *n: raising(
        "which-crashes", x=torch.ones(n[:3]), W=torch.ones(n[3:]), F=F
    ),
    "split-shape": lambda *n: torch.ones(n[:3]).view(n[3:7]).transpose(*n[7:]).shape,
    "wrong-row": lambda *n: (
        torch.arange(math.prod(n[:4])).view(n[:4])[0, n[5], n[4], 0] // (n[1] * n[3])
    ),
    "view-or-not": lambda *n: raising(
        "view-or-not", heads=torch.ones(2, 5, 24).view(n[:4]).transpose(*n[4:])
    ),
    "contiguous-copies": lambda heads: either(
        torch.ones(2, 5, heads, 6).transpose(1, 2).is_contiguous(), "no", "yes"
    ),
    "twice-the-text": lambda *n: (torch.ones(n[-1], 12) @ torch.ones(n[-1], 12).T).numel(),
    "which-width": lambda width, heads: (width // heads) ** 0.5,
    "softmax-shift": lambda shift: either(
        not torch.allclose(ROW.softmax(-1), (ROW + shift).softmax(-1)), "the largest gets larger"
    ),
    "most-entropy": lambda words: torch.special.entr(torch.full((words,), 1 / words)).sum(),
    "uniform-weights": lambda: either(
        torch.allclose(torch.full((3,), 1 / 3) @ SENTENCE, SENTENCE.mean(1)),
        "the mean of the values",
    ),
    "own-width": lambda width: either(
        attend(*torch.ones(2, 3, width), torch.ones(3, 2 * width)).size(-1) == 2 * width,
        "any number",
    ),
    "fused-merge": lambda: either(
        attend(*torch.randn(3, 2, 5, 4, 6).transpose(2, 3)).transpose(1, 2).is_contiguous(), "no"
    ),
    "context-shape": lambda *n: (torch.ones(n[:4]) @ torch.ones(n[4:])).shape,
    "count-heads": lambda width, *heads: [
        parameters(nn.MultiheadAttention(width, number)) for number in heads
    ],
    "which-is-other": lambda: either(
        nn.Linear(12, 12).weight.numel() < nn.Linear(12, 2 * 12).weight.numel(),
        "every head as wide as d_model",
    ),
    **{f"broken-{case}": broken for case in CASES},
    "causal-corner": lambda keys: (
        attend(torch.ones(1, 6), torch.ones(keys, 6), torch.eye(keys), is_causal=True) > 0
    ).sum(),
    "causal-count": lambda tokens, _: causal_mask(tokens).sum(),
    "blind-rows": lambda words, size, _: (
        ~combine_masks(causal_mask(size), padding_mask([words], size, side="left")).any(-1)
    ).sum(),
    "keys-once": lambda steps: len(
        {tuple((torch.ones(7, 24) @ torch.ones(24)).tolist()) for _ in range(steps)}
    ),
    "cross-weights": lambda *n: (
        MultiHeadAttention(n[2], n[6])(torch.ones(n[:3]), torch.ones(n[3:6]))[1].shape
    ),
    "bag-of-words": lambda: either(
        torch.allclose(itself(SENTENCE)[:, 1], itself(SENTENCE.flip(1))[:, 1]), "the same"
    ),
    "twice-as-long": lambda factor: (
        sum(n * n for n in range(factor * 10_000 + 1)) / sum(n * n for n in range(10_001))
    ),
    "which-kv-head": lambda heads, kv_heads, head, _: repeat_kv(
        torch.arange(float(kv_heads)).view(1, -1, 1, 1), heads
    )[0, head],
    "narrow-key": lambda *n: GroupedQueryAttention(*n).k_proj.weight.shape,
    "narrow-file": lambda *n: GroupedQueryAttention(*n).k_proj.weight.shape,
    "latent-width": lambda d, r: (torch.zeros(1, 1, 1, d) @ torch.zeros(1, d, r)).size(-1),
    "bytes-a-token": lambda layers, heads, width, size, kib: (
        kv_cache_bytes(layers, 1, 1, heads, width, size) // kib
    ),
    "scores-bytes": lambda factor: (
        attention(*torch.zeros(3, 1, 1, 7 * factor, 6))[1].numel()
        // attention(*torch.zeros(3, 1, 1, 7, 6))[1].numel()
    ),
    "rows-of-tiles": lambda heads, keys, size, _: (
        heads * len({str(rows) for rows, _ in flash.blocks(1, keys, size)})
    ),
    "dropout-values": lambda p, x: (
        F.dropout(torch.full((1000,), float(x)), p, training=True).unique().tolist()
    ),
    "norm-by-hand": lambda *n: F.layer_norm(torch.tensor(n[:4]).float(), (4,)).max(),
    "patches-shape": lambda *n: vision.patchify(torch.zeros(n[:4]), n[4]).shape,
    "colder": lambda _, p, q, _p, temperature, *_n: (
        torch.tensor([p, q]).log() / temperature
    ).softmax(-1)[0],
    "zero-query": lambda factor: either(
        torch.allclose(attend(factor * SENTENCE, SENTENCE, SENTENCE), SENTENCE.mean(1)),
        "the mean of all values",
    ),
    "first-induction": lambda: layers_that_know_the_word_before(induction.AttentionOnly(3, 2))[0],
    "read-in-all": lambda words: sum(range(1, words + 1)),
    "shift-shape": lambda *n: next_token_targets(torch.zeros(n, dtype=torch.long))[0].shape,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_right_answer_is_what_comes_out(name):
    question = QUESTIONS[name]
    compute = SHORT.get(name) or globals()[name.replace("-", "_")]
    takes_numbers = inspect.signature(compute).parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        result = compute(*numbers_in(question.text)) if takes_numbers else compute()
    answer = result if isinstance(result, str) else nearest(result, question.answers)
    assert answer == question.right, result


def test_no_computation_is_left_over():
    assert set(SHORT) <= set(QUESTIONS)
