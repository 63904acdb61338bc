"""How mistakes in the steps of attention are made, whatever the exercise; words are in mistakes.py.

Each is the right answer with one step replaced. Where two give the same result, the first one here
is named. Mistakes in a whole function, or in a step that only one lesson has, are registered in
that lesson.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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


def _identity(x: Tensor, *_: Any) -> Tensor:
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
        inputs = zip("qkv", (x, memory, memory), weights, biases, strict=True)
        return tuple(
            change(a, w, b, h) if name in names else s.linear(a, w, b) for name, a, w, b in inputs
        )

    return project


def _by_share(scores: Tensor, q: Tensor, k: Tensor, h: int) -> Tensor:
    return scores / math.sqrt(q.size(-1) / h)  # q is as wide as C


def _in_three(split: Function, dim: int = -1) -> Function:
    """Cut the fused q, k and v in three, and split each."""
    return lambda qkv, h: [split(x, h) for x in qkv.chunk(3, dim)]


def _orders(*orders: str) -> list[Function]:
    """Hand out q, k and v in these orders."""
    return [
        lambda *projected, order=order: tuple(projected["qkv".index(name)] for name in order)
        for order in orders
    ]


IN_THREE = ("project_qkv", "split_fused_qkv", "fused_mha", "gpt2_attention")
PROJECTION = [
    mistake(
        "weight-not-transposed",
        {"linear": _not_transposed, "output": _not_transposed},
        linear=_not_transposed,
        project=[_projected(_not_transposed, name) for name in "qkv"],
        but=("gpt2_attention",),
    ),
    mistake("weight-not-transposed/output", output=_not_transposed, but=("gpt2_attention",)),
    mistake(
        "/weight-before-x",
        linear=[
            lambda x, w, b=None: w @ x,
            lambda x, w, b=None: w @ x.T,
            lambda x, w, b=None: w @ x[0],
            lambda x, w, b=None: w.T @ x,
        ],
        but=("MultiHeadAttention", "decode_step", "gpt2_attention"),
    ),
    mistake(
        "bias-dropped",
        {"linear": _without_bias, "output": _without_bias},
        linear=_without_bias,
        output=_without_bias,
        project=[_projected(_without_bias, name) for name in "qv"],
    ),
    mistake(
        "wrong-unpack-order",
        order=_orders("kqv", "vkq", "kvq", "vqk"),
        only=(*IN_THREE, "gpt2_qkv"),
    ),
    mistake("key-value-swapped", order=_orders("qvk")),
    mistake(
        "pieces-not-three",
        unpack=lambda t: t.chunk(3),
        split_fused=[_in_three(_identity, 0), _in_three(_split, 0)],
        crashes=r"not enough values to unpack \(expected 3, got 2\)",
        only=IN_THREE,
    ),
    mistake(
        "/split-takes-a-size",
        unpack=lambda t: t.split(3, dim=-1),
        crashes=r"too many values to unpack \(expected 3",
        only=(*IN_THREE, "gpt2_qkv"),
    ),
    mistake(
        "chunk-wrong-axis",
        unpack=[lambda t: t.tensor_split(3, dim=1), lambda t: t.chunk(3, dim=1)],
        split_fused=[_in_three(_identity, 1), _in_three(_split, 1)],
    ),
    mistake("value-through-key-projection", order=_orders("qkk")),
    mistake("key-through-query-projection", order=_orders("qqv")),
    mistake("shared-projection", order=_orders("qqq", "vvv", "kkk")),
    mistake("value-not-projected", project=_projected(_identity, "v")),
    mistake("/nothing-projected", project=_projected(_identity)),
    mistake(
        "/query-or-key-not-projected",
        {"project": _projected(_identity, "qk"), "scale": _identity},
        {"project": _projected(_identity, "qk"), "scale": _by_share},
        project=[_projected(_identity, names) for names in ("q", "k", "qk")],
    ),
    mistake("head-reads-own-slice", project=_projected(_own_slice)),
    mistake("one-small-linear-for-all-heads", project=_projected(_one_small)),
    mistake("activation-on-projection", linear=lambda *given: _linear(*given).relu()),
    mistake(
        "fused-heads-outermost",
        split_fused=lambda t, h: t.unflatten(2, (h, 3, -1)).permute(3, 0, 2, 1, 4),
    ),
    mistake(
        "fused-three-innermost",
        split_fused=lambda t, h: t.unflatten(2, (h, -1, 3)).permute(4, 0, 2, 1, 3),
    ),
    mistake(
        "fused-dim-before-heads",
        split_fused=lambda t, h: t.unflatten(2, (3, -1, h)).permute(2, 0, 4, 1, 3),
    ),
]

# Split and merge


def _viewed(x: Tensor, h: int) -> Tensor:
    return x.reshape(x.size(0), h, x.size(1), -1)


def _otherwise(split: Function, names: str) -> Function:
    """Split some of q, k and v in another way, and the rest as it should be."""

    def split_each(q: Tensor, k: Tensor, v: Tensor, h: int, s: Steps) -> Any:
        pairs = zip("qkv", (q, k, v), strict=True)
        return [split(x, h) if name in names else s.split(x, h) for name, x in pairs]

    return split_each


def _swapped_first(x: Tensor, h: int) -> Tensor:
    return x.transpose(1, 2).reshape(x.size(0), h, x.size(1), -1)


def _kept(x: Tensor, h: int) -> Tensor:
    return x.unflatten(2, (h, -1))


def _joined(*order: int) -> Function:
    """Bring the axes of the context into an order, and lay each token's numbers side by side."""
    return lambda c: c.permute(order).reshape(c.size(0), c.size(2), -1)


