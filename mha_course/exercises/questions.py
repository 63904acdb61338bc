"""The predictions of Part I as data, and those of all lessons. Right answers are computed, not typed."""

from __future__ import annotations

# Longer than 250 lines: data, one question after the other, with the function that answers it.
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from mha_course.exercises import (
    questions_block,
    questions_cache,
    questions_flash,
    questions_heads,
    questions_language,
    questions_masks,
    questions_sequences,
    questions_vision,
)
from mha_course.exercises.asking import Question, shape_of


def _inside() -> str:
    """Say which of the points is what token a makes of three tokens by attention."""
    x = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]])
    context = F.scaled_dot_product_attention(x, x, x)[0]  # (2,)
    return f"({context[0]:.1f}, {context[1]:.1f})"


def _crashes() -> str:
    """Try the three products and say which one raises."""
    x, weight = torch.ones(2, 5, 24), torch.ones(18, 24)
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "x @ W": lambda: x @ weight,
        "x @ W.T": lambda: x @ weight.T,
        "F.linear(x, W)": lambda: F.linear(x, weight),
    }
    return _raising(ways)


def _raising(ways: dict[str, Callable[[], torch.Tensor]]) -> str:
    """Name the ways that raise."""
    failed = []
    for name, way in ways.items():
        try:
            way()
        except RuntimeError:
            failed.append(name)
    return " and ".join(failed)


def _larger_scores() -> str:
    """Compare the largest weight before and after."""
    scores = torch.tensor([0.1, 0.3, -0.2, 0.25])
    before, after = scores.softmax(-1).max(), (100 * scores).softmax(-1).max()
    return "it comes close to 1" if before < 0.5 and after > 0.99 else "nothing: softmax normalises"


_ROW = torch.tensor([0.3, 2.0, -1.0, 0.5])


def _shifted() -> str:
    """Add 5 and compare."""
    before, after = _ROW.softmax(-1), (_ROW + 5).softmax(-1)
    return "nothing" if torch.allclose(before, after) else "the largest gets larger"


def _softmax_axis() -> str:
    """Find the axis over which PyTorch's own attention shares out."""
    q, k = torch.randn(2, 4, 5, 6), torch.randn(2, 4, 7, 6)
    want = F.scaled_dot_product_attention(q, k, torch.eye(7).expand(2, 4, 7, 7))  # values that show the weights
    scores = q @ k.mT / 6**0.5
    return next(f"dim={dim}" for dim in (1, -2, -1) if torch.allclose(scores.softmax(dim), want, atol=1e-5))


def _all_hidden() -> str:
    """Look at what comes out."""
    weights = _ROW.masked_fill(torch.ones(4, dtype=torch.bool), -1e9).softmax(-1)
    return "NaN" if weights.isnan().any() else "all 0" if not weights.any() else "all alike"


def _uniform() -> str:
    """Mix three values with equal weights."""
    v = torch.tensor([[1.0, 5.0], [2.0, 0.0], [9.0, 4.0]])
    context = torch.full((1, 3), 1 / 3) @ v
    return "the mean of the values" if torch.allclose(context[0], v.mean(0)) else "the sum of the values"


def _shuffled() -> str:
    """Shuffle before and after."""
    x, order = torch.randn(1, 5, 6), torch.tensor([3, 0, 4, 2, 1])
    before, after = (F.scaled_dot_product_attention(y, y, y) for y in (x, x[:, order]))
    if torch.allclose(before, after, atol=1e-5):
        return "the same result"
    return (
        "the same results, shuffled alike" if torch.allclose(before[:, order], after, atol=1e-5) else "something else"
    )


def _value_width() -> str:
    """Try several widths."""
    q, k = torch.ones(1, 5, 6), torch.ones(1, 7, 6)
    widths = [F.scaled_dot_product_attention(q, k, torch.ones(1, 7, n)).size(-1) for n in (1, 6, 11)]
    return "any number" if widths == [1, 6, 11] else "6 only"


