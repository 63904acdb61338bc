"""Every question of the reviews has the answer that comes out when tried."""

import copy
import inspect
import json
import math
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mha_course import caching
from mha_course.attention import MultiHeadAttention, attention, merge_heads, split_heads
from mha_course.errors import ShapeError
from mha_course.exercises import QUESTIONS
from mha_course.exercises.catalogue import LESSONS
from mha_course.exercises.reading import read_answer
from mha_course.exercises.reviews import review_questions
from mha_course.experiments import faulty_attention
from mha_course.experiments.leakage import token_dependence
from mha_course.flash import merge_partials, tiled_attention
from mha_course.lessons.l14_vision.vision import patchify
from mha_course.lessons.l15_language_model.exercises import next_token_probabilities
from mha_course.lessons.l17_what_heads_do.exercises import relation_score
from mha_course.lessons.l18_real_models.exercises import gpt2_qkv, to_half_split
from mha_course.masks import causal_mask, causal_mask_for_cache, combine_masks, padding_mask
from mha_course.positions import rope, sinusoidal_encoding
from mha_course.questions import all_questions, read_questions

ROOT = Path(__file__).resolve().parents[2]
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


def sizes(tensor):
    return str(tuple(tensor.shape))


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
    CROSS = LAYER(X, MEMORY)
Q, K, V = STEPS.q, STEPS.k, STEPS.v  # (1, 4, 5, 6)
S = draw(5, 5)
CAUSAL = causal_mask(5)
HIDDEN = S.masked_fill(~CAUSAL, -torch.inf)
ONE = torch.eye(5, dtype=torch.float64)[2]
HOLED = STEPS.weights * (1 - ONE)  # nobody attends to token 2
BIAS = LAYER.out_proj.bias.detach()
IMAGE = torch.zeros(1, 3, 32, 32)
NOISE = draw(1, 3, 32, 32)
PATCHES = torch.arange(16.0).view(1, 1, 4, 4).repeat_interleave(8, 2).repeat_interleave(8, 3)
PATCHES = PATCHES.expand(1, 3, 32, 32)  # each pixel has the number of its patch
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