def _folded_as_sentences(context: Tensor) -> Tensor:
    sentences, heads, tokens, width = context.shape
    return context.reshape(heads, sentences, tokens, width).permute(1, 2, 0, 3).flatten(2)


# What Python and torch say of a float that stands for a size or an index.
_FLOAT = (
    r"ints?(, not|,but got) float|type float at|got \(?float[,)]|indices must be integers|'float' "
    r"object cannot be interp"
)

HEADS = [
    mistake("float-division", crashes=_FLOAT),
    mistake(
        "view-without-transpose",
        split=_viewed,
        split_fused=[
            _in_three(_viewed),
            _in_three(lambda x, h: x.view(x.size(0), h, x.size(1), -1)),
            lambda t, h: t.reshape(t.size(0), 3, h, t.size(1), -1).unbind(1),
            lambda t, h: t.reshape(3, t.size(0), h, t.size(1), -1).unbind(0),
        ],
    ),
    mistake(
        "heads-innermost",
        split=[
            lambda x, h: x.unflatten(2, (-1, h)).permute(0, 3, 1, 2),
            lambda x, h: x.unflatten(2, (-1, h)).transpose(1, 2),
        ],
    ),
    mistake(
        "never-transposed",
        {"split": _kept, "merge": lambda c: c.flatten(2)},
        {"split": _kept, "merge": lambda c: c.transpose(1, 2).reshape(len(c), c.size(1), -1)},
        split=_kept,
        split_fused=lambda t, h: t.unflatten(2, (3, h, -1)).unbind(2),
    ),
    mistake(
        "no-split",
        {"split": _identity, "merge": _identity},
        {"split": _identity, "merge": _identity, "scale": _by_share},
        {"split": lambda x, h: x[:, None], "merge": lambda c: c[:, 0]},
        {"split": _identity, "merge": lambda c: c.transpose(1, 2).reshape(c.shape)},
        but=("decode_step",),
    ),
    mistake(
        "fold-order-mixed",
        merge=_folded_as_sentences,
        split=lambda x, h: (
            x.unflatten(2, (h, -1)).permute(2, 0, 1, 3).reshape(x.size(0), h, x.size(1), -1)
        ),
    ),
    mistake("merge-without-transpose", merge=_joined(0, 1, 2, 3)),
    mistake("merge-dim-before-heads", merge=_joined(0, 2, 3, 1)),
    mistake("/tokens-and-channels-swapped", merge=_joined(0, 1, 3, 2)),
    mistake(
        "/sizes-of-the-example",
        crashes=r"shape '\[2, [^]]*\b5\b[^]]*\]' is invalid",
        only=("split_heads", "split_fused_qkv", "merge_heads"),
    ),
    mistake(
        "merge-batch-mixed",
        merge=[
            _joined(1, 0, 2, 3),
            _joined(1, 2, 0, 3),
            _joined(2, 0, 1, 3),
            lambda c: torch.cat(c.unbind(0), -1),
        ],
    ),
    mistake("view-on-non-contiguous", merge=lambda c: c.movedim(1, 2).view(len(c), c.size(2), -1)),
    mistake(
        "view-after-transpose",
        split=[lambda x, h: x.transpose(1, 2).view(x.size(0), h, x.size(1), -1), _swapped_first],
        split_fused=_in_three(_swapped_first),
    ),
    mistake(
        "heads-averaged",
        written=r"sum|mean|\+",
        merge=[
            lambda c: c.mean(1),
            lambda c: c.sum(1),
            lambda c: c.mean(1).repeat(1, 1, c.size(1)),
            lambda c: c.sum(1).repeat(1, 1, c.size(1)),
        ],
    ),
    mistake(
        "heads-on-sequence-axis",
        merge=[lambda c: torch.cat(c.unbind(1), dim=1), lambda c: torch.cat(c.unbind(1), dim=0)],
    ),
    mistake(
        "only-one-of-qkv-wrongly-split",
        split_each=[
            _otherwise(way, x)
            for way in (_viewed, _kept)
            for x in ("q", "k", "v", "qk", "kv", "qv")
        ],
    ),
]