def _merged() -> str:
    """Find the way that lays the heads side by side."""
    context = torch.randn(2, 4, 5, 6)
    want = torch.cat(context.unbind(1), -1)
    ways = {
        "context.reshape(B, S, C)": context.reshape(2, 5, 24),
        "context.transpose(1, 2).reshape(B, S, C)": context.transpose(1, 2).reshape(2, 5, 24),
        "context.transpose(2, 3).reshape(B, S, C)": context.transpose(2, 3).reshape(2, 5, 24),
    }
    return " and ".join(name for name, got in ways.items() if torch.equal(got, want))


def _identity_output() -> str:
    """Change head 0 and see where the output changes."""
    changed = torch.zeros(2, 3)
    changed[0] = 1.0  # head 0 of two, three numbers each
    reached = (changed.flatten() @ torch.eye(6)).nonzero().flatten().tolist()
    return {(0, 1, 2): "the first half", (): "none"}.get(tuple(reached), "all")


def _count(heads: int) -> int:
    """Count what PyTorch's own module learns."""
    return sum(p.numel() for p in nn.MultiheadAttention(12, heads).parameters())


def _other_function() -> str:
    """Compare how many weights a wide head would need with how many there are."""
    narrow, wide = nn.Linear(12, 12).weight.numel(), nn.Linear(12, 2 * 12).weight.numel()
    return "every head as wide as d_model" if wide != narrow else "none"


def _view_fails() -> str:
    """Try the three ways to lay heads together and say which one raises."""
    heads = torch.ones(2, 5, 24).view(2, 5, 4, 6).transpose(1, 2)
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "heads.view(2, 5, 24)": lambda: heads.view(2, 5, 24),
        "heads.reshape(2, 5, 24)": lambda: heads.reshape(2, 5, 24),
        "heads.contiguous().view(2, 5, 24)": lambda: heads.contiguous().view(2, 5, 24),
    }
    return _raising(ways)


