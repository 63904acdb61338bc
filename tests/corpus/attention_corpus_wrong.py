"""Wrong attention: split and merge. What is not wrong is left to three helpers."""

from __future__ import annotations

import math

import torch
from attention_corpus_base import apart, case
from torch.nn import functional as F

WRONG = []
EQUAL = ("square", "all_four")


def wrong(mistake, *, axes="B S C", **rest):
    """Enter what follows into the corpus."""

    def enter(build):
        expect = rest.pop("expect", {})
        WRONG.append(case(build, axes, ("H",), expect, mistake=mistake, **rest))
        return build

    return enter


def mix(q, k, v):
    """Attend as it should be, over the last two axes."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return torch.softmax(scores, dim=-1) @ v


def together(p, context):
    """Merge as it should be: (B, T, C)."""
    return context.transpose(1, 2).reshape(context.size(0), -1, p.C)


# view-without-transpose. With S = H the view is a right split, and what is missing is the
# transpose.
VIEWED = {"one_head": "right", "all_four": "view-without-transpose|never-transposed"}


@wrong(
    "view-without-transpose",
    equal=VIEWED,
    where=("q", "k", "v", "scores"),
    also=("merge-without-transpose",),
)
def folded_without_transpose(p, x):
    q, k, v = (f(x).view(p.B * p.H, -1, p.D) for f in (p.q, p.k, p.v))
    scores = torch.bmm(q, k.transpose(1, 2)) / p.D**0.5
    context = torch.bmm(F.softmax(scores, dim=-1), v)
    return p.o(together(p, context.view(p.B, p.H, p.S, p.D)))


# heads-innermost. With H = D the sizes of the split are those of the right one; only the permute
# after it is odd.
INNERMOST = {
    "one_head": "right",
    "all_four": "heads-innermost|fused-dim-before-heads|merge-dim-before-heads|none",
}


@wrong("heads-innermost", equal=INNERMOST, where=("q", "k", "v", "scores", "context"))
def width_before_heads(p, x):
    q, k, v = (f(x).view(p.B, p.S, p.D, p.H).permute(0, 3, 1, 2) for f in (p.q, p.k, p.v))
    return p.o(together(p, mix(q, k, v)))


# never-transposed: each token attends over its own heads


@wrong("never-transposed", also=("softmax-over-heads",), where=("q", "k", "v", "scores"))
def left_as_tokens_heads_width(p, x):
    q, k, v = (f(x).view(p.B, p.S, p.H, p.D) for f in (p.q, p.k, p.v))
    scores = q @ k.transpose(-2, -1) / p.D**0.5
    weights = torch.softmax(scores, dim=-1)
    context = weights @ v
    merged = context.reshape(p.B, p.S, p.C)
    return p.o(merged)


# no-split: the heads are announced and never made
WHOLE = {
    "equal": {"one_head": "right"},
    "also": ("scale-d-model",),
    "where": ("scores", "weights", "context"),
}


@wrong("no-split", **WHOLE)
def three_axes_fused(p, x):
    q, k, v = p.qkv(x).chunk(3, dim=-1)
    scores = q @ k.transpose(-2, -1) * p.D**-0.5
    weights = scores.softmax(dim=-1)
    context = weights @ v
    return p.o(context)


# fold-order-mixed. With B = H the axes have one size; with one sentence or one head the order is
# the same.
FOLD = {
    **dict.fromkeys(("one_head", "one_item"), "right"),
    **dict.fromkeys(EQUAL, "fold-order-mixed|merge-batch-mixed"),
}


@wrong(
    "fold-order-mixed",
    equal=FOLD,
    also=("merge-batch-mixed",),
    where=("q", "scores", "unfolded", "merged"),
)
def queries_by_head_keys_by_sentence(p, x):
    q = apart(p, p.q, x).transpose(0, 1).reshape(-1, p.S, p.D)
    k = apart(p, p.k, x).reshape(-1, p.S, p.D)
    v = apart(p, p.v, x).reshape(-1, p.S, p.D)
    scores = torch.bmm(q, k.transpose(1, 2)) / p.D**0.5
    context = torch.bmm(scores.softmax(dim=-1), v)
    unfolded = context.view(-1, p.H, p.S, p.D)
    merged = unfolded.transpose(1, 2).reshape(p.B, p.S, p.C)
    return p.o(merged)


# merge-without-transpose
ONE_HEAD_RIGHT = {"one_head": "right"}


@wrong("merge-without-transpose", equal=ONE_HEAD_RIGHT, where=("merged",))
def merged_by_reshape(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    context = mix(q, k, v)
    merged = context.reshape(p.B, p.S, p.C)
    return p.o(merged)


# merge-dim-before-heads


@wrong("merge-dim-before-heads", equal=ONE_HEAD_RIGHT, where=("merged",))
def merged_with_width_first(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    context = mix(q, k, v)
    merged = context.permute(0, 2, 3, 1).reshape(p.B, p.S, p.C)
    return p.o(merged)


# merge-batch-mixed. With one sentence, or with B = H = S, it is a merge without transpose.
@wrong(
    "merge-batch-mixed",
    equal={
        "one_head": "right",
        "one_item": "merge-batch-mixed|merge-without-transpose",
        **dict.fromkeys(
            EQUAL, "merge-batch-mixed|merge-without-transpose|reshape-across-axes|none"
        ),
    },
    also=("merge-without-transpose",),
    where=("merged",),
)
def heads_stacked_first_then_view(p, x):
    q, k, v = (f(x).split(p.D, dim=-1) for f in (p.q, p.k, p.v))
    context = torch.stack([mix(q[h], k[h], v[h]) for h in range(p.H)])
    merged = context.view(p.B, p.S, p.C)
    return p.o(merged)


# view-on-non-contiguous: PyTorch refuses
REFUSED = {"*": "crash", "one_head": "right"}


@wrong("view-on-non-contiguous", equal=REFUSED, where=("merged",))
def transposed_then_viewed(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    context = mix(q, k, v)
    merged = context.transpose(1, 2).view(p.B, p.S, p.C)
    return p.o(merged)


# heads-averaged


@wrong("heads-averaged", equal={"one_head": "unseen"}, where=("merged",))
def mean_of_heads(p, x):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    context = mix(q, k, v)
    merged = context.mean(dim=1)
    return F.linear(merged, p.o.weight[:, : p.D], p.o.bias)


# heads-on-sequence-axis: the output Linear refuses


@wrong("heads-on-sequence-axis", equal=REFUSED, where=("merged",))
def concatenated_along_tokens(p, x):
    q, k, v = (f(x).chunk(p.H, dim=-1) for f in (p.q, p.k, p.v))
    merged = torch.cat([mix(q[h], k[h], v[h]) for h in range(p.H)], dim=1)
    return p.o(merged)


# only-one-of-qkv-wrongly-split: at sizes all alike it may be seen as another mistake
ONE_VIEWED = VIEWED | {
    "all_four": "view-without-transpose|never-transposed|broadcast-of-different-axes"
}


@wrong("only-one-of-qkv-wrongly-split", equal=ONE_VIEWED, where=("k", "scores"))
def keys_viewed(p, x):
    q, k, v = p.qkv(x).split(p.C, dim=-1)
    q = q.reshape(p.B, -1, p.H, p.D).permute(0, 2, 1, 3)
    k = k.reshape(p.B, p.H, -1, p.D)
    v = v.reshape(p.B, -1, p.H, p.D).permute(0, 2, 1, 3)
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(p.D)
    return p.o(together(p, torch.matmul(F.softmax(scores, dim=3), v)))