def _cosine(q: Tensor, k: Tensor) -> Tensor:
    return normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1)


SCORES = [
    mistake("key-not-transposed", scores=lambda q, k: q @ k, written=r"@ ?k\b", but=("attend",)),
    mistake(
        "key-transposed-wrong-axes",
        scores=[
            lambda q, k: q @ k.transpose(1, 2),
            lambda q, k: q @ k.transpose(0, 1),
            lambda q, k: q @ k.transpose(-3, -1),
        ],
        but=("attend", "self_attention"),
    ),
    mistake(
        "key-all-axes-reversed",
        scores=lambda q, k: q @ k.T,
        # Of tensors with three axes or more; a reversed batch or width meets another size.
        crashes=r"size of tensor a .* at non-singleton .*\((\d+, ){2,}\d+\)",
        written=r"@ ?\w+\.T\b",
    ),
    mistake(
        "key-reshaped", scores=lambda q, k: q @ k.reshape(*k.shape[:-2], k.size(-1), k.size(-2))
    ),
    mistake("query-key-swapped", scores=lambda q, k: k @ q.transpose(-2, -1)),
    mistake(
        "elementwise-product",
        scores=[lambda q, k: q * k, lambda q, k: (q * k).sum(-1), lambda q, k: k * q],
        written=r"\*|@ ?v\b",
        but=("attend",),
    ),
    mistake("elementwise-product/values", weigh=[lambda w, v: w * v, lambda w, v: v * w]),
    mistake("cosine-not-dot", {"scores": _cosine, "scale": _identity}, scores=_cosine),
    mistake("scale-d-model", scale=lambda z, q, k, h: z / math.sqrt(q.size(-1) * h)),
    mistake("/scale-of-the-example", scale=lambda z, q, k, h: z / math.sqrt(12), but=("attend",)),
    mistake("scale-no-root", scale=lambda z, q, k, h: z / q.size(-1)),
    mistake(
        "/scale-half-width",
        scale=[lambda z, q, k, h: z / (q.size(-1) / 2), lambda z, q, k, h: z / q.size(-1) / 2],
    ),
    mistake(
        "scale-by-their-spread",
        scale=[
            lambda z, q, k, h: z / z.std(),
            lambda z, q, k, h: z / z.std(-1, keepdim=True),
            lambda z, q, k, h: z / z.std((-2, -1), keepdim=True),
        ],
    ),
    mistake("scale-missing", scale=_identity),
    mistake("scale-inverted", scale=lambda z, q, k, h: z * math.sqrt(q.size(-1))),
    mistake(
        "scale-after-softmax", {"scale": _identity, "post": lambda w, q: w / math.sqrt(q.size(-1))}
    ),
    mistake(
        "scale-by-length",
        scale=[
            lambda z, q, k, h: z / math.sqrt(k.size(-2)),
            lambda z, q, k, h: z / math.sqrt(q.size(-2)),
        ],
    ),
    mistake("/scale-rounded", scale=lambda z, q, k, h: z / math.isqrt(q.size(-1))),
    mistake(
        "scale-by-heads",
        scale=lambda z, q, k, h: z / math.sqrt(h),
        but=("attend", "self_attention"),
    ),
]

# Softmax


def _exponentials(scores: Tensor) -> Tensor:
    return (scores - scores.amax(-1, keepdim=True)).exp()


def _divided_over(dim: int) -> Function:
    """Subtract the largest score of a row, and divide by the sums over another axis."""
    return lambda z: _exponentials(z) / _exponentials(z).sum(dim, keepdim=True)


def _causal(scores: Tensor, corner: int) -> Tensor:
    past = torch.ones_like(scores, dtype=torch.bool).tril(corner)
    return scores.masked_fill(~past, -math.inf).softmax(-1)