def _heads_reached() -> str:
    """Change one channel of one token and see in which heads q changes."""
    weight = torch.randn(24, 24, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(1, 5, 24)
    changed = x.clone()
    changed[0, 2, 0] = 1.0
    moved = (F.linear(changed, weight) - F.linear(x, weight)).unflatten(2, (4, 6)).abs().sum((0, 1, 3))  # (H,)
    return {4: "all four", 1: "head 0 alone", 0: "none"}[int((moved > 0).sum())]


PART_ONE = {
    "row-sum": Question(
        "The row of “it” holds 15 weights, one for each word of the sentence. What do they sum to?",
        answer=lambda: f"{torch.randn(15).softmax(-1).sum():.0f}",
        because="The weights of a row are shares of one whole: none is negative, and together they make 1.",
        choices={
            "15": "That would be one whole share for each word. There is only one share to hand out.",
            "1": "",
            "It depends on the sentence": "The single weights do. Their sum does not: they are shares of one whole.",
        },
    ),
    "context-of-a": Question(
        "Tokens a = (1, 0), b = (2, 1) and c = (0, 2) attend to each other. Which point can be the context of a?",
        answer=_inside,
        because="A context is a mixture with shares between 0 and 1, so it lies inside the triangle of the three.",
        choices={
            "(0.3, 0.2)": "This lies outside the triangle, towards the origin: no mixture of the three reaches it.",
            "(1.4, 0.9)": "",
            "(3.0, 3.0)": "This is a + b + c. The shares are not 1 each; they sum to 1.",
        },
    ),
    "linear-weight": Question(
        "nn.Linear(24, 18) takes 24 numbers and gives 18. What is the shape of its weight?",
        answer=lambda: shape_of(nn.Linear(24, 18).weight),
        letters="out, in",
        because="PyTorch stores (out, in): one row for each number that comes out.",
        wrong={"24, 18": "That is the order in which you write the arguments. It is stored the other way round."},
    ),
    "linear-result": Question(
        "x has shape (2, 5, 24). What is the shape of nn.Linear(24, 18)(x)?",
        answer=lambda: shape_of(nn.Linear(24, 18)(torch.ones(2, 5, 24))),
        letters="B, S, out",
        because="A Linear works on the last axis and leaves all others alone.",
        wrong={
            "18": "That is one token. There are 2 sentences of 5 tokens.",
            "10, 18": "The tokens are not flattened: the axes in front stay as they are.",
            "2, 18, 5": "The last axis changes in place; nothing is transposed.",
        },
    ),
    "which-crashes": Question(
        "x has shape (2, 5, 24) and W (18, 24). Which of these raises an error?",
        answer=_crashes,
        because="x @ W would pair the 24 of x with the 18 of W. The other two pair 24 with 24.",
        choices={
            "x @ W": "",
            "x @ W.T": "W.T is (24, 18), so 24 meets 24: it gives (2, 5, 18).",
            "F.linear(x, W)": "It transposes W itself, as nn.Linear does: it gives (2, 5, 18).",
        },
    ),
    "fused-parameters": Question(
        "How many numbers, biases included, does nn.Linear(24, 72) learn, which gives q, k and v at once?",
        answer=lambda: str(sum(p.numel() for p in nn.Linear(24, 72).parameters())),
        because="72 · 24 weights and 72 biases, just what three Linears of 24 have together.",
        wrong={
            "1728": "Those are the weights. Each of the 72 outputs has a bias too.",
            "600": "That is one Linear of 24. Here are three.",
        },
        nudge="Count the weights, one for each pair of input and output, and one bias for each output.",
    ),
    "whose-heads": Question(
        "You change the first of a token’s 24 channels. With 4 heads of 6 channels, in which heads can its q change?",
        answer=_heads_reached,
        because="Every row of W_Q reads all 24 channels. What is cut into heads is the result, not x.",
        choices={
            "head 0 alone": "That would be so if heads shared out the channels of x. They share out the rows of W_Q.",
            "all four": "",
            "none": "q is computed from x, so it changes with it.",
        },
    ),
    "split-shape": Question(
        "x has shape (2, 5, 24). What is the shape of x.unflatten(2, (4, 6)).transpose(1, 2)?",
        answer=lambda: shape_of(torch.ones(2, 5, 24).unflatten(2, (4, 6)).transpose(1, 2)),
        letters="B, H, S, D",
        because="24 becomes 4 · 6, and then the tokens and the heads change places.",
        wrong={
            "2, 5, 4, 6": "That is after unflatten. The transpose still swaps axes 1 and 2.",
            "2, 4, 6, 5": "Only axes 1 and 2 change places; D stays last.",
            "2, 4, 30": "Nothing is joined: one axis is cut in two.",
        },
    ),
    "wrong-row": Question(
        "24 numbers lie in memory, 6 for each of tokens 0 to 3. In view(2, 4, 3), whose numbers are row 0 of head 1?",
        answer=lambda: f"token {int(torch.arange(24).view(2, 4, 3)[1, 0, 0]) // 6}",
        because="Head 1 starts in the middle of the strip, at place 12, and that is where token 2 begins.",
        choices={
            "token 0": "Row 0 ought to be token 0. But view never rearranges: it deals the strip out in order.",
            "token 1": "Token 1 has the places 6 to 11. Head 1 starts at place 12.",
            "token 2": "",
        },
    ),
    "view-or-not": Question(
        "heads = x.view(2, 5, 4, 6).transpose(1, 2). Which of these raises an error?",
        answer=_view_fails,
        because="After the transpose the memory order no longer matches, and view refuses to copy.",
        choices={
            "heads.view(2, 5, 24)": "",
            "heads.reshape(2, 5, 24)": "reshape copies where a view is not possible. It runs (and is wrong: lesson 6).",
            "heads.contiguous().view(2, 5, 24)": (
                "It copies first, and that can be viewed. It runs (and is wrong like reshape)."
            ),
        },
    ),
    "contiguous-copies": Question(
        "With num_heads = 1, does heads.contiguous() copy the memory?",
        answer=lambda: "yes" if torch.ones(2, 1, 5, 6).transpose(1, 2).is_contiguous() is False else "no",
        because="An axis of size 1 can stand anywhere. The tensor is contiguous already, so it comes back as it is.",
        choices={"yes": "Only where the order of the memory has to change. With one head it need not.", "no": ""},
    ),
    "typical-score": Question(
        "q and k hold 64 independent numbers each, of mean 0 and variance 1. What is the standard deviation of q · k?",
        answer=lambda: f"{64**0.5:.0f}",
        because="Each of 64 products has variance 1, variances add up to 64, and the root of that is 8.",
        wrong={
            "64": "That is the variance. The standard deviation is its root.",
            "1": "One product has that. Here 64 of them are added.",
            "0": "That is the mean.",
        },
        nudge="How do the variances of 64 independent products add up?",
        tolerance=0.5,
    ),
    "scores-shape": Question(
        "q has shape (2, 4, 5, 6) and k (2, 4, 7, 6). What is the shape of q @ k.transpose(-2, -1)?",
        answer=lambda: shape_of(torch.ones(2, 4, 5, 6) @ torch.ones(2, 4, 7, 6).transpose(-2, -1)),
        letters="B, H, T, S",
        because="One number for every query and every key, in every head: D is summed away.",
        wrong={
            "2, 4, 7, 5": "Queries come first: a row for each query.",
            "2, 4, 5, 6": "D is what the product sums over, so it is gone.",
            "2, 5, 7": "Every head keeps its own scores.",
        },
    ),
    "which-width": Question(
        "d_model is 512, and there are 8 heads. By what should each head divide its scores?",
        answer=lambda: f"{(512 // 8) ** 0.5:.0f}",
        because="A head sums over its own D = 64 products, so their spread is the root of 64.",
        choices={
            "8": "",
            "22.6": "That is the root of d_model. No head ever adds 512 products.",
            "64": "That is D itself. The spread grows with the root of D.",
            "2.8": "That is the root of the number of heads, which has no part in a dot product.",
        },
    ),
    "scale-of-one": Question(
        "All scores of a row are 100 times larger. What happens to the largest weight?",
        answer=_larger_scores,
        because="Softmax sees differences. A lead a hundred times as long leaves the others next to nothing.",
        choices={
            "nothing: softmax normalises": "It makes the sum 1. How the 1 is shared out depends on the differences.",
            "it gets 100 times larger": "Weights cannot exceed 1, and softmax is not linear.",
            "it comes close to 1": "",
        },
    ),
    "softmax-axis": Question(
        "scores has shape (2, 4, 5, 7), which is (B, H, T, S). Over which axis must softmax go?",
        answer=_softmax_axis,
        because="Each query shares out one whole among the keys, and the keys are the last axis.",
        choices={
            "dim=-1": "",
            "dim=-2": "Then each key would be shared out among the queries: columns sum to 1, not rows.",
            "dim=1": "Then the heads would compete with each other for each pair of tokens.",
        },
    ),
    "softmax-shift": Question(
        "You add 5 to all scores of a row. What happens to its weights?",
        answer=_shifted,
        because="Every exponential is multiplied by the same number, e to the 5, and the division takes it out again.",
        choices={
            "nothing": "",
            "they become more alike": "That is what dividing the scores does. Adding keeps the differences.",
            "the largest gets larger": "That is what multiplying the scores does. Adding leaves the differences.",
        },
    ),
    "all-hidden": Question(
        "All keys of a row are hidden by the score -1e9 (float32). What are its weights?",
        answer=_all_hidden,
        because="Softmax sees differences, and there are none: every key gets the same share.",
        choices={
            "all 0": "Softmax always shares out one whole, however low the scores are.",
            "NaN": "That is so with -inf, where inf - inf has no value. -1e9 is an ordinary number.",
            "all alike": "",
        },
    ),
    "most-entropy": Question(
        "A row of weights shares itself out evenly among 15 words. What is its entropy, in nats?",
        answer=lambda: f"{torch.special.entr(torch.full((15,), 1 / 15)).sum():.2f}",
        because="It is the logarithm of 15, and the most that 15 words can have.",
        wrong={
            "15": "15 is the number of words. The entropy is its logarithm.",
            "0": "0 is for a row that has decided.",
        },
        nudge="It is the natural logarithm of something.",
        tolerance=0.02,
    ),
    "uniform-weights": Question(
        "All weights of a row are alike. What is its context?",
        answer=_uniform,
        because="Equal shares of all values: that is their mean.",
        choices={
            "the sum of the values": "The shares are 1 / S each, not 1.",
            "the mean of the values": "",
            "0": "Values cancel out only by chance. Equal shares of them are their mean.",
        },
    ),
    "context-shape": Question(
        "weights has shape (2, 4, 5, 7) and v (2, 4, 7, 6). What is the shape of weights @ v?",
        answer=lambda: shape_of(torch.ones(2, 4, 5, 7) @ torch.ones(2, 4, 7, 6)),
        letters="B, H, T, D",
        because="One mixture for each query: the keys are summed away, and the width of a value stays.",
        wrong={
            "2, 4, 7, 6": "There is a context for each query, not for each key.",
            "2, 5, 24": "The heads stay apart.",
        },
    ),
    "shuffle": Question(
        "You shuffle the vectors of a sentence's words and run self-attention, without a mask. What comes out?",
        answer=_shuffled,
        because="Every word compares and mixes as before; no step knows at which place a word stands.",
        choices={
            "the same result": "The result of each word is the same, but it comes out at the word's new place.",
            "the same results, shuffled alike": "",
            "something else": "That would need a step that knows the places. None of the six does.",
        },
    ),
    "own-width": Question(
        "q and k have 6 numbers a head. How many may v have?",
        answer=_value_width,
        because="q and k meet in a dot product and must agree. v is only mixed.",
        choices={
            "6 only": "Nothing multiplies v with q or k number by number. Try it.",
            "24 only": "24 is the width of all heads together.",
            "any number": "",
        },
    ),
    "merge-order": Question(
        "context has shape (B, H, S, D). Which gives (B, S, C) with the heads of each token side by side?",
        answer=_merged,
        because="First the tokens come forward again, then H and D, now neighbours, are joined.",
        choices={
            "context.reshape(B, S, C)": "It has the right shape, and mixes tokens: the transpose is missing.",
            "context.transpose(1, 2).reshape(B, S, C)": "",
            "context.transpose(2, 3).reshape(B, S, C)": "That swaps tokens and channels; the heads stay outermost.",
        },
    ),
    "output-mixes": Question(
        "Two heads are merged, and W_O is the identity. Which numbers of the output can depend on head 0?",
        answer=_identity_output,
        because="The identity leaves each number where it is; mixing the heads is what W_O is there for.",
        choices={
            "the first half": "",
            "all": "That takes a W_O that is not the identity. It is the only place where heads meet.",
            "none": "Merging drops nothing: head 0 fills the first half.",
        },
    ),
    "count-heads": Question(
        "d_model is 12, with biases. How many numbers does multi-head attention learn with 1, 2 and 12 heads?",
        answer=lambda: ", ".join(str(_count(heads)) for heads in (1, 2, 12)),
        because="Four Linears of 12 · 12 + 12. Heads only say how the 12 rows are grouped.",
        choices={
            "624, 1248, 7488": "Heads do not get matrices of their own size: they share out the rows of one.",
            "624, 624, 624": "",
            "468, 468, 468": "Those are three Linears. The output projection is the fourth.",
        },
    ),
    "which-is-other": Question(
        "One of these computes another function than the others, given the same weights. Which?",
        answer=_other_function,
        because="A head that is as wide as the whole vector compares more numbers, and has more weights.",
        choices={
            "one fused Linear for q, k, v": "Fused or apart: the same rows (lesson 1).",
            "three Linears, then view and transpose": "That is the reference.",
            "heads folded into the batch": "Folding only changes who stands in front (lesson 2).",
            "permute instead of transpose": "Both name the same order of axes (lesson 2).",
            "every head as wide as d_model": "",
        },
    ),
}

QUESTIONS: dict[str, Question] = (
    PART_ONE
    | questions_masks.QUESTIONS
    | questions_sequences.QUESTIONS
    | questions_cache.QUESTIONS
    | questions_flash.QUESTIONS
    | questions_block.QUESTIONS
    | questions_heads.QUESTIONS
    | questions_language.QUESTIONS
    | questions_vision.QUESTIONS
)
