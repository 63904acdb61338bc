"""Lesson 18, Real models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from mha_course.attention import attention, merge_heads, split_heads
from mha_course.exercises.attention_steps import MASKED, Steps, read_fused
from mha_course.exercises.inputs import HIDDEN_LEAD, C, Draw, H, draw, opposed, square
from mha_course.exercises.spec import Exercise, Lesson, mistake
from mha_course.masks import causal_mask

STORED = ("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias")


def gpt2_qkv(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return w_q, w_k, w_v as nn.Linear stores them, (C, C) each, from c_attn.weight (C, 3C),
    stored as (in, out).
    """
    w_q, w_k, w_v = weight.T.chunk(3)  # (C, C) each
    return w_q, w_k, w_v


def gpt2_attention(x: Tensor, state: Mapping[str, Tensor], num_heads: int) -> Tensor:
    """Do all six steps, causally, with one layer's tensors from a GPT-2 file: (B, S, C) -> (B, S,
    C).
    """
    w_q, w_k, w_v = gpt2_qkv(state["c_attn.weight"])
    b_q, b_k, b_v = state["c_attn.bias"].chunk(3)
    q = split_heads(x @ w_q.T + b_q, num_heads)  # (B, H, S, D)
    k = split_heads(x @ w_k.T + b_k, num_heads)  # (B, H, S, D)
    v = split_heads(x @ w_v.T + b_v, num_heads)  # (B, H, S, D)
    context, _ = attention(q, k, v, causal_mask(x.size(1), device=x.device))  # (B, H, S, D)
    return merge_heads(context) @ state["c_proj.weight"] + state["c_proj.bias"]  # (B, S, C)


def to_half_split(weight: Tensor, num_heads: int) -> Tensor:
    """Move each head's rows 2i before its rows 2i + 1, (H*D, width) -> (H*D, width)."""
    pairs = weight.unflatten(0, (num_heads, -1, 2))  # (H, D/2, 2, width)
    return pairs.transpose(1, 2).flatten(0, 2)  # (H*D, width)


def with_state(answer: Callable[..., Any], x: Tensor, *others: Any) -> Any:
    """Pass the four tensors by their names in a file; only x gets a gradient."""
    *stored, num_heads = others
    state = {name: tensor.detach() for name, tensor in zip(STORED, stored, strict=True)}
    return answer(x, state, num_heads)


def _build_qkv(s: Steps) -> Callable[..., Any]:
    return vars(s).get("gpt2_qkv", lambda weight: s.order(*weight.T.chunk(3)))


def _build_attention(s: Steps) -> Callable[..., Tensor]:
    def gpt2_attention(x: Tensor, state: Mapping[str, Tensor], num_heads: int) -> Tensor:
        fused = s.linear(x, state["c_attn.weight"].T, state["c_attn.bias"])
        q, k, v = read_fused(fused, num_heads, s)
        scores = s.scale(s.scores(q, k), q, k, num_heads)
        weights = s.post(s.attend(scores, causal_mask(x.size(1)), s), q)
        return s.output(
            s.merge(s.weigh(weights, v)), state["c_proj.weight"].T, state["c_proj.bias"], num_heads
        )

    return gpt2_attention


def _each_turned(w: Tensor) -> Tensor:
    """Return (3C, C) with q, k and v cut, but not transposed."""
    return torch.cat([block.T for block in w.chunk(3)])


def _reordered(axis: int, heads: bool, back: bool = False) -> Callable[..., Tensor]:
    """Return to_half_split along an axis, per head or over the whole width, or its inverse."""

    def reorder(weight: Tensor, num_heads: int) -> Tensor:
        pairs = (2, -1) if back else (-1, 2)
        split = weight.unflatten(axis, (num_heads if heads else 1, *pairs))
        return split.transpose(axis + 1, axis + 2).flatten(axis, axis + 2)

    return reorder


def _exchanged(one: int, other: int, heads: int = 0) -> Callable[..., Tensor]:
    """Return to_half_split that swaps two axes of the split rows, where heads may come
    elsewhere.
    """

    def exchange(weight: Tensor, num_heads: int) -> Tensor:
        cut = [-1, 2]
        cut.insert(heads, num_heads)
        return weight.unflatten(0, cut).transpose(one, other).flatten(0, 2)

    return exchange


def _without_diagonal(fill: float) -> dict[str, Any]:
    """Also hide the diagonal, and leave the fully masked row as it is."""
    return {
        "mask": lambda m, z: m.tril(-1),
        "hide": lambda z, m: z.masked_fill(~m, fill),
        "empty": lambda w, m: w,
    }


def _drawn(d: Draw) -> tuple[Any, ...]:
    x = d("BSC")
    w_q, w_k, w_v, c_proj = d.matrices("CC", "CC", "CC", "CC")
    x, w_k = opposed(d, x, w_q, w_k)
    if d.kind == HIDDEN_LEAD:
        x[:, -1] *= 1e4  # hidden from other tokens; more would drown the gradients in rounding
    return x, torch.cat((w_q, w_k, w_v), 1), d("X"), c_proj, d("C"), d.H