WITHOUT_HEAD_AXIS = ("self_attention", "heads_in_a_loop")
WITH_MASK = ("multi_head_attention", "MultiHeadAttention", "cross_attention")
SOFTMAX = [
    mistake(
        "softmax-over-queries",
        softmax=[lambda z: z.softmax(-2), _divided_over(-2)],
        but=("attend",),
    ),
    mistake(
        "softmax-over-heads",
        softmax=[lambda z: z.softmax(1), _divided_over(1)],
        but=WITHOUT_HEAD_AXIS,
    ),
    mistake("softmax-over-batch", softmax=lambda z: z.softmax(0), but=("attend",)),
    mistake(
        "softmax-over-everything",
        softmax=[
            lambda z: z.flatten(-2).softmax(-1).view_as(z),
            lambda z: z.flatten().softmax(0).view_as(z),
            lambda z: _exponentials(z) / _exponentials(z).sum(),
        ],
    ),
    mistake("softmax-no-exp", softmax=lambda z: z / z.sum(-1, keepdim=True)),
    mistake("softmax-sigmoid", softmax=torch.sigmoid),
    mistake("softmax-base-two", softmax=lambda z: (z * math.log(2)).softmax(-1)),
    mistake("softmax-log", softmax=lambda z: z.log_softmax(-1)),
    mistake(
        "softmax-twice",
        softmax=lambda z: z.softmax(-1).softmax(-1),
        attend=lambda *given: Steps.defaults["attend"](*given).softmax(-1),
        weigh=lambda w, v: w.softmax(-1) @ v,
    ),
    mistake("softmax-missing", softmax=_identity),
    mistake(
        "/causal-unasked",
        softmax=[lambda z: _causal(z, 0), lambda z: _causal(z, z.size(-1) - z.size(-2))],
        only=("self_attention", *WITH_MASK),
    ),
    mistake(
        "softmax-no-keepdim",
        softmax=lambda z: z.exp() / z.exp().sum(-1),
        but=("attend", "decode_step"),
    ),
]


def _fill(value: float) -> Function:
    return lambda z, m: z.masked_fill(~m, value)


def _plus_infinities(scores: Tensor, mask: Tensor) -> Tensor:
    return scores + ~mask * -math.inf


def _uncleaned(hide: Function) -> Change:
    """Hide keys in another way, and leave a row that sees nothing as it comes."""
    return {"hide": hide, "empty": _identity}


def _renormalised(weights: Tensor, mask: Tensor) -> Tensor:
    return weights * mask / (weights * mask).sum(-1, keepdim=True).clamp(min=1e-9)


def _of_form(form: Callable[[Tensor], bool]) -> Function:
    """Read a mask of one form only, and hide nothing by others."""
    return lambda m, z: m if form(m) else torch.ones_like(m)


FINITE = (-50.0, -100.0, -1e3, -1e4)
MASKS = [
    mistake(
        "mask-inverted",
        _uncleaned(lambda z, m: z.masked_fill(m, -math.inf)),
        _uncleaned(lambda z, m: z.masked_fill(m, -1e9)),
        _uncleaned(lambda z, m: z - 1e9 * m),
        mask=lambda m, z: ~m,
    ),
    mistake("mask-multiplied", _uncleaned(lambda z, m: z * m), hide=lambda z, m: z * m),
    mistake("mask-fill-tiny", _uncleaned(_fill(1e-9)), _uncleaned(_fill(-1e-9)), hide=_fill(1e-9)),
    mistake(
        "mask-fill-positive-inf",
        {"hide": _fill(math.inf), "empty": lambda w, m: w.nan_to_num(0.0)},
        hide=_fill(math.inf),
    ),
    mistake(
        "mask-added-as-number",
        *map(_uncleaned, (lambda z, m: z + m, lambda z, m: z + ~m)),
        hide=lambda z, m: z + m,
    ),
    mistake("/bool-minus", crashes="bool tensor is not supported"),
    mistake("mask-after-softmax", {"hide": _identity, "empty": lambda w, m: w * m}),
    mistake(
        "mask-ignored",
        mask=lambda m, z: torch.ones_like(m),
        hide=_identity,
        but=("gpt2_attention",),
    ),
    mistake("mask-first-batch-only", mask=lambda m, z: m[:1] if m.dim() == 4 else m),
    mistake("masked-row-nan", _uncleaned(_fill(-math.inf))),
    mistake(
        "masked-row-uniform",
        _uncleaned(_fill(-1e9)),
        {"empty": _identity},
        _uncleaned(lambda z, m: z + ~m * -1e9),
    ),
    mistake("mask-none", crashes="NoneType", only=WITH_MASK),
    mistake(
        "truth-of-a-mask", crashes="Boolean value of Tensor", only=("masked_softmax", *WITH_MASK)
    ),
    mistake(
        "nan-gradient",
        stage="nan gradient",
        but=("online_softmax", "tiled_attention"),
    ),
    mistake("mask-after-softmax-renormalised", {"hide": _identity, "empty": _renormalised}),
    mistake("mask-fill-finite", hide=[_fill(value) for value in FINITE]),
    mistake(
        "mask-added-finite", hide=[lambda z, m, value=value: z + ~m * value for value in FINITE]
    ),
    mistake(
        "mask-form-ignored",
        mask=[
            _of_form(lambda m: m.dim() == 4),
            _of_form(lambda m: m.dim() == 2),
            _of_form(lambda m: m.dim() == 2 or m.size(0) > 1),
            lambda m, z: m[:, 0][:, None],
        ],
        but=("gpt2_attention",),
    ),
    mistake(
        "mask-times-minus-inf",
        {"hide": _plus_infinities, "empty": lambda w, mask: w.nan_to_num(0.0)},
        hide=_plus_infinities,
    ),
]

