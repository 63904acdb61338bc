"""Mistakes that people really make in the steps of attention, whatever the exercise in which they
take them.

Each is the right answer with one step replaced. Where two come out alike, the one that stands first
here is named. Mistakes in a whole function stand in the lesson of that function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mha_course.exercises.attention_steps import Steps
from mha_course.exercises.spec import Change, Function, mistake

# Projection


_linear = Steps.defaults["linear"]
_split = Steps.defaults["split"]


def _not_transposed(x: Tensor, w: Tensor, b: Tensor | None = None, *_: Any) -> Any:
    return _linear(x, w.T, b)


def _without_bias(x: Tensor, w: Tensor, *_: Any) -> Any:
    return _linear(x, w)


def _itself(x: Tensor, *_: Any) -> Tensor:
    return x


def _own_slice(x: Tensor, w: Tensor, b: Tensor | None, h: int) -> Any:
    """Let each head read only its own part of x."""
    keep = torch.block_diag(*[torch.ones(w.size(0) // h, w.size(1) // h, dtype=w.dtype)] * h)
    return _linear(x, w * keep, b)


def _one_small(x: Tensor, w: Tensor, b: Tensor | None, h: int) -> Any:
    """Use one D x D weight for all heads."""
    d = w.size(0) // h
    return _linear(x.unflatten(-1, (h, d)), w[:d, :d], None if b is None else b[:d]).flatten(-2)


def _projected(change: Function, names: str = "qkv") -> Function:
    """Project some of q, k and v in another way."""

    def project(x: Tensor, memory: Tensor, weights: Any, biases: Any, h: int, s: Steps) -> Any:
        parts = zip("qkv", (x, memory, memory), weights, biases, strict=True)
        return tuple(
            change(a, w, b, h) if name in names else s.linear(a, w, b) for name, a, w, b in parts
        )

    return project


def _in_three(split: Function, dim: int = -1) -> Function:
    """Cut the fused q, k and v in three, and split each."""
    return lambda qkv, h: [split(x, h) for x in qkv.chunk(3, dim)]


def _orders(*orders: str) -> list[Function]:
    """Hand out q, k and v in these orders."""
    return [
        lambda *given, order=order: tuple(given["qkv".index(name)] for name in order)
        for order in orders
    ]


def _pieces(*pieces: Tensor) -> tuple[Tensor, ...]:
    return pieces


def _fused(order: str) -> Function:
    """Read the last axis of the fused q, k and v in another order than 3HD."""
    places = {axis: 2 + order.index(axis) for axis in "3HD"}

    def split_fused(qkv: Tensor, num_heads: int) -> tuple[Tensor, ...]:
        sizes = {"3": 3, "H": num_heads, "D": qkv.size(2) // 3 // num_heads}
        apart = qkv.unflatten(2, [sizes[axis] for axis in order])
        return apart.permute(places["3"], 0, places["H"], 1, places["D"]).unbind(0)

    return split_fused


LINEAR = "1, Projection: A Linear, taken apart"
ROLES = "1, Projection: See it: look for what you need"
FUSED_LINEAR = "1, Projection: Three Linears or one"
READS_ALL = "1, Projection: Break it: “each head gets a slice of the embedding”"
FUSED = "2, Head splitting: A fused q, k, v"
IN_THREE = ("project_qkv", "split_fused_qkv", "fused_mha", "gpt2_attention")
LAID_OUT = (
    "It is laid out as (3, H, D): first q, k and v, in each of them the heads, in each head its D "
    "numbers."
)
PROJECTION = [
    mistake("weight-not-transposed", "The product is with W the wrong way round.",
        "nn.Linear keeps its weight as (out, in): x @ W.T, or F.linear(x, W), which transposes by "
        "itself.", LINEAR,
        {"linear": _not_transposed, "output": _not_transposed},
        linear=_not_transposed,
        rows=lambda x, w, i, h: x @ w.chunk(h)[i],
        project=[_projected(_not_transposed, name) for name in "qkv"], but=("gpt2_attention",)),
    mistake("weight-not-transposed", "W_O was not transposed.",
        "It is kept as (out, in), as nn.Linear keeps it: the product is merged @ W_O.T.", LINEAR,
        output=_not_transposed, but=("gpt2_attention",)),
    mistake("weight-not-transposed", "Columns of W were taken, where the head has rows: x @ W and "
                                     "not x @ W.T.",
        "nn.Linear keeps its weight as (out, in): a head has D of the rows, and each reads all of "
        "x.", READS_ALL,
        rows=lambda x, w, i, h: x @ w.chunk(h, dim=1)[i]),
    mistake("", "The two factors of the product have changed places: weight @ x.",
        "Here tokens are rows, so x stands on the left, and the weight is transposed: x @ "
        "weight.T.", LINEAR,
        linear=lambda x, w, b=None: w @ x,
        only=("project", "project_qkv", "self_attention", "multi_head_attention", "fused_mha",
            "cross_attention"),
        same_as=("key-not-transposed",), written=r"@ ?x\b"),
    mistake("", "Random numbers take part, as in a new nn.Linear, which makes a weight and a bias "
                "of its own.",
        "Compute with those that are given: x, the weight and the bias.", LINEAR,
        stage="repeat", crashes="same dtype, but got Double and Float",
        only=("project", "project_qkv")),
    mistake("", "A reshape or view gave the weight the shape (in, out).",
        "It is no transpose: the numbers stay in their order. weight.T turns rows into columns.",
        LINEAR,
        linear=lambda x, w, b: _linear(x, w.reshape(w.size(1), w.size(0)).T, b),
        only=("project", "project_qkv")),
    mistake("", "The weight was cut along its columns.",
        "A head has D of the rows of w_q, and each reads all of x: cut along axis 0.", READS_ALL,
        rows=lambda x, w, i, h: x @ w.chunk(h, dim=1)[i].T, same_as=("weight-not-transposed",),
        written="dim=1"),
    mistake("", "The rows begin at the number of the head.",
        "Head 0 has the first D rows, head 1 the next D: the rows of a head begin at head * D.",
        READS_ALL,
        rows=[lambda x, w, i, h: x @ w[i : i + w.size(0) // h].T, lambda x, w, i,
            h: x @ w[i * h : i * h + h].T]),
    mistake("bias-dropped", "A bias is missing.",
        "A Linear is x Wᵀ + b; the bias shifts every token alike.", LINEAR,
        {"linear": _without_bias, "output": _without_bias},
        linear=_without_bias,
        output=_without_bias,
        project=[_projected(_without_bias, names) for names in ("q", "v", "qk", "kv")],
        but=("multi_head_attention", "self_attention")),
    mistake("wrong-unpack-order", "The three were handed out in another order than q, k, v.",
        "They are stored in the order q, k, v, and are handed out in that order.", FUSED_LINEAR,
        order=_orders("kqv", "vkq", "kvq", "vqk"), only=(*IN_THREE, "gpt2_qkv")),
    mistake("key-value-swapped", "Keys and values have changed places.",
        "A key says what a token is found by, a value what it hands over; each has its own weight.",
        ROLES, order=_orders("qvk")),
    mistake("pieces-not-three", "2 pieces came back, not 3: axis 0 was cut, which holds 2 "
                                "sentences.",
        "q, k and v lie beside each other in the last axis: chunk(3, dim=-1).", FUSED_LINEAR,
        {"unpack": lambda t: t.chunk(3), "order": _pieces},
        {"split_fused": _in_three(_itself, 0), "order": _pieces},
        {"split_fused": _in_three(_split, 0), "order": _pieces},
        crashes=r"not enough values to unpack \(expected 3, got 2\)", only=IN_THREE),
    mistake("", "split(3) cuts pieces of size 3, and not 3 pieces.",
        "chunk(3, dim=-1) makes three of equal size; split takes the size, C.", FUSED_LINEAR,
        {"unpack": lambda t: t.split(3, dim=-1), "order": _pieces},
        gpt2_qkv=[lambda w: w.split(3, dim=1), lambda w: w.T.split(3)],
        crashes=r"too many values to unpack \(expected 3", only=(*IN_THREE, "gpt2_qkv")),
    mistake("chunk-wrong-axis", "The three parts are pieces of the sequence, not of the width.",
        "q, k and v lie beside each other in the last axis: chunk(3, dim=-1).", FUSED_LINEAR,
        unpack=[lambda t: t.tensor_split(3, dim=1), lambda t: t.chunk(3, dim=1)],
        split_fused=[_in_three(_itself, 1), _in_three(_split, 1)]),
    mistake("value-through-key-projection", "The values are made as the keys are.",
        "Values need their own projection, W_V: what a token hands over is not what it is found "
        "by.",
        ROLES, order=_orders("qkk")),
    mistake("key-through-query-projection", "The keys are made as the queries are.",
        "Keys need their own projection, W_K. Otherwise scores are symmetric: a looks at b as b "
        "looks at a.",
        ROLES, order=_orders("qqv")),
    mistake("shared-projection", "q, k and v all come from one projection.",
        "Three roles need three weights.", ROLES,
        order=_orders("qqq", "vvv", "kkk")),
    mistake("value-not-projected", "The values are x itself.",
        "Values are projected, too: v = x W_Vᵀ.", ROLES,
        project=_projected(_itself, "v")),
    mistake("", "q, k and v are x itself.",
        "Each is a projection of x, with a weight of its own.", ROLES,
        project=_projected(_itself)),
    mistake("head-reads-own-slice", "Each head reads only its own D numbers of x.",
        "A head reads all of x, through its own D rows of the weight. What is cut into heads is "
        "the result.",
        READS_ALL,
        rows=lambda x, w, i, h: _own_slice(x, w, None, h).chunk(h, -1)[i],
        project=_projected(_own_slice), but=("self_attention",)),
    mistake("one-small-linear-for-all-heads", "All heads share one D x D weight.",
        "Each head has D rows of its own, which read all of x.", READS_ALL,
        project=_projected(_one_small), but=("self_attention",)),
    mistake("activation-on-projection", "Negative numbers have become 0.",
        "Projections are linear; an activation would throw half of each vector away.", LINEAR,
        linear=lambda *given: _linear(*given).relu(),
        rows=lambda x, w, i, h: (x @ w.chunk(h)[i].T).relu()),
    mistake("fused-heads-outermost", "The last axis was read as (H, 3, D).", LAID_OUT, FUSED,
        split_fused=_fused("H3D")),
    mistake("fused-three-innermost", "The last axis was read as (H, D, 3).", LAID_OUT, FUSED,
        split_fused=_fused("HD3")),
    mistake("fused-dim-before-heads", "The last axis was read as (3, D, H).", LAID_OUT, FUSED,
        split_fused=_fused("3DH")),
]  # fmt: skip

# Split and merge


def _each(change: Callable[[Tensor, int], Tensor], only: str = "qkv") -> Function:
    """Split some of q, k and v in another way."""

    def apart(q: Tensor, k: Tensor, v: Tensor, h: int, s: Steps) -> Any:
        return tuple(
            change(x, h) if name in only else s.split(x, h)
            for name, x in zip("qkv", (q, k, v), strict=True)
        )

    return apart


def _viewed(x: Tensor, h: int) -> Tensor:
    return x.reshape(x.size(0), h, x.size(1), -1)


def _swapped_first(x: Tensor, h: int) -> Tensor:
    return x.transpose(1, 2).reshape(x.size(0), h, x.size(1), -1)


def _innermost(x: Tensor, h: int) -> Tensor:
    return x.unflatten(2, (-1, h)).permute(0, 3, 1, 2)


def _kept(x: Tensor, h: int) -> Tensor:
    return x.unflatten(2, (h, -1))


def _joined(*order: int) -> Function:
    """Bring the four axes of the context into an order, and lay the rest of each token side by
    side.
    """
    return lambda c: c.permute(order).reshape(c.size(0), c.size(2), -1)


def _folded_as_sentences(context: Tensor) -> Tensor:
    sentences, heads, tokens, width = context.shape
    return context.reshape(heads, sentences, tokens, width).permute(1, 2, 0, 3).flatten(2)


# What Python and torch say of a float that stands for a size or an index.
_FLOAT = (
    r"ints?(, not|,but got) float|type float at|\(got float\)|indices must be integers|'float' "
    r"object cannot be interp"
)

SPLIT = "2, Head splitting: The split, cell by cell"
MERGE = "6, Concatenation: The merge, cell by cell"
HEADS = [
    mistake("float-division", "A size or an index is a float, as a division with / gives it.",
        "Sizes and indices are whole: divide with //.", SPLIT,
        crashes=_FLOAT),
    mistake("view-without-transpose",
        "x was viewed as (B, H, S, D) at once: each head holds parts of several tokens.",
        "The heads of a token lie side by side, so cut C into (H, D) first, then swap tokens and "
        "heads.", SPLIT,
        split=_viewed,
        apart=_each(_viewed),
        split_fused=[_in_three(_viewed), _in_three(lambda x,
            h: x.view(x.size(0), h, x.size(1), -1)),
                     lambda t, h: t.reshape(t.size(0), 3, h, t.size(1), -1).unbind(1),
                     lambda t, h: t.reshape(3, t.size(0), h, t.size(1), -1).unbind(0)]),
    mistake("heads-innermost", "The width was read as (D, H): each head got every H-th number.",
        "The D numbers of a head lie side by side: view(B, S, H, D).", SPLIT,
        split=_innermost,
        apart=_each(_innermost),
        rows=lambda x, w, i, h: x @ w[i::h].T, same_as=("fused-dim-before-heads",)),
    mistake("never-transposed", "The result is (B, S, H, D): heads stand where tokens should.",
        "With heads behind the tokens, every token would compare its own heads with each other.",
        SPLIT,
        {"split": _kept, "merge": lambda c: c.flatten(2)},
        {"apart": _each(_kept), "merge": lambda c: c.flatten(2)},
        split=_kept,
        split_fused=lambda t, h: t.unflatten(2, (3, h, -1)).unbind(2)),
    mistake("no-split", "There is one head, as wide as C.",
        "Without a split every token has one weight for each other token, instead of one a head.",
        SPLIT,
        {"apart": _each(_itself), "merge": _itself},
        {"apart": _each(_itself), "merge": _itself, "scale": lambda z, q, k,
            h: z / math.sqrt(q.size(-1) / h)},
        {"apart": _each(lambda x, h: x[:, None]), "merge": lambda c: c[:, 0]},
        but=("decode_step",)),
    mistake("fold-order-mixed", "Heads and sentences have changed places.",
        "Whoever folds as (B, H) must unfold as (B, H).", "2, Head splitting: Where it lives",
        merge=_folded_as_sentences,
        split=lambda x, h: x.unflatten(2, (h, -1)).permute(2, 0, 1, 3).reshape(x.size(0), h,
            x.size(1), -1)),
    mistake("merge-without-transpose",
        "The heads were joined by a reshape at once: each token got parts of other tokens.",
        "Swap heads and tokens first, so that the heads of one token lie side by side; then join.",
        MERGE,
        merge=_joined(0, 1, 2, 3)),
    mistake("merge-dim-before-heads", "The merged width is ordered (D, H).",
        "It should be (H, D): all of head 0, then all of head 1.", MERGE,
        merge=_joined(0, 2, 3, 1)),
    mistake("", "Tokens and channels changed places; the heads still stand before them.",
        "Swap heads and tokens, transpose(1, 2): then the heads of one token lie side by side, "
        "and can be joined.",
        MERGE, merge=_joined(0, 1, 3, 2)),
    mistake("", "The sizes are those of the lesson's example, and check gives others.",
        "Read them from the shape, as in B, S, C = x.shape.", SPLIT,
        crashes=r"shape '\[2, [^]]*\b5\b[^]]*\]' is invalid",
        only=("split_heads", "split_fused_qkv", "merge_heads")),
    mistake("merge-batch-mixed", "Sentences were mixed into one another.",
        "Bring back (B, S, H, D) before joining; the batch stays in front.", MERGE,
        merge=[_joined(1, 0, 2, 3), _joined(1, 2, 0, 3), _joined(2, 0, 1, 3)]),
    mistake("view-on-non-contiguous", "view cannot read these axes as they lie in memory.",
        "After a transpose the numbers are not in order any more. Use reshape, or contiguous() "
        "before view: both copy.",
        "6, Concatenation: Do it",
        merge=lambda c: c.transpose(1, 2).view(c.size(0), c.size(2), -1),
        operand=lambda shape: len(shape) == 4,
        same_as=("view-without-transpose",)),
    mistake("view-after-transpose", "The axes were swapped before the width was cut.",
        "Cut the width of each token first, (B, S, H, D), then bring the heads forward. After a "
        "transpose view cannot cut, and reshape cuts along other numbers.", SPLIT,
        split=[lambda x, h: x.transpose(1, 2).view(x.size(0), h, x.size(1), -1), _swapped_first],
        split_fused=_in_three(_swapped_first),
        operand=lambda shape: len(shape) == 3, same_as=("view-on-non-contiguous",
            "view-without-transpose")),
    mistake("heads-averaged", "The heads were added up or averaged.",
        "They are laid side by side: averaged, nothing tells them apart afterwards.", MERGE,
        merge=[lambda c: c.mean(1), lambda c: c.sum(1), lambda c: c.mean(1).repeat(1, 1, c.size(1)),
               lambda c: c.sum(1).repeat(1, 1, c.size(1))]),
    mistake("heads-on-sequence-axis", "The heads were laid one after another along the tokens.",
        "They belong side by side in the width: dim=-1.", MERGE,
        merge=[lambda c: torch.cat(c.unbind(1), dim=1), lambda c: torch.cat(c.unbind(1), dim=0)]),
    mistake("only-one-of-qkv-wrongly-split",
        "q, k and v were not all split alike: one of them was viewed without the transpose.",
        "All three take the same way: cut C into (H, D), then swap tokens and heads.", SPLIT,
        apart=[_each(_viewed, only) for only in ("q", "k", "v", "qk", "kv", "qv")]),
]  # fmt: skip

PAIRS = "3, Scores and scaling: See it: all pairs at once"
DIVISOR = "3, Scores and scaling: How large is a dot product?"
WIDTH = "3, Scores and scaling: Break it: which width?"
SCORES = [
    mistake("key-not-transposed", "The second factor of the product is not transposed.",
        "A score is the dot product of two vectors, so the product sums over their width: q @ "
        "k.transpose(-2, -1).",
        PAIRS, scores=lambda q, k: q @ k),
    mistake("key-transposed-wrong-axes", "The wrong two axes of k were swapped.",
        "Tokens and width change places, the last two axes: k.transpose(-2, -1).", PAIRS,
        scores=[lambda q, k: q @ k.transpose(1, 2), lambda q, k: q @ k.transpose(0, 1),
                lambda q, k: q @ k.transpose(-3, -1)],
        but=("self_attention",)),
    mistake("key-all-axes-reversed", "k.T reverses all axes of k, not only the last two.",
        "Tokens and width change places, and sentences and heads stay: k.transpose(-2, -1).", PAIRS,
        scores=lambda q, k: q @ k.T, same_as=("key-transposed-wrong-axes",), written=r"\.T\b"),
    mistake("key-reshaped", "The keys were brought into the shape of kᵀ by a reshape or view.",
        "A reshape is no transpose: it mixes tokens and width.", PAIRS,
        scores=lambda q, k: q @ k.reshape(*k.shape[:-2], k.size(-1), k.size(-2))),
    mistake("query-key-swapped", "Queries and keys have changed places: rows are keys.",
        "A row belongs to a query: q @ k.transpose(-2, -1).", PAIRS,
        scores=lambda q, k: k @ q.transpose(-2, -1), same_as=("wrong-unpack-order",)),
    mistake("elementwise-product", "Two tensors were multiplied number by number (*), and not as "
                                   "matrices (@).",
        "A score is one number for a query and a key, their dot product; a context is a sum over "
        "keys.", PAIRS,
        scores=[lambda q, k: q * k, lambda q, k: (q * k).sum(-1), lambda q, k: k * q],
        weigh=[lambda w, v: w * v, lambda w, v: v * w],
        same_as=("key-not-transposed", "query-key-swapped"), written=r"\bq ?\* ?k\b|\bk ?\* ?q\b"),
    mistake("cosine-not-dot", "Both vectors were brought to length 1 first: this is their cosine.",
        "A dot product counts how long they are, too. Leave their lengths alone.", PAIRS,
        {"scores": lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1),
         "scale": lambda z, q, k, h: z},
        scores=lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1)),
    mistake("scale-d-model", "The scores were divided by sqrt(d_model).",
        "A dot product of D numbers has spread sqrt(D), and D is the width of a head.", WIDTH,
        scale=lambda z, q, k, h: z / math.sqrt(q.size(-1) * h), but=("self_attention",)),
    mistake("scale-no-root", "The scores were divided by D, not by its root.",
        "Their spread grows with sqrt(D).", DIVISOR,
        scale=lambda z, q, k, h: z / q.size(-1)),
    mistake("", "The scores were divided by D / 2: in D ** 1 / 2 the power comes first.",
        "The root of D is D ** 0.5, or math.sqrt(D).", DIVISOR,
        scale=[lambda z, q, k, h: z / (q.size(-1) / 2), lambda z, q, k, h: z / q.size(-1) / 2]),
    mistake("scale-missing", "The scores are not scaled.",
        "Without / sqrt(D) their spread grows with the width; at large D one key takes nearly "
        "all, by chance.", DIVISOR,
        scale=lambda z, q, k, h: z),
    mistake("scale-inverted", "The scores were multiplied by sqrt(D).",
        "Dividing keeps the spread at 1; multiplying makes it D.", DIVISOR,
        scale=lambda z, q, k, h: z * math.sqrt(q.size(-1))),
    mistake("scale-after-softmax", "The weights were divided by sqrt(D): rows sum to 1 / sqrt(D).",
        "The scale belongs before softmax, to the scores.", DIVISOR,
        {"scale": lambda z, q, k, h: z, "post": lambda w, q: w / math.sqrt(q.size(-1))}),
    mistake("scale-by-length", "The scores were divided by sqrt(S), the number of tokens.",
        "Their spread depends on the width of a head, not on the length.", DIVISOR,
        scale=[lambda z, q, k, h: z / math.sqrt(k.size(-2)), lambda z, q, k,
            h: z / math.sqrt(q.size(-2))],
        same_as=("scale-missing",)),
    mistake("", "The root of D was rounded to a whole number.",
        "Divide by math.sqrt(D) as it comes: // and int cut it off.", DIVISOR,
        scale=lambda z, q, k, h: z / math.isqrt(q.size(-1)), same_as=("scale-missing",)),
    mistake("scale-by-heads", "The scores were divided by sqrt(H), the number of heads.",
        "The width of a head counts, not how many there are.", WIDTH,
        scale=lambda z, q, k, h: z / math.sqrt(h), but=("self_attention",)),
]  # fmt: skip

# Softmax


def _exponentials(scores: Tensor, dims: Any = -1) -> Tensor:
    return (scores - scores.amax(dims, keepdim=True)).exp()


def _over(*dims: int) -> Function:
    return lambda z: _exponentials(z, dims) / _exponentials(z, dims).sum(dims, keepdim=True)


def _causal(scores: Tensor, corner: int) -> Tensor:
    past = torch.ones_like(scores, dtype=torch.bool).tril(corner)
    return scores.masked_fill(~past, -math.inf).softmax(-1)


WITH_MASK = ("multi_head_attention", "MultiHeadAttention", "cross_attention")
HIDING = "4, Softmax: Hiding words"
AXIS = "4, Softmax: Break it: the wrong axis"
TO_WEIGHTS = "4, Softmax: See it: from scores to shares"
STABLE = "4, Softmax: A softmax that does not overflow"
SOFTMAX = [
    mistake("softmax-over-queries", "Columns sum to 1, not rows: softmax ran over the queries.",
        "Each query spends a whole: normalise over the keys, dim=-1.", AXIS,
        softmax=_over(-2)),
    mistake("softmax-over-heads", "Softmax ran over the heads.",
        "Heads do not share: each has rows that sum to 1, dim=-1.", AXIS,
        softmax=_over(1), but=("self_attention",)),
    mistake("softmax-over-batch", "Softmax ran over the batch: sentences depend on each other.",
        "Use the axis of the keys, dim=-1.", AXIS,
        softmax=_over(0)),
    mistake("softmax-over-everything", "A whole table was made to sum to 1, not each row.",
        "Each query has a whole of its own: one axis, dim=-1.", AXIS,
        softmax=[_over(-2, -1), lambda z: _over(*range(z.dim()))(z),
                 lambda z: _exponentials(z) / _exponentials(z).sum()]),
    mistake("softmax-no-exp", "Scores were divided by their sum, without the exponential.",
        "Scores may be negative; exp makes shares of them.", TO_WEIGHTS,
        softmax=lambda z: z / z.sum(-1, keepdim=True)),
    mistake("softmax-sigmoid", "Each score became a share of its own: this is the sigmoid.",
        "Softmax lets the keys compete, so that a row sums to 1.", TO_WEIGHTS,
        softmax=torch.sigmoid),
    mistake("softmax-log", "These are logarithms of the weights.",
        "log_softmax is for losses; weights are softmax.", TO_WEIGHTS,
        softmax=lambda z: z.log_softmax(-1)),
    mistake("softmax-twice", "Softmax was taken twice.",
        "The second time flattens the weights: they lie between 0 and 1 already.", TO_WEIGHTS,
        softmax=lambda z: z.softmax(-1).softmax(-1),
        attend=lambda *given: Steps.defaults["attend"](*given).softmax(-1)),
    mistake("", "The softmax is missing: the scores were used as they are.",
        "exp makes them positive, and the division makes each row sum to 1.", TO_WEIGHTS,
        softmax=lambda z: z),
    mistake("", "Later tokens are hidden: this is causal, and nobody asked for it.",
        "Here every query sees all keys, but those that a mask hides. The causal mask comes in "
        "lesson 8.", HIDING,
        softmax=[lambda z: _causal(z, 0), lambda z: _causal(z, z.size(-1) - z.size(-2))],
        only=("self_attention", "multi_head_attention", "MultiHeadAttention", "cross_attention")),
    mistake("softmax-unstable", "With scores of 10 000 the result is NaN.",
        "exp overflows. Subtract the largest score of the row first: only differences count.",
        STABLE,
        softmax=lambda z: z.exp() / z.exp().sum(-1, keepdim=True), only=("softmax",)),
    mistake("softmax-no-keepdim", "The sums, or the largest scores, do not line up with their "
                                  "rows.",
        "A sum over the last axis drops it; keepdim=True keeps it, so that division goes row by "
        "row.", STABLE,
        softmax=[lambda z: _exponentials(z) / _exponentials(z).sum(-1),
            lambda z: z.exp() / z.exp().sum(-1),
                 lambda z: z - z.amax(-1)],
        but=("decode_step",)),
]  # fmt: skip


def _behind_a_mask(softmax: Function) -> list[Change]:
    """Fill hidden scores with -inf and take a wrong softmax; leave a row that sees nothing as it
    comes, or clean it.
    """

    def attend(scores: Tensor, mask: Tensor, s: Steps) -> Tensor:
        return softmax(scores.masked_fill(~mask, -math.inf))

    return [{"attend": attend}, {"attend": lambda z, m, s: attend(z, m, s).nan_to_num(0.0)}]


MASKED_SOFTMAX = [
    replace(
        one,
        changes=tuple(
            way
            for change in one.changes
            if "softmax" in change
            for way in _behind_a_mask(change["softmax"])
        ),
        only=("masked_softmax",),
    )
    for one in SOFTMAX
    if one.name and not one.only
]


def _fill(value: float) -> Function:
    return lambda z, m: z.masked_fill(~m, value)


def _uncleaned(hide: Function) -> Change:
    """Hide keys in another way, and leave a row that sees nothing as it comes."""
    return {"hide": hide, "empty": _itself}


def _cleaned(hide: Function) -> Change:
    """Hide keys in another way, and put 0 where a row that sees nothing is NaN."""
    return {"hide": hide, "empty": lambda w, m: w.nan_to_num(0.0)}


MASKS = [
    mistake("mask-inverted", "What should be hidden is seen, and the other way round.",
        "True means may attend, so hide where the mask is False: ~mask.", HIDING,
        *[rest(lambda z, m: z.masked_fill(m, -math.inf)) for rest in (_uncleaned, _cleaned)],
        *map(_uncleaned, (lambda z, m: z.masked_fill(m, -1e9), lambda z, m: z - 1e9 * m)),
        mask=lambda m, z: ~m),
    mistake("mask-multiplied", "Hidden keys still get exp(0).",
        "A score of 0 is no small score. Fill hidden ones with -inf.", HIDING,
        _uncleaned(lambda z, m: z * m), hide=lambda z, m: z * m),
    mistake("mask-fill-tiny", "Hidden scores were filled with a tiny number near 0.",
        "1e-9 is nearly 0, and exp(0) is 1. Fill with -inf.", HIDING,
        _uncleaned(_fill(1e-9)), _uncleaned(_fill(-1e-9)), hide=_fill(1e-9)),
    mistake("mask-fill-positive-inf", "Hidden scores were filled with +inf, which gives NaN.",
        "Hidden means as small as can be: -inf.", HIDING,
        _uncleaned(_fill(math.inf)), _cleaned(_fill(math.inf)), hide=_fill(math.inf)),
    mistake("mask-added-as-number", "The mask was added as 0 and 1.",
        "That multiplies weights by e, and hides nothing. Add 0 and -inf, or fill.", HIDING,
        *map(_uncleaned, (lambda z, m: z + m, lambda z, m: z + ~m)), hide=lambda z, m: z + m),
    mistake("", "torch does not subtract True and False: a mask has no minus.",
        "Its opposite is ~mask. And what it hides is filled, not subtracted: "
        "scores.masked_fill(~mask, -torch.inf).",
        HIDING, crashes="bool tensor is not supported"),
    mistake("mask-after-softmax", "Hidden weights are 0, but rows sum to less than 1.",
        "Hide the scores before softmax, so that what is left shares the whole.", HIDING,
        {"hide": _itself, "empty": lambda w, m: w * m}),
    mistake("mask-ignored", "The mask has no effect.",
        "Hidden keys must get weight 0.", HIDING,
        mask=lambda m, z: torch.ones_like(m),
        hide=_itself, but=("gpt2_attention",)),
    mistake("mask-first-batch-only", "All sentences are masked as the first is.",
        "Each sentence has a mask of its own.", HIDING,
        mask=lambda m, z: m[:1] if m.dim() == 4 else m),
    mistake("masked-row-nan", "A row with nothing to see is NaN.",
        "Softmax of nothing but -inf is 0 / 0. Such a row gets all 0.", HIDING,
        _uncleaned(_fill(-math.inf)), {"hide": _fill(-math.inf)}),
    mistake("masked-row-uniform", "A row with nothing to see looks at everything alike.",
        "Its scores are all equal, as with a finite fill, or its NaN was filled up. Such a row "
        "gets all 0.", HIDING,
        _uncleaned(_fill(-1e9)), _uncleaned(_fill(-1e4)), {"empty": _itself},
        _uncleaned(lambda z, m: z + ~m * -1e9)),
    mistake("mask-none", "It was called without a mask, and took None for one.",
        "Hide keys only where there is a mask: if mask is not None.", HIDING,
        crashes="NoneType", only=WITH_MASK),
    mistake("", "`if` and `not` want one truth, and a mask holds many.",
        "Write `if mask is not None`, and `~mask` for its opposite.", HIDING,
        crashes="Boolean value of Tensor", only=("masked_softmax", *WITH_MASK)),
    mistake("nan-gradient", "The result is right, but a gradient is NaN.",
        "A row that sees nothing is NaN before nan_to_num hides it, and backward() meets that "
        "NaN. Give such a row scores of 0 before the softmax, and weights of 0 after it.", HIDING,
        stage="nan gradient", but=("online_softmax", "tiled_attention")),
    mistake("mask-times-minus-inf", "Everything became NaN: 0 times inf is not a number.",
        "Fill hidden scores with masked_fill, which leaves the others alone.", HIDING,
        _uncleaned(lambda z, m: z + ~m * -math.inf), hide=lambda z, m: z + ~m * -math.inf),
]  # fmt: skip

MIXTURE = "5, Weighted sum: See it: a context and what it is made of"
WHOLE_HEAD = "5, Weighted sum: A whole head"
W_O = "6, Concatenation: W_O: where the heads meet"
OUTPUT = [
    mistake("scores-returned", "The scores were returned in the place of the weights; the context "
                               "is right.",
        "The weights are what softmax makes of the scores: return those.", WHOLE_HEAD,
        returned=lambda weights, scores: scores),
    mistake("dropout-at-eval", "Two calls with the same input differ, as with dropout.",
        "Leave dropout and all that is random away: the same input gives the same result.",
        WHOLE_HEAD,
        stage="repeat",
        only=("softmax", "masked_softmax", "self_attention", "fused_mha", "decode_step",
            *WITH_MASK)),
    mistake("weights-transposed", "The weights were transposed.",
        "Row t of the weights belongs to query t: weights @ v.", MIXTURE,
        weigh=lambda w, v: w.transpose(-2, -1) @ v, but=("decode_step",)),
    mistake("value-times-weights", "The product is the wrong way round: v @ weights.",
        "Each context is a sum over values: weights @ v.", MIXTURE,
        weigh=lambda w, v: v @ w,
        same_as=("key-not-transposed",),
        operand=lambda shape: len(shape) > 1 and shape[-1] == shape[-2]),
    mistake("output-projection-missing", "The merged heads were returned, without the output "
                                         "projection.",
        "Only W_O lets the heads meet.", W_O,
        output=lambda m, w, b, h: m),
    mistake("output-projection-per-head", "Each head was projected with its own block of W_O.",
        "Every number that comes out may depend on all heads.", W_O,
        output=_own_slice),
    mistake("output-columns-as-rows", "W_O was cut by rows.",
        "Its columns are what reads the heads: D columns for each.", W_O,
        columns=[lambda c, w: torch.einsum("bhsd,hdc->bhsc", c, w.unflatten(0, (c.size(1), -1))),
                 lambda c, w: torch.stack([x @ w.chunk(c.size(1))[h].T for h,
                     x in enumerate(c.unbind(1))], 1)],
        same_as=("weight-not-transposed",), written=r"\.m?T\b"),
    mistake("weight-not-transposed", "A head's D columns of W_O were not transposed.",
        "They are (C, D), as nn.Linear keeps them, (out, in): the product is with their "
        "transpose, (D, C).", W_O,
        columns=[lambda c, w: torch.stack([x @ w.chunk(c.size(1), 1)[h] for h,
            x in enumerate(c.unbind(1))], 1),
                 lambda c, w: c @ w.unflatten(1, (c.size(1), -1)).transpose(0, 1)]),
    mistake("", "A head's D numbers met all C columns of W_O.",
        "Each head is multiplied with its own D columns alone.", W_O,
        columns=[lambda c, w: c @ w.T, lambda c, w: c @ w]),
    mistake("", "The columns of W_O were cut as (D, H): each head got every H-th one.",
        "The columns of a head lie side by side, as its numbers do in the merged context: cut as "
        "(H, D).", W_O,
        columns=lambda c, w: torch.einsum("bhsd,cdh->bhsc", c, w.unflatten(1, (-1, c.size(1))))),
]  # fmt: skip

KINDS = [
    mistake("", "torch.dot takes two vectors.",
        "For the dot products of all pairs use the matrix product, @.",
        "0, Start here: One attention by hand",
        crashes="1D tensors expected, but got"),
    mistake("", "torch.mm takes two matrices, and no axes in front of them.",
        "@ takes the last two axes as matrices, and repeats the product over the axes in front.",
        SPLIT,
        crashes="self must be a matrix"),
    mistake("", "torch.sqrt takes a tensor, and a size is a plain number.",
        "Write math.sqrt(size), or size ** 0.5.", DIVISOR, crashes=r"sqrt\(\): argument 'input'"),
    mistake("", "A function for single numbers was given a tensor.",
        "Those of math take one number: use torch.exp, torch.log or torch.sqrt on a tensor.",
        STABLE,
        crashes="only one element tensors can be converted"),
    mistake("", "max along an axis gives two results: the largest numbers, and where they stand.",
        "Take .values, or use amax: scores.amax(-1, keepdim=True).", STABLE,
        crashes=r"return_types\.max"),
]  # fmt: skip

STEP_MISTAKES = (*PROJECTION, *HEADS, *SCORES, *SOFTMAX, *MASKED_SOFTMAX, *MASKS, *OUTPUT, *KINDS)