@cache
@torch.no_grad()
def answers():
    """Return what comes out: a choice in words, or the number that it has."""
    return {
        "dot-with-minus": T(2, 1) @ T(-1, 3),
        "twice-as-long-vector": T(1, 1) @ (2 * T(2, 1)),
        "lead-of-two": row(2, 0, 5)[0] / row(2, 0, 5)[1],
        "column-of-weights": words("{} and {}", torch.eye(15)[[0] * 15].sum(0)[[1, 0]]),
        "all-on-one": said(T(0, 1) @ T(3, 7) == 7, "the vector of “cat”"),
        "exchanged-values": said(
            close(attention(Q, K, V)[1], attention(Q, K, V.flip(2))[1])
            and not close(attention(Q, K, V)[0], attention(Q, K, V.flip(2))[0]),
            "the contexts alone",
        ),
        "square-weight-forgotten": said(not close(X @ W, X @ W.T), "it gives other numbers"),
        "longer-sentence": said(LAYER.steps(MEMORY).q.numel() > Q.numel(), "q, k and v"),
        "one-matrix-for-both": said(close(Q @ Q.mT, (Q @ Q.mT).mT), "They are symmetric"),
        "projected-zero": said(close(LAYER.q_proj(0 * X), LAYER.q_proj.bias), "its bias"),
        "query-length": MultiHeadAttention(96, 8).steps(torch.ones(1, 2, 96)).q.size(-1),
        "count-tables": LAYER.steps(draw(3, 5, 24)).weights.flatten(0, 1).size(0),
        "channel-to-head": split_heads(torch.eye(24)[13][None, None], 4).sum(-1).argmax(),
        "no-transpose": said(
            (draw(2, 5, 4, 6) @ draw(2, 5, 6, 4)).shape == (2, 5, 4, 4),
            "heads to heads, in each token",
        ),
        "moved-by-transpose": X.numel() * (X.data_ptr() != X.mT.data_ptr()),
        "saturated-row": torch.func.grad(lambda x: x.softmax(-1)[0])(T(1000, 0, 0)).abs().max(),
        "divided-twice": 1 / ((T(1) / 4) @ (T(1) / 4) / 4),
        "whose-score": said(
            close(STEPS.scores[0, 1, 2, 3], Q[0, 1, 2] @ K[0, 1, 3]), "head 1: query 2 with key 3"
        ),
        "keys-ask": sizes(torch.ones(2, 4, 7, 6) @ torch.ones(2, 4, 5, 6).mT),
        "score-multiplications": (torch.ones(10, 1, 64) * torch.ones(10, 64)).numel(),
        "ratio-of-nine": row(0, math.log(9))[1],
        "hidden-third": row(*T(0.5, 0.3, 0.0).log())[0],
        "large-scores": said((T(1e3).float().exp() / torch.inf).isnan().all(), "all NaN"),
        "weight-of-minus-inf": said(row(1, -torch.inf, 2)[1] == 0, "exactly 0"),
        "softmax-again": row(0.9, 0.1)[0],
        "two-numbers": T(0.2, 0.8) @ T(10, 5),
        "constant-added": said(close(STEPS.weights @ (V + 3), STEPS.context + 3), "c itself"),
        "doubled-token": row(3, 3, 3, 3, 3)[:2].sum(),
        "empty-column": said(
            close(HOLED @ V, HOLED @ (V + torch.eye(5)[2][:, None])),
            "No context contains A's value",
        ),
        "negative-context": said((STEPS.weights @ V.abs() > 0).all(), "never"),
        "merged-at-once": words(
            "those of tokens {} to {}, of head 0",
            torch.arange(20).view(4, 5, 1).expand(4, 5, 6).reshape(5, 24)[0, [0, -1]],
        ),
        "columns-of-a-head": words(
            "columns {} to {}",
            merge_heads(torch.eye(4)[2].view(1, 4, 1, 1) * torch.ones(6)).nonzero()[[0, -1], -1],
        ),
        "bias-and-heads": said(
            close(
                sum(
                    LAYER.out_proj(merge_heads(torch.eye(4)[h].view(1, 4, 1, 1) * STEPS.context))
                    for h in range(4)
                ),
                STEPS.out + 3 * BIAS,
            ),
            "1 time",
        ),
        "one-head-mixture": next(x for x, (a, b) in PAIRS.items() if a * b > 0),
        "wide-values": sizes(nn.Linear(4 * 10, 24).weight),
        "heads-reordered": said(
            close(reordered([1, 0, 2, 3])(X)[0], STEPS.out), "it stays the same"
        ),
        "returned-weights": sizes(
            nn.MultiheadAttention(24, 4, batch_first=True)(*[torch.ones(2, 5, 24)] * 3)[1]
        ),
        "forgotten-batch-first": said(
            nn.MultiheadAttention(24, 4)(*[torch.ones(2, 5, 24)] * 3)[1].shape == (5, 2, 2),
            "over the 2 sentences",
        ),
        "scaled-before": (
            16
            / F.scaled_dot_product_attention(
                torch.ones(1, 16) / 4, torch.eye(2)[:, [1] * 16], torch.eye(2)
            )
            .log()
            .diff()
        ),
        "bias-of-keys": said(
            close((Q @ K.mT).softmax(-1), (Q @ (K + V[..., :1, :]).mT).softmax(-1)), "nothing"
        ),
        "first-token-context": said(
            close(attention(Q, K, V, CAUSAL)[0][..., 0, :], V[..., 0, :]), "its value"
        ),
        "last-row-of-both": combine_masks(CAUSAL, padding_mask([3], 5))[0, 0, -1].sum(),
        "two-new-tokens": causal_mask_for_cache(2, 6)[0].sum(),
        "small-fill": said(row(-200, -200, -100)[2] > 0.999, "to the hidden keys"),
        "mask-in-one-layer": said(
            later_seen(lambda x: LAYER(LAYER(x)[0], mask=CAUSAL)[0])
            and not later_seen(lambda x: LAYER(x, mask=CAUSAL)[0]),
            "yes, through the first layer",
        ),
        "translated-length": CROSS[0].size(1),
        "cross-parameters": said(CROSS[0].shape == STEPS.out.shape, "they are equal"),
        "shuffled-memory": said(close(CROSS[0], LAYER(X, MEMORY.flip(1))[0]), "it stays the same"),
        "memory-padding": sizes(padding_mask([3, 7], 7)),
        "one-token-memory": LAYER(X, MEMORY[:, :1])[1].mean(),
        "length-after-rope": rope(F.normalize(Q, dim=-1) * 3, [7] * 5).norm(dim=-1).mean(),
        "both-moved": said(
            close(
                rope(Q, [5] * 5) @ rope(K, [2] * 5).mT, rope(Q, [105] * 5) @ rope(K, [102] * 5).mT
            ),
            "1.7",
        ),
        "at-position-zero": said(close(rope(Q, [0] * 5), Q), "the same vector"),
        "partner-of-channel": rope(torch.eye(8)[1][None, None, None], [3]).nonzero()[-1, -1],
        "encoding-of-zero": words("{}, {}, {}, {}", sinusoidal_encoding(1, 8)[0, :4]),
        "cache-of-twice": (
            caching.kv_cache_bytes(1, 1, 18, 8, 64, 2) / caching.kv_cache_bytes(1, 1, 9, 8, 64, 2)
        ),
        "grouped-saving": (
            caching.kv_cache_bytes(1, 1, 9, 32, 64, 2) / caching.kv_cache_bytes(1, 1, 9, 8, 64, 2)
        ),
        "newest-query": caching.decode_step(X[:, :1], *draw(2, 1, 4, 9, 6), *[W] * 4, 4)[1].size(2),
        "page-of-token": caching.gather_pages(
            torch.arange(9.0).view(9, 1, 1, 1).expand(9, 1, 4, 1), torch.tensor([7, 2, 5]), 10
        )[0, 6, 0],
        "latent-saving": caching.kv_cache_bytes(1, 1, 1, 16, 128, 2) / (512 * 2),
        "how-exact": said(
            (tiled_attention(Q, K, V, 2) - STEPS.context).abs().max() < 1e-12,
            "equal up to rounding",
        ),
        "shares-merged": merge_partials(
            T(0, 0)[:, None, None, None],
            T(1, 3)[:, None, None, None],
            T(8, 4)[:, None, None, None, None],
        ),
        "first-block-hidden": said((T(-torch.inf) - T(-torch.inf)).exp().isnan(), "NaN"),
        "causal-tiles": causal_mask(64).view(8, 8, 8, 8).any(3).any(1).sum(),
        "handed-over": said(
            close(merge_partials(*shares(Q, K, V)), attention(Q, K, V)[0])
            and [*inspect.signature(merge_partials).parameters] == ["maxima", "sums", "contexts"],
            "context, maximum and sum",
        ),
        "shifted-token": said(
            close(F.layer_norm(X, (24,)), F.layer_norm(X + 100, (24,))), "nothing"
        ),
        "how-many-means": torch.native_layer_norm(draw(2, 5, 24), (24,), None, None, 1e-5)[
            1
        ].numel(),
        "parameters-of-norm": parameters(nn.LayerNorm(24)),
        "mirrored-image": int(patchify(PATCHES.flip(-1), 8)[0].amax(-1).argmin()),
        "shifted-image": (patchify(NOISE, 8) != patchify(NOISE.roll(1, -1), 8)).any(-1).sum(),
        "finer-patches": (patchify(IMAGE, 4).size(1) / patchify(IMAGE, 8).size(1)) ** 2,
        "loss-of-quarter": F.nll_loss(T(0.25, 0.75).log()[None], torch.tensor([0])),
        "top-two": next_token_probabilities(T(0.4, 0.2, 0.3, 0.1).log()[None], 1.0, 2)[0, 0],
        "perplexity-of-dice": F.cross_entropy(torch.zeros(1, 50), torch.tensor([7])).exp(),
        "rank-of-scores": torch.linalg.matrix_rank(
            MultiHeadAttention(64, 8).double().steps(draw(1, 64, 64)).scores[0, 0]
        ),
        "values-exchanged": said(
            close(T(0.5, 0.5) @ S[:2], T(0.5, 0.5) @ S[[1, 0]]), "it stays the same"
        ),
        "twin-outputs": said(
            close(
                V[:, [1, 1]].transpose(1, 2).flatten(2) @ torch.cat((W[:6], W[:6])),
                V[:, 1] @ (2 * W[:6]),
            ),
            "double them",
        ),
        "mean-ablated": said(
            close(X.expand(4, 5, 24).mean(0), X[0]) and bool(X.abs().sum() > 0), "not at all"
        ),
        "mean-relation": relation_score(T(0.2, 0.4, 0.9).diag()[None], [(0, 0), (1, 1), (2, 2)]),
        "opposite-heads": (T(2, 0) + T(-2, 0)).norm(),
        "where-k-lies": words(
            "columns {} to {}", gpt2_qkv(torch.arange(2304).expand(768, 2304))[1][[0, -1], 0]
        ),
        "rms-of-equal": words("{}, {}, {}, {}", F.rms_norm(T(2, 2, 2, 2), (4,)).round()),
        "order-of-rows": words(
            "{} {} {} {} {} {} {} {}",
            to_half_split(torch.arange(8.0)[:, None].expand(8, 8), 1)[:, 0],
        ),
        "rows-below-one": only(
            lambda sums: sums[-1].isclose(T(1)[0]) and (sums[:-1] < 0.999).all(), WHEN_SUMS
        ),
        "unseen-with-one-head": said(
            unseen("key-value-swapped", "scale-missing", "view-without-transpose", "mask-inverted")
            == ["view-without-transpose"],
            "a split without a transpose",
        ),
        "unseen-with-equal-values": only(lambda sums: (sums - 1).abs().max() > 0.01, EQUAL_VALUES),
    }


