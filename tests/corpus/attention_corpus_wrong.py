"""Wrong attention: the right one, written out once, with one of its lines replaced."""

from __future__ import annotations

import linecache
import re

import torch
from attention_corpus_base import apart, case
from torch.nn import functional as F

SOURCE = """def {name}(p, {arguments}):
    q, k, v = (apart(p, f, x) for f in (p.q, p.k, p.v))
    scores = q @ k.transpose(-2, -1) / p.D**0.5
    weights = torch.softmax(scores, dim=-1)
    context = weights @ v
    merged = context.transpose(1, 2).reshape(p.B, p.S, p.C)
    out = p.o(merged)
    return out
"""
EQUAL = ("square", "all_four")


def wrong(name, mistake, lines, *, axes="B S C", **rest):
    """Return the Case of the right attention with other lines: {what is assigned: by what}."""
    source = SOURCE.format(name=name, arguments=", ".join(axes) if isinstance(axes, dict) else "x")
    for variable, value in lines.items():
        source = re.sub(rf"(?m)^    {variable} = .*", f"    {variable} = {value}", source)
    file, space = f"<wrong attention: {name}>", {"apart": apart, "torch": torch, "F": F}
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), space)
    return case(space[name], axes, ("H",), {}, mistake=mistake, **rest)