MISTAKES = [
    mistake("not-transposed", gpt2_qkv=lambda w: w.chunk(3, dim=1)),
    mistake(
        "not-transposed/reshaped",
        gpt2_qkv=[
            lambda w: w.reshape(3, w.size(0), -1).unbind(),
            lambda w: tuple(part.T for part in w.reshape(3, w.size(0), -1)),
        ],
    ),
    mistake(
        "chunk-wrong-axis/stored", gpt2_qkv=[lambda w: w.chunk(3), lambda w: w.T.chunk(3, dim=1)]
    ),
    mistake("/pieces-of-three", gpt2_qkv=[lambda w: w.split(3, dim=1), lambda w: w.T.split(3)]),
    mistake("fused-three-innermost/stored", gpt2_qkv=lambda w: (w.T[0::3], w.T[1::3], w.T[2::3])),
    mistake(
        "not-transposed/c_attn",
        linear=[
            lambda x, w, b: x @ w + b,
            lambda x, w, b: x @ _each_turned(w).T + b,
            lambda x, w, b: x @ w.T.reshape(w.shape).T + b,
        ],
        only=("gpt2_attention",),
    ),
    mistake(
        "not-transposed/c_proj",
        output=lambda merged, w, b, h: merged @ w + b,
        only=("gpt2_attention",),
    ),
    mistake(
        "not-transposed/into-linear",
        crashes="size mismatch|shape mismatch",
        only=("gpt2_attention",),
    ),
    mistake("dtype-changed/into-linear", crashes="same dtype", only=("gpt2_attention",)),
    mistake("/no-such-tensor", crashes="KeyError", only=("gpt2_attention",)),
    mistake("causal-ignored/gpt2", {"mask": lambda m, z: m | True}, only=("gpt2_attention",)),
    mistake(
        "causal-leaks-next/gpt2",
        {"mask": lambda m, z: (m | True).tril(1)},
        only=("gpt2_attention",),
    ),
    mistake(
        "causal-hides-self/gpt2",
        *map(_without_diagonal, (-torch.inf, -1e9)),
        {"mask": lambda m, z: m.tril(-1)},
        only=("gpt2_attention",),
    ),
    mistake("mask-inverted/gpt2", {"mask": lambda m, z: m.T}, only=("gpt2_attention",)),
    mistake(
        "heads-ignored",
        to_half_split=[_reordered(0, heads=False), _reordered(0, heads=False, back=True)],
    ),
    mistake("half-split-not-reordered", to_half_split=lambda w, h: w),
    mistake("half-split-inverted", to_half_split=_reordered(0, heads=True, back=True)),
    mistake(
        "columns-reordered",
        to_half_split=[
            *(_reordered(1, heads, back) for heads in (True, False) for back in (False, True)),
            lambda w, h: torch.cat((w[:, ::2], w[:, 1::2]), 1),
        ],
    ),
    mistake(
        "columns-reordered/as-rows",
        to_half_split=[
            lambda w, h: _reordered(0, True)(w.T, h),
            lambda w, h: _reordered(0, False)(w.T, h),
        ],
    ),
    mistake("/heads-and-pairs-swapped", to_half_split=[_exchanged(0, 1), _exchanged(0, 2)]),
    mistake(
        "/rows-of-every-head", to_half_split=[_exchanged(0, 1, heads=2), _exchanged(1, 2, heads=1)]
    ),
    mistake("/fewer-rows", crashes="is invalid for input of size", only=("to_half_split",)),
]

EXERCISES = [
    Exercise(
        gpt2_qkv,
        "The stored weight has C rows and 3C columns, and x @ weight is (B, S, 3C). Which axis "
        "holds q, k and v?",
        "Two steps: `.T` turns (in, out) into (out, in), and `chunk` cuts the axis that holds q, "
        "k and v. See “What is in the file”.",
        "weight (C, 3C) transposed is (3C, C), and a third of its rows is (C, C).",
        line="return weight.T.chunk(3)  # (C, C) each",
        drawn=lambda d: (d("CX"),),
        allows=("no gradient",),
        axes={"w_q": "C C", "w_k": "C C", "w_v": "C C"},
        done="You can read the fused weight of a published file. Which of its columns belong to "
             "head 1?",
        steps=("order", "gpt2_qkv"),
        build=_build_qkv,
    ),
    Exercise(
        gpt2_attention,
        "Which of the six steps differ from your multi_head_attention: the weights, the biases, "
        "or what each token may attend to?",
        "Use your own functions: `gpt2_qkv`, the biases cut in three in the same way, the causal "
        "mask of lesson 8, and c_proj at the end. `F.scaled_dot_product_attention` can do the "
        "middle.",
        "x @ c_attn.weight + c_attn.bias is (B, S, 3C), and q, k, v and the context are (B, H, S, "
        "D). The merged heads are (B, S, C), and c_proj.weight (C, C) is stored as (in, out).",
        line='fused = x @ state["c_attn.weight"] + state["c_attn.bias"]  # (B, S, 3*C)\n'
        "q, k, v = split_fused_qkv(fused, num_heads)  # (B, H, S, D) each\n"
        "context = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
        'return merge_heads(context) @ state["c_proj.weight"] + state["c_proj.bias"]',
        drawn=_drawn,
        axes="B S C",
        run=with_state,
        done="Your function runs the attention of a GPT-2 layer from its file. Next: all layers.",
        steps=(
            "linear", "unpack", "order", "split", "split_each", "split_fused", "scores", "scale",
            *MASKED, "post", "weigh",
            "merge", "output",
        ),
        build=_build_attention,
    ),
    Exercise(
        to_half_split,
        "Which rows of the weight make channels 0 and 1 of head 1, and at which channels must "
        "they end up?",
        "Cut the rows into heads, and the rows of a head into pairs. Then swap two axes and join "
        "them again.",
        "Cut (H*D, C) into (H, D/2, 2, C), transpose to (H, 2, D/2, C), and join to (H*D, C).",
        special_cases=[("", lambda: (*square(1), H)), ("", lambda: (draw(C, 16, seed=2), H))],
        drawn=lambda d: (d.normal(2 * d.C, d.O), d.H),
        allows=("no gradient",),
        axes="H*D C",
        done="You can bring a RoPE checkpoint into the other layout. Does v_proj have to be "
             "reordered?",
    ),
]  # fmt: skip

LESSON = Lesson(18, "Real models", EXERCISES)