OUTPUT = [
    mistake("scores-returned", returned=lambda weights, scores: scores),
    mistake("weights-averaged", returned=lambda w, z: w.mean(1), but=("self_attention",)),
    mistake(
        "dropout-at-eval",
        stage="repeat",
        but=("project", "project_qkv", "generate", "next_token_probabilities"),
    ),
    mistake(
        "weights-transposed",
        weigh=lambda w, v: w.transpose(-2, -1) @ v,
        but=("attend", "decode_step"),
    ),
    mistake("value-times-weights", weigh=lambda w, v: v @ w),
    mistake("output-projection-missing", output=_identity),
    mistake("output-projection-per-head", output=_own_slice),
]

BY_STAGE = [  # known by the rule that is broken, without numbers
    mistake("no-gradient", stage="no gradient"),
    mistake(
        "dtype-changed",
        stage="narrow",
        but=("next_token_targets", "generate"),
        crashes="same dtype, but got(:| query)|same datatype|Float,? and Double|scalar type .* but "
        "found",
    ),
    mistake("not-an-int", stage="no int"),
    mistake("size-hard-coded", stage="sizes"),
    mistake("dtype-changed/wider", stage="wide"),
    mistake("results-swapped", stage="swapped"),
]

OTHERS = [
    mistake("/dot-of-vectors", crashes="1D tensors expected, but got"),
    mistake("/mm-of-matrices", crashes="self must be a matrix|must be a 3D tensor"),
    mistake("/caret", crashes=r"bitwise_xor|for \^"),
    mistake("/sqrt-of-a-tensor", crashes=r"sqrt\(\): argument 'input'"),
    mistake("/math-of-one-number", crashes="only one element tensors can be converted"),
    mistake(
        "/softmax-already",
        {"scale": lambda z, q, k, h: (z / math.sqrt(q.size(-1))).softmax(-1)},
        scores=lambda q, k: (q @ k.mT).softmax(-1),
        only=("scaled_scores",),
    ),
    mistake(
        "head-off-by-one/beyond",
        crashes=r"(tuple|list) index out of range|index 4 is out of bounds .* with size 4\b",
        written=r"\[[^]]*\b[a-z]\w*\]",  # a variable as the last index, as head is in a loop
        only=("heads_in_a_loop", "head_contributions"),
    ),
    mistake("/max-gives-two", crashes=r"return_types\.max"),
    mistake("/max-of-python", crashes="Boolean value of Tensor", written=r"\b(max|min)\("),
    mistake(
        "fused-three-innermost/project_qkv", unpack=lambda t: t.unflatten(2, (-1, 3)).unbind(-1)
    ),
    mistake(
        "/three-by-view",
        unpack=[
            lambda t: t.reshape(3, t.size(0), t.size(1), -1).unbind(0),
            lambda t: t.reshape(t.size(0), 3, t.size(1), -1).unbind(1),
        ],
    ),
    mistake("/heads-not-merged", merge=_identity, but=("merge_heads",)),
    mistake(
        "view-on-non-contiguous",
        crashes="view size is not compatible",
        only=("patchify", "to_half_split"),
    ),
]

STEP_MISTAKES = (*PROJECTION, *HEADS, *SCORES, *SOFTMAX, *MASKS, *OUTPUT, *BY_STAGE, *OTHERS)