# With S = H the view is a right split, and what is missing is the transpose.
VIEWED = {"one_head": "right", "all_four": "view-without-transpose|never-transposed"}
# With H = D the sizes of the split are those of the right one; only the permute after it is odd.
INNERMOST = {
    "one_head": "right",
    "all_four": "heads-innermost|fused-dim-before-heads|merge-dim-before-heads|none",
}
ONE_HEAD_RIGHT = {"one_head": "right"}
# With one sentence, or with B = H = S, it is a merge without transpose.
ANY_MERGE = "merge-batch-mixed|merge-without-transpose"
REFUSED = {"*": "crash", "one_head": "right"}
HEADLESS = {
    "axes": {"x": "B S C", "mask": "B T S"},
    "equal": {"*": "crash", **dict.fromkeys(EQUAL, "mask-missing-head-axis"), "one_item": "unseen"},
    "args": lambda p: (p.x, p.keep[:, None, :] & ~p.later),
}
WRONG = [
    # Split
    wrong(
        "folded_without_transpose",
        "view-without-transpose",
        {
            "q, k, v": "(f(x).view(p.B * p.H, -1, p.D) for f in (p.q, p.k, p.v))",
            "context": "(weights @ v).view(p.B, p.H, p.S, p.D)",
        },
        equal=VIEWED,
        where=("q", "k", "v", "scores"),
        also=("merge-without-transpose",),
    ),
    wrong(
        "width_before_heads",
        "heads-innermost",
        {"q, k, v": "(f(x).view(p.B, p.S, p.D, p.H).permute(0, 3, 1, 2) for f in (p.q, p.k, p.v))"},
        equal=INNERMOST,
        where=("q", "k", "v", "scores", "context"),
    ),
    # Each token attends over its own heads.
    wrong(
        "left_as_tokens_heads_width",
        "never-transposed",
        {
            "q, k, v": "(f(x).view(p.B, p.S, p.H, p.D) for f in (p.q, p.k, p.v))",
            "merged": "context.reshape(p.B, p.S, p.C)",
        },
        also=("softmax-over-heads",),
        where=("q", "k", "v", "scores"),
    ),
    # The heads are announced and never made.
    wrong(
        "three_axes_fused",
        "no-split",
        {"q, k, v": "p.qkv(x).chunk(3, dim=-1)", "merged": "context"},
        equal={"one_head": "right"},
        also=("scale-d-model",),
        where=("scores", "weights", "context"),
    ),
    # At sizes all alike it may be seen as another mistake.
    wrong(
        "keys_viewed",
        "only-one-of-qkv-wrongly-split",
        {"q, k, v": "apart(p, p.q, x), p.k(x).reshape(p.B, p.H, -1, p.D), apart(p, p.v, x)"},
        equal=VIEWED
        | {"all_four": "view-without-transpose|never-transposed|broadcast-of-different-axes"},
        where=("k", "scores"),
    ),
    # With B = H the axes have one size; with one sentence or one head the order is the same.
    wrong(
        "queries_by_head_keys_by_sentence",
        "fold-order-mixed",
        {
            "q, k, v": "(apart(p, f, x).reshape(-1, p.S, p.D) for f in (p.q, p.k, p.v))\n"
            "    q = apart(p, p.q, x).transpose(0, 1).reshape(-1, p.S, p.D)",
            "context": "(weights @ v).view(-1, p.H, p.S, p.D)",
        },
        equal={
            **dict.fromkeys(("one_head", "one_item"), "right"),
            **dict.fromkeys(EQUAL, "fold-order-mixed|merge-batch-mixed"),
        },
        also=("merge-batch-mixed",),
        where=("q", "scores", "context", "merged"),
    ),
    # Merge
    wrong(
        "merged_by_reshape",
        "merge-without-transpose",
        {"merged": "context.reshape(p.B, p.S, p.C)"},
        equal=ONE_HEAD_RIGHT,
        where=("merged",),
    ),
    wrong(
        "merged_with_width_first",
        "merge-dim-before-heads",
        {"merged": "context.permute(0, 2, 3, 1).reshape(p.B, p.S, p.C)"},
        equal=ONE_HEAD_RIGHT,
        where=("merged",),
    ),
    wrong(
        "heads_stacked_first_then_view",
        "merge-batch-mixed",
        {
            "q, k, v": "(torch.stack(f(x).split(p.D, dim=-1)) for f in (p.q, p.k, p.v))",
            "merged": "context.view(p.B, p.S, p.C)",
        },
        equal={
            "one_head": "right",
            "one_item": ANY_MERGE,
            **dict.fromkeys(EQUAL, f"{ANY_MERGE}|reshape-across-axes|none"),
        },
        also=("merge-without-transpose",),
        where=("merged",),
    ),
    wrong(
        "transposed_then_viewed",
        "view-on-non-contiguous",
        {"merged": "context.transpose(1, 2).view(p.B, p.S, p.C)"},
        equal=REFUSED,
        where=("merged",),
    ),
    wrong(
        "mean_of_heads",
        "heads-averaged",
        {
            "merged": "context.mean(dim=1)",
            "out": "F.linear(merged, p.o.weight[:, : p.D], p.o.bias)",
        },
        equal={"one_head": "unseen"},
        where=("merged",),
    ),
    wrong(
        "concatenated_along_tokens",
        "heads-on-sequence-axis",
        {"merged": "torch.cat(context.unbind(1), dim=1)"},
        equal=REFUSED,
        where=("merged",),
    ),
    # Softmax over the wrong axis
    wrong(
        "softmax_by_hand_down_the_columns",
        "softmax-over-queries",
        {
            "weights": "torch.exp(scores - scores.amax(dim=-1, keepdim=True))\n"
            "    weights = weights / weights.sum(dim=2, keepdim=True)"
        },
        where=("weights",),
    ),
    wrong(
        "softmax_left_from_three_axes",
        "softmax-over-heads",
        {"weights": "torch.nn.Softmax(dim=1)(scores)"},
        where=("weights",),
    ),
    wrong(
        "softmax_over_sentences",
        "softmax-over-batch",
        {"weights": "scores.softmax(dim=0)"},
        where=("weights",),
    ),
    # Keys and weights: without a transpose keys run only where S = D
    wrong(
        "einsum_of_keys_as_they_are",
        "key-not-transposed",
        {"scores": 'torch.einsum("bhqd,bhdk->bhqk", q, k) / p.D**0.5'},
        equal={"*": "crash", **dict.fromkeys(EQUAL, "key-not-transposed")},
        where=("scores",),
    ),
    wrong(
        "keys_reshaped",
        "key-reshaped",
        {"scores": "q @ k.reshape(p.B, p.H, p.D, p.S) / p.D**0.5"},
        equal=dict.fromkeys(EQUAL, "key-reshaped|key-not-transposed"),
        where=("scores",),
    ),
    wrong(
        "weights_turned",
        "weights-transposed",
        {"context": "weights.transpose(-2, -1) @ v"},
        where=("context",),
    ),
    # Masks: of padding (B, S), and of padding and order (B, T, S)
    wrong(
        "padding_filled_raw",
        "padding-broadcast-raw",
        {"weights": 'scores.masked_fill(keep == 0, float("-inf")).softmax(dim=-1)'},
        axes={"x": "B S C", "keep": "B S"},
        equal={"*": "crash", "all_four": "padding-broadcast-raw", "one_item": "unseen"},
        where=("weights",),
        args=lambda p: (p.x, p.keep),
    ),
    wrong(
        "mask_of_each_sentence_added",
        "mask-missing-head-axis",
        {"weights": "(scores + torch.where(mask, 0.0, -1e9)).softmax(dim=-1)"},
        where=("weights",),
        **HEADLESS,
    ),
    wrong(
        "mask_of_each_sentence_in_sdpa",
        "mask-missing-head-axis",
        {"context": "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"},
        where=("context",),
        **HEADLESS,
    ),
]