@pytest.mark.parametrize("name", REVIEWS)
def test_the_right_choice_is_what_comes_out(name):
    """A choice in words is itself; a number is near the one in the right choice alone."""
    found = answers()[name]
    if not isinstance(found, str):
        numbers = {choice: choice.replace(",", "") for choice in REVIEWS[name].choices}
        for choice, text in numbers.items():
            number = re.search(r"-?\d+(?:\.(\d+))?", text)
            if number and abs(float(found) - float(number[0])) <= 0.5 / 10 ** len(number[1] or "0"):
                found = choice
                break
    assert found == REVIEWS[name].right


def test_every_lesson_has_its_questions_and_is_done_with_its_core_exercises():
    """What stands in a notebook under Deeper is not needed; 16 and 19 have predictions alone."""
    needed = {}
    for asked in all_questions().values():
        needed.setdefault(asked.needs, []).append(asked.name)
    counts = [len(names) for names in needed.values()]
    assert [count >= 3 + 2 * (at <= 12) for at, count in enumerate(counts)] == [True] * 20
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
    everything = [question.text for question in (*QUESTIONS.values(), *REVIEWS.values())]
    assert len(set(everything)) == len(everything)
    assert not set(QUESTIONS) & set(REVIEWS)
    sizes = [([len(x) for x in each.choices], len(each.right)) for each in REVIEWS.values()]
    assert sum(right == max(all_) > min(all_) for all_, right in sizes) <= len(sizes) / 3
    for question in REVIEWS.values():
        for letter, choice in zip("abcde", question.choices, strict=False):
            assert read_answer(question, choice) == read_answer(question, letter) == choice
    assert max(len(question.text) for question in REVIEWS.values()) < 220, "a quarter of a minute"


ASK = "## a\nWhat?\n- ✔ 1 → so\n- 2 → no\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        (ASK, 1),
        (f"needs: x\nlost\n{ASK}", 1),
        ("needs: x\n\n" + ASK.replace("a\n", "A b\n"), 3),
        ("needs: x\n\n" + ASK.replace("What?\n", ""), 3),
        ("needs: x\n\n" + ASK.replace("✔ ", ""), 3),
        ("needs: x\n\n" + ASK.replace("2", "✔ 2"), 3),
        ("needs: x\n\n" + ASK.replace("2 →", "2,"), 3),
        ("needs: x\n\n" + ASK.replace("2", "1"), 3),
        (f"needs: x\n{ASK}\n{ASK}", 7),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text, line, tmp_path):
    file = tmp_path / "review.md"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ShapeError) as raised:
        read_questions(file)
    assert f"{tmp_path.name}/review.md, line {line}: " in str(raised.value)
