"""Every review question has the answer that comes out when it is tried, and stands for an idea."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from mha_course import caching, flash, masks, positions
from mha_course.attention import MultiHeadAttention, attention, merge_heads, split_heads
from mha_course.errors import ShapeError
from mha_course.exercises import QUESTIONS
from mha_course.exercises.catalogue import LESSONS
from mha_course.exercises.reviews import review_questions
from mha_course.experiments import faulty_attention
from mha_course.experiments.leakage import token_dependence
from mha_course.lessons.l14_vision import vision
from mha_course.lessons.l15_language_model.exercises import next_token_probabilities
from mha_course.lessons.l17_what_heads_do.exercises import ablate_heads, relation_score
from mha_course.lessons.l18_real_models.exercises import gpt2_qkv, to_half_split
from mha_course.questions import all_questions, read_questions

ROOT = Path(__file__).resolve().parents[2]
ASKED = review_questions()
INF = math.inf


def T(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def mha(**options):
    return MultiHeadAttention(24, 4, **options).double()


def sizes(tensor):
    return str(tuple(tensor.shape))


def whole(number):
    return f"{number:,.0f}"


def pick(which, *choices):
    return choices[int(which)]


def close(*pair):
    return torch.allclose(*pair, atol=1e-9)


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def weights(row, hidden=()):
    """Return the weights of a row of scores, some of them hidden."""
    scores = T(*row)
    scores[list(hidden)] = -INF
    return scores.softmax(-1)


def changed_by_values():
    q, k, v = draw(3, 1, 1, 5, 6)
    before, after = attention(q, k, v), attention(q, k, v[:, :, [0, 2, 1, 3, 4]])
    names = "the contexts alone", "the weights alone", "the weights and the contexts"
    moved = [not close(one, two) for one, two in zip(before, after, strict=True)]
    return names[{(1, 0): 0, (0, 1): 1, (1, 1): 2}[tuple(map(int, moved))]]


def grown_tensors():
    module = mha()
    short, long = (module.steps(draw(1, n, 24)).q.numel() for n in (5, 10))
    return pick(long > short, "neither", "q, k and v")


def spread(power):
    return float((draw(20000, power) * draw(20000, power)).sum(-1).std())


def divisor(by):
    """Measure by which number scores were divided, from the weights that come out."""
    q, k = draw(2, 1, 1, 2, 16)
    eyes = torch.eye(2, dtype=torch.float64)[None, None]
    row = F.scaled_dot_product_attention(q / by, k, eyes)[0, 0, 0].log()
    raw = (q @ k.mT)[0, 0, 0]
    return whole((raw[0] - raw[1]) / (row[0] - row[1]))


def merged_owners():
    context = torch.arange(2 * 4 * 5).view(2, 4, 5, 1).expand(2, 4, 5, 6)
    owners = context.reshape(2, 5, 24)[0, 0].unique().tolist()
    heads, tokens = {n // 5 for n in owners}, {n % 5 for n in owners}
    return f"those of tokens {min(tokens)} to {max(tokens)}, of head {', '.join(map(str, heads))}"


def one_sign():
    """A head returns f · (w c_a + (1 - w) c_b): which pair of factors has that form?"""
    pairs = {"c_a - c_b": (1, -1), "2 c_a - c_b": (2, -1), "c_b - 2 c_a": (-2, 1)}
    pairs["2 c_a + c_b"] = (2, 1)
    return next(name for name, (a, b) in pairs.items() if a + b and 0 <= a / (a + b) <= 1)


def reached_columns(head):
    """Return the columns of W_O that take part in what a head brings."""
    module = mha(bias=False)
    context = torch.zeros(1, 4, 1, 6, dtype=torch.float64)
    context[:, head] = 1
    module.out_proj(merge_heads(context)).sum().backward()
    used = module.out_proj.weight.grad.abs().sum(0).nonzero().flatten().tolist()
    return f"columns {used[0]} to {used[-1]}"


def bias_times():
    module = mha()
    context = draw(1, 4, 5, 6)
    parts = sum(
        F.linear(merge_heads(ablate_heads(context, [h for h in range(4) if h != head])),
                 module.out_proj.weight) for head in range(4)
    )  # fmt: skip
    missing = (module.out_proj(merge_heads(context)) - parts) / module.out_proj.bias
    return f"{missing.mean():.0f} time"


def folded_over():
    found = nn.MultiheadAttention(24, 4)(*[torch.zeros(2, 5, 24)] * 3)[1]
    ways = {(5, 2, 2): "over the 2 sentences", (2, 5, 5): "over the 5 tokens of a sentence"}
    return ways[tuple(found.shape)]


def through_layers():
    first, second, allowed = mha(), mha(), masks.causal_mask(4)
    found = token_dependence(lambda x: second(first(x)[0], mask=allowed)[0], draw(1, 4, 24))
    ahead = (found & ~allowed).nonzero()
    far = len(ahead) > 0 and int((ahead[:, 1] - ahead[:, 0]).max()) > 1
    return pick(far, "no, the second layer hides it", "yes, through the first layer")


def memory_shuffled():
    module, x, memory = mha(), draw(1, 5, 24), draw(1, 7, 24)
    before, after = (module(x, m)[0] for m in (memory, memory.flip(1)))
    return pick(close(before, after), "other words are read", "it stays the same")


def memory_mask():
    real = masks.padding_mask([3, 7], 7)
    return mha()(draw(2, 5, 24), draw(2, 7, 24), mask=real) and sizes(real)


def turned(q, k, q_at, k_at):
    return float((positions.rope(q, [q_at]) * positions.rope(k, [k_at])).sum())


def rope_score():
    q, k = draw(2, 1, 1, 1, 8)
    near, far = turned(q, k, 5, 2), turned(q, k, 105, 102)
    return pick(math.isclose(near, far), "about 0", "1.7")


def rope_partner():
    x = torch.zeros(1, 1, 1, 8)
    x[..., 1] = 1
    return str(*set(positions.rope(x, [3]).flatten().nonzero().flatten().tolist()) - {1})


def page_of_token():
    pages = torch.arange(9.0).view(9, 1, 1, 1).expand(9, 1, 4, 1)
    return whole(caching.gather_pages(pages, torch.tensor([7, 2, 5]), 10)[0, 6, 0])


def keys_of_newest():
    k_cache, v_cache = draw(2, 1, 4, 9, 6)
    eye = torch.eye(24, dtype=torch.float64)
    return whole(caching.decode_step(draw(1, 1, 24), k_cache, v_cache, *[eye] * 4, 4)[1].size(2))


def tiles_agree():
    q, k, v = draw(3, 1, 2, 16, 6)
    apart = (flash.tiled_attention(q, k, v, 4) - attention(q, k, v)[0]).abs().max()
    return pick(apart < 1e-12, "as far as small weights go", "as far as rounding goes")


def old_sum():
    old, both = T(2, 2, 2, 2, 2), T(2, 2, 2, 2, 2, 2 + math.log(5))
    assert flash.online_softmax(old, 5)[1] == 5
    return whole(flash.online_softmax(both, 5)[1] - 1)


def visible_tiles():
    allowed = masks.causal_mask(64).view(8, 8, 8, 8)
    return str(int(allowed.any(3).any(1).sum()))


def kept_numbers():
    kept = [
        flash.online_softmax(torch.zeros(n, n), 8)[0].numel() for n in (16, 64)
    ]  # a number for each query
    return whole(kept[1] / kept[0])


def norm_shifted():
    x = draw(2, 24)
    same = close(F.layer_norm(x, (24,)), F.layer_norm(x + 100, (24,)))
    return pick(same, "100 is added to it", "nothing")


def two_twins():
    module, context = mha(bias=False), draw(1, 1, 5, 6).repeat(1, 4, 1, 1)
    weight = module.out_proj.weight.detach().clone()
    weight[:, 6:12] = weight[:, :6]
    without = weight.clone()
    without[:, 6:12] = 0
    ways = {"they are doubled": 2, "they stay as they are": 1, "they are halved": 0.5}
    want = F.linear(merge_heads(context), weight)
    for name, factor in ways.items():
        one = without.clone()
        one[:, :6] *= factor
        if close(F.linear(merge_heads(context), one), want):
            return name
    return "nothing can replace it"


def k_in_file():
    weight = torch.arange(768 * 2304).view(768, 2304)
    columns = gpt2_qkv(weight)[1][:, 0] % 2304
    return f"columns {columns[0]} to {columns[-1]}"


def unseen_with_one_head():
    right = faulty_attention.CausalAttention(24, 1, 1).double().eval()
    ways = {
        "keys and values exchanged": "key-value-swapped",
        "the scale of D forgotten": "scale-missing",
        "a split without transpose": "view-without-transpose",
        "the mask upside down": "mask-inverted",
    }
    x, real, unseen = draw(2, 5, 24), torch.tensor([[True] * 5, [True] * 3 + [False] * 2]), []
    for name, mistake in ways.items():
        case = faulty_attention.faulty(mistake)(24, 1, 1).double().eval()
        case.load_state_dict(right.state_dict())
        unseen += [name] if close(case(x, mask=real), right(x, mask=real)) else []
    return " and ".join(unseen)


def rows_of(check, **ways):
    return " and ".join(
        name.replace("_", " ") for name, found in ways.items() if check(found.sum(-1))
    )


def last_row_alone(sums):
    return bool(sums[-1].isclose(T(1)) and (sums[:-1] < 0.999).all())


def rows_below_one():
    scores, allowed = draw(5, 5), masks.causal_mask(5)
    hidden = scores.masked_fill(~allowed, -INF)
    return rows_of(
        last_row_alone,
        softmax_over_queries=hidden.softmax(0),
        mask_after_softmax=scores.softmax(-1) * allowed,
        mask_upside_down=scores.masked_fill(allowed.mT, -1e9).softmax(-1),
    )


def unseen_with_equal_values():
    q, k = draw(2, 5, 6)
    return rows_of(
        lambda sums: not close(sums, torch.ones_like(sums)),
        queries_and_keys_exchanged=(k @ q.mT).softmax(-1),
        scores_scaled_by_D=(q @ k.mT / 6).softmax(-1),
        softmax_over_the_queries=(q @ k.mT).softmax(0),
    )


def square_weight_forgotten():
    x, w = draw(5, 24), draw(24, 24)
    return pick(close(x @ w, x @ w.T), "it gives other numbers", "it gives the same numbers")


def one_matrix_for_both():
    q = draw(5, 24) @ draw(24, 6)
    scores = q @ q.T
    return pick(close(scores, scores.T), "Their rows sum to 1", "They are symmetric")


def projected_zero():
    layer = nn.Linear(24, 6)
    return pick(close(layer(torch.zeros(24)), layer.bias), "six zeros", "its bias")


def no_transpose():
    never = draw(2, 5, 4, 6)
    ways = {(4, 4): "heads to heads, in each token", (5, 5): "tokens to tokens, in each head"}
    return ways[tuple((never @ never.mT).shape[-2:])]


def moved_by_transpose():
    x = draw(1, 5, 4, 6)
    return whole(x.numel() * (x.data_ptr() != x.transpose(1, 2).data_ptr()))


def whose_score():
    q, k = torch.zeros(1, 2, 3, 6), torch.zeros(1, 2, 4, 6)
    q[0, 1, 2, 0] = k[0, 1, 3, 0] = 1
    batch, *place = (q @ k.mT).nonzero()[0].tolist()
    return "head {}: query {} with key {}".format(*place) if [batch, *place] == [0, 1, 2, 3] else ""


def score_multiplications():
    with FlopCounterMode(display=False) as counter:
        torch.ones(10, 64) @ torch.ones(64, 10)
    return whole(counter.get_total_flops() / 2)


def constant_added():
    row, values, c = weights((1, 2, 3)), draw(3, 6), draw(6)
    more = row @ (values + c) - row @ values
    return next(
        name
        for name, want in {"nothing": 0 * c, "c": c, "c / S": c / 3, "S · c": 3 * c}.items()
        if close(more, want)
    )


def empty_column():
    table, values = draw(5, 5).softmax(-1), draw(5, 6)
    table[:, 2] = 0
    other = values.clone()
    other[2] += 1
    same = close(table @ values, table @ other)
    return pick(same, "A's context contains no values", "No context contains A's value")


def bias_of_keys():
    q, k = draw(2, 5, 6)
    same = close(*((q @ keys.mT).softmax(-1) for keys in (k, k + draw(6))))
    return pick(same, "They change for long queries", "nothing")


def returned_weights():
    layer, x = nn.MultiheadAttention(24, 4, batch_first=True), torch.ones(2, 5, 24)
    return sizes(layer(x, x, x)[1])


def small_fill():
    row = weights((-200, -200, -100, -100))
    return pick(row[2:].sum() > 0.999, "to the visible keys", "to the hidden keys")


def last_row_of_both():
    both = masks.combine_masks(masks.causal_mask(5), masks.padding_mask([3], 5))
    return whole(both[0, 0, -1].sum())


def cross_parameters():
    x, memory = draw(1, 5, 24), draw(1, 7, 24)
    layer = mha()  # one and the same, in both roles
    assert layer(x)[0].shape == layer(x, memory)[0].shape
    return pick(parameters(layer) == parameters(mha()), "", "they are equal")


def at_position_zero():
    x = draw(1, 1, 1, 8)
    return pick(close(positions.rope(x, [0]), x), "zeros", "the vector")


def length_after_rope():
    x = F.normalize(draw(1, 1, 1, 8), dim=-1) * 3
    return whole(positions.rope(x, [7]).norm())


def grouped_saving():
    many, few = (caching.kv_cache_bytes(1, 1, 9, heads, 64, 2) for heads in (32, 8))
    return whole(many / few)


def cache_of_twice():
    short, long = (caching.kv_cache_bytes(1, 1, length, 8, 64, 2) for length in (9, 18))
    return whole(long / short)


def shares_merged():
    sums, contexts = T(1, 3).view(2, 1, 1, 1), T(8, 4).view(2, 1, 1, 1, 1)
    return whole(flash.merge_partials(0 * sums, sums, contexts).sum())


def finer_patches():
    coarse, fine = (vision.patchify(torch.zeros(1, 3, 32, 32), p).size(1) for p in (8, 4))
    return whole(fine**2 / coarse**2)


def rank_of_scores():
    steps = MultiHeadAttention(64, 8).double().steps(draw(1, 64, 64))
    return str(int(torch.linalg.matrix_rank(steps.scores[0, 0])))


def values_exchanged():
    row, values = T(0.5, 0.5), draw(2, 6)
    return pick(
        close(row @ values, row @ values.flip(0)), "it moves towards b", "it stays the same"
    )


def mean_ablated():
    constant = draw(6).expand(4, 5, 6)  # of four sentences
    ablated = constant.mean(0, keepdim=True).expand_as(constant)
    return pick(close(constant, ablated), "it depends on the sentence", "not at all")


def order_of_rows():
    rows = torch.arange(8.0)[:, None].expand(8, 8)
    return " ".join(whole(row) for row in to_half_split(rows, 1)[:, 0])


# Those that take a line; the others are computed by the function of their name.
ANSWERS = {
    "dot-with-minus": lambda: whole(T(2, 1) @ T(-1, 3)),
    "twice-as-long-vector": lambda: whole(T(1, 1) @ (2 * T(2, 1))),
    "lead-of-two": lambda: f"{weights((2, 0, 5))[0] / weights((2, 0, 5))[1]:.1f}",
    "column-of-weights": lambda: " and ".join(
        whole(F.one_hot(torch.full((15,), at), 15)[:, 0].sum()) for at in (1, 0)
    ),
    "all-on-one": lambda: ("", "the vector of “cat”")[close(T(0, 1) @ T(3, 7), T(7)[0])],
    "exchanged-values": changed_by_values,
    "longer-sentence": grown_tensors,
    "query-length": lambda: whole(MultiHeadAttention(96, 8).steps(torch.ones(1, 2, 96)).q.size(-1)),
    "count-tables": lambda: whole(mha().steps(draw(3, 5, 24)).weights.flatten(0, 1).size(0)),
    "channel-to-head": lambda: whole(
        split_heads(F.one_hot(torch.tensor([[13]]), 24).float(), 4).sum(-1).argmax()
    ),
    "wider-head": lambda: whole(spread(64) / spread(16)),
    "divided-twice": lambda: whole(1 / ((T(1) / 4) @ (T(1) / 4) / 4)),
    "keys-turned": lambda: sizes(torch.ones(2, 4, 7, 6).mT),
    "ratio-of-nine": lambda: f"{weights((0, math.log(9)))[1]:.2f}",
    "hidden-third": lambda: f"{weights(T(0.5, 0.3, 0.2).log(), [2])[0]:.3f}",
    "large-scores": lambda: (
        "all NaN" if (torch.full((3,), 1e3).exp() / torch.inf).isnan().all() else ""
    ),
    "weight-of-minus-inf": lambda: "exactly 0" if weights((1, 2, 3), [1])[1] == 0 else "NaN",
    "softmax-again": lambda: f"{weights((0.9, 0.1))[0]:.2f}",
    "two-numbers": lambda: f"{T(0.2, 0.8) @ T(10, 5):.1f}",
    "doubled-token": lambda: f"{weights((3, 3, 3, 3, 3))[:2].sum():.2f}",
    "negative-context": lambda: (
        "never" if (draw(99, 5).softmax(-1) @ torch.rand(5, 6).double() > 0).all() else ""
    ),
    "merged-at-once": merged_owners,
    "columns-of-a-head": lambda: reached_columns(2),
    "bias-and-heads": bias_times,
    "one-head-mixture": one_sign,
    "wide-values": lambda: sizes(nn.Linear(4 * 10, 24).weight),
    "parameters-of-64": lambda: whole(parameters(MultiHeadAttention(64, 4, bias=False))),
    "forgotten-batch-first": folded_over,
    "scaled-before": lambda: divisor(4),
    "hidden-pairs": lambda: whole((~masks.causal_mask(8)).sum()),
    "two-new-tokens": lambda: whole(masks.causal_mask_for_cache(2, 6)[0].sum()),
    "mask-in-one-layer": through_layers,
    "translated-length": lambda: whole(mha()(draw(1, 5, 24), draw(1, 7, 24))[0].size(1)),
    "shuffled-memory": memory_shuffled,
    "memory-padding": memory_mask,
    "one-token-memory": lambda: whole(mha()(draw(1, 5, 24), draw(1, 1, 24))[1].mean()),
    "both-moved": rope_score,
    "partner-of-channel": rope_partner,
    "encoding-of-zero": lambda: ", ".join(map(whole, positions.sinusoidal_encoding(1, 8)[0, :4])),
    "newest-query": keys_of_newest,
    "four-from-two": lambda: " ".join(
        map(whole, caching.repeat_kv(torch.arange(2.0).view(1, 2, 1, 1), 4).flatten())
    ),
    "how-exact": tiles_agree,
    "old-sum-shrinks": old_sum,
    "causal-tiles": visible_tiles,
    "kept-for-length": kept_numbers,
    "shifted-token": norm_shifted,
    "how-many-means": lambda: whole(
        nn.functional.layer_norm(draw(2, 5, 24), (24,)).mean(-1).numel()
    ),
    "parameters-of-norm": lambda: whole(parameters(nn.LayerNorm(24))),
    "patches-of-square": lambda: whole(vision.patchify(torch.zeros(1, 3, 32, 32), 8).size(1)),
    "numbers-of-patch": lambda: whole(vision.patchify(torch.zeros(1, 3, 32, 32), 8).size(2)),
    "hotter": lambda: f"{next_token_probabilities(T(0.9, 0.1).log()[None], 2.0, None)[0, 0]:.2f}",
    "top-two": lambda: (
        f"{next_token_probabilities(T(0.4, 0.2, 0.3, 0.1).log()[None], 1.0, 2)[0, 0]:.2f}"
    ),
    "perplexity-of-dice": lambda: whole(F.cross_entropy(torch.zeros(1, 50), T(7).long()).exp()),
    "twin-outputs": two_twins,
    "mean-relation": lambda: (
        f"{relation_score(T(0.2, 0.4, 0.9).diag()[None], [(0, 0), (1, 1), (2, 2)])[0]:.2f}"
    ),
    "opposite-heads": lambda: whole((T(2, 0) + T(-2, 0)).norm()),
    "where-k-lies": k_in_file,
    "rows-of-kv": lambda: whole(
        caching.GroupedQueryAttention(4096, 32, 8).v_proj.weight.size(0)
    ).replace(",", ""),
}


@pytest.mark.parametrize("name", ASKED)
def test_the_right_choice_is_what_comes_out(name):
    compute = ANSWERS.get(name) or globals()[name.replace("-", "_")]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert compute() == ASKED[name].right


def test_every_lesson_has_its_questions_and_is_done_with_its_core_exercises():
    """What stands in a notebook under Deeper is not needed; 16 and 19 have predictions alone."""
    needed = {}
    for needs, asked in all_questions().values():
        needed.setdefault(needs, []).append(asked.name)
    assert [len(each) >= (5 if at <= 12 else 3) for at, each in enumerate(needed.values())] == (
        [True] * len(LESSONS)
    )
    for lesson, needs in zip(LESSONS, needed, strict=True):
        (file,) = (ROOT / "notebooks").glob(f"{lesson.number:02}_*.ipynb")
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        core, deeper = [], 0
        for line in "\n".join(texts).splitlines():
            if heading := re.match(r"(#+) (Deeper)?", line):
                level = len(heading[1])
                deeper = level if heading[2] else 0 if level <= deeper else deeper
            core += re.findall(r"\*\*Exercise `(\w+)`", line) if not deeper else []
        assert set(needs) == set(core or lesson.questions), lesson.number


def test_questions_are_their_own_and_not_answered_by_their_length():
    predicted = {question.text for question in QUESTIONS.values()}
    assert not predicted & {question.text for question in ASKED.values()}
    assert not set(QUESTIONS) & set(ASKED)
    longest = 0
    for question in ASKED.values():
        assert all(len(reason) >= 7 for reason in question.answers.values()), question.text
        lengths = sorted(map(len, question.choices))
        longest += len(question.right) == lengths[-1] > lengths[0]
        assert len(question.text) < 220, "it is to be read in a quarter of a minute"
    assert longest <= len(ASKED) / 3


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("## a\nWhat?\n- ✔ 1 → so\n- 2 → no\n", 1),
        ("needs: x\nlost\n## a\nWhat?\n- ✔ 1 → so\n- 2 → no\n", 1),
        ("needs: x\n\n## A b\nWhat?\n- ✔ 1 → so\n- 2 → no\n", 3),
        ("needs: x\n\n## a\n- ✔ 1 → so\n- 2 → no\n", 3),
        ("needs: x\n\n## a\nWhat?\n- 1 → so\n- 2 → no\n", 3),
        ("needs: x\n\n## a\nWhat?\n- ✔ 1 → so\n- ✔ 2 → no\n", 3),
        ("needs: x\n\n## a\nWhat?\n- ✔ 1 → so\n- 2, no\n", 3),
        ("needs: x\n\n## a\nWhat?\n- ✔ 1 → so\n- 1 → no\n", 3),
        ("needs: x\n## a\nWhat?\n- ✔ 1 → so\n- 2 → no\n\n## a\nWhat?\n- ✔ 1 → so\n- 2 → n\n", 7),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text, line, tmp_path):
    file = tmp_path / "review.md"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ShapeError) as raised:
        read_questions(file)
    assert f"{tmp_path.name}/review.md, line {line}: " in str(raised.value)
