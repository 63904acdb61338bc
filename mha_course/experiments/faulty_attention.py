"""Attention as small language models ship it, and the same with one line wrong: all of it trains.

A comment marks the wrong line of each; ``source``, which learners read, does not show it, and
``marked`` does. Below them is plain self-attention in one piece, with what stands in it instead of
a right line.

Axes: B sentences, T new tokens, S all tokens so far, C width, H heads, G heads of k and v, D = C/H.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import masked_softmax
from mha_course.caching import KVCache, repeat_kv
from mha_course.positions import rope, rope_interleaved
from mha_course.sources import plain_source


class CausalAttention(nn.Module):
    """Let each token attend to itself and to the past: rotary positions, grouped heads.

    Args: d_model is C; num_heads, H, divides it; num_kv_heads, G, divides H.

    ``window`` may be set to a number W: a token then attends to itself and the W - 1 before it.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window: int | None = None
        kv_width = d_model // num_heads * num_kv_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, kv_width)
        self.v_proj = nn.Linear(d_model, kv_width)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: KVCache | None = None,
        texts: Tensor | None = None,
    ) -> Tensor:
        """Map x (B, T, C) to out (B, T, C).

        Args: mask (B, S) is True for a token and False for padding, which nobody attends to; with a
            cache x are the new tokens alone, and S also counts those in the cache; texts (B, S)
            says which text each token is from, where several are packed into one row.
        """
        q, k, v = self.project(x)
        q, k, v = self.rotate(q, k, v, 0 if cache is None else cache.length)
        if cache is not None:
            k, v = self.append(cache, k, v)
        k, v = self.repeat(k), self.repeat(v)  # (B, H, S, D)
        visible = self.past(q.size(2), k.size(2))  # (T, S)
        if texts is not None:
            visible = visible & self.same_text(texts, q.size(2))  # (B, 1, T, S)
        if mask is not None:
            visible = self.hide(visible, mask)  # (B, 1, T, S)
        return self.output(self.mix(q, k, v, visible))  # (B, T, C)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.split(self.q_proj(x), self.num_heads)  # (B, H, T, D)
        k = self.split(self.k_proj(x), self.num_kv_heads)  # (B, G, T, D)
        v = self.split(self.v_proj(x), self.num_kv_heads)  # (B, G, T, D)
        return q, k, v

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.size(0), x.size(1), heads, -1).transpose(1, 2)

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.arange(start, start + q.size(2))
        return rope(q, positions), rope(k, positions), v

    def append(self, cache: KVCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return cache.append(k, v)  # (B, G, S, D)

    def repeat(self, x: Tensor) -> Tensor:
        return repeat_kv(x, self.num_heads)  # (B, H, S, D)

    def past(self, new: int, total: int) -> Tensor:
        causal = torch.ones(new, total, dtype=torch.bool).tril(total - new)  # (T, S)
        return causal if self.window is None else causal.triu(total - new - self.window + 1)

    def same_text(self, texts: Tensor, new: int) -> Tensor:
        return texts[:, None, -new:, None] == texts[:, None, None]  # (B, 1, T, S)

    def hide(self, visible: Tensor, mask: Tensor) -> Tensor:
        return visible & mask[:, None, None]  # (B, 1, T, S)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return self.attend(self.score(q, k), visible) @ v  # (B, H, T, D)

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, S)

    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = masked_softmax(scores, visible)  # (B, H, T, S)
        return F.dropout(weights, 0.1, self.training)

    def output(self, context: Tensor) -> Tensor:
        return self.out_proj(context.transpose(1, 2).flatten(2))  # (B, T, C)


INNOCENT = "no-mistake"
MADE: dict[str, type[CausalAttention]] = {}  # with one mistake each, or none, by its name
REMARK = "  # the "  # behind a line that is said to be the mistake, or right
SIMPLE = (ast.Assign, ast.Return)


class Faulty(CausalAttention):
    def __init_subclass__(cls, mistake: str) -> None:
        MADE[mistake] = cls


class KeyValueSwapped(Faulty, mistake="key-value-swapped"):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.split(self.q_proj(x), self.num_heads)
        v = self.split(self.k_proj(x), self.num_kv_heads)  # the mistake: k and v swapped
        k = self.split(self.v_proj(x), self.num_kv_heads)
        return q, k, v


class ValueThroughKeyProjection(Faulty, mistake="value-through-key-projection"):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.split(self.q_proj(x), self.num_heads)
        k = self.split(self.k_proj(x), self.num_kv_heads)
        v = self.split(self.k_proj(x), self.num_kv_heads)  # the mistake: k_proj
        return q, k, v


class KeysDetached(Faulty, mistake="keys-detached"):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.split(self.q_proj(x), self.num_heads)
        k = self.split(self.k_proj(x), self.num_kv_heads).detach()  # the mistake: detach
        v = self.split(self.v_proj(x), self.num_kv_heads)
        return q, k, v


class ViewWithoutTranspose(Faulty, mistake="view-without-transpose"):
    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.size(0), heads, x.size(1), -1)  # the mistake: it cuts the tokens


class KvRepeated(Faulty, mistake="kv-repeat-interleaved-wrongly"):
    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat(1, self.num_heads // x.size(1), 1, 1)  # the mistake: 0 1 0 1, not 0 0 1 1


class RopeOnValues(Faulty, mistake="rope-on-values"):
    def rotate(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.arange(start, start + q.size(2))
        return rope(q, positions), rope(k, positions), rope(v, positions)  # the mistake: v rotated


class RopeOnQueriesOnly(Faulty, mistake="rope-on-queries-only"):
    def rotate(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.arange(start, start + q.size(2))
        return rope(q, positions), k, v  # the mistake: k not rotated


class RopeInterleaved(Faulty, mistake="rope-interleaved"):
    def rotate(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.arange(start, start + q.size(2))
        return (
            rope_interleaved(q, positions),  # the mistake: it pairs neighbours
            rope_interleaved(k, positions),
            v,
        )


class PositionsIgnored(Faulty, mistake="positions-ignored"):
    def rotate(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.arange(q.size(2))  # the mistake: start is ignored
        return rope(q, positions), rope(k, positions), v


class KeysRotatedAgain(Faulty, mistake="keys-rotated-again"):
    def append(self, cache: KVCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        k, v = cache.append(k, v)
        return rope(k, torch.arange(k.size(2))), v  # the mistake: all keys are rotated already


class CacheNotEmptied(Faulty, mistake="cache-not-emptied"):
    def append(self, cache: KVCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.cache = getattr(self, "cache", cache)  # the mistake: the first cache serves every text
        return self.cache.append(k, v)


class SeesItselfAlone(Faulty, mistake="sees-itself-alone"):
    def append(self, cache: KVCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        cache.append(k, v)
        return k, v  # the mistake: not what the cache returns


class CausalMissing(Faulty, mistake="causal-missing"):
    def past(self, new: int, total: int) -> Tensor:
        causal = torch.ones(new, total, dtype=torch.bool)  # the mistake: no triangle
        return causal if self.window is None else causal.triu(total - new - self.window + 1)


class CausalLeaksNext(Faulty, mistake="causal-leaks-next"):
    def past(self, new: int, total: int) -> Tensor:
        causal = torch.ones(new, total, dtype=torch.bool).tril(total - new + 1)  # the mistake: + 1
        return causal if self.window is None else causal.triu(total - new - self.window + 1)


class CausalHidesSelf(Faulty, mistake="causal-hides-self"):
    def past(self, new: int, total: int) -> Tensor:
        causal = torch.ones(new, total, dtype=torch.bool).tril(total - new - 1)  # the mistake: - 1
        return causal if self.window is None else causal.triu(total - new - self.window + 1)


class DecodeFirstKeyOnly(Faulty, mistake="decode-first-key-only"):
    def past(self, new: int, total: int) -> Tensor:
        causal = torch.ones(new, total, dtype=torch.bool).tril()  # the mistake: not total - new
        return causal if self.window is None else causal.triu(total - new - self.window + 1)


class WindowOffByOne(Faulty, mistake="window-off-by-one"):
    def past(self, new: int, total: int) -> Tensor:
        causal = torch.ones(new, total, dtype=torch.bool).tril(total - new)
        if self.window is None:
            return causal
        return causal.triu(total - new - self.window)  # the mistake: + 1 is missing


class TextsSeeEachOther(Faulty, mistake="texts-see-each-other"):
    def same_text(self, texts: Tensor, new: int) -> Tensor:
        return (texts > 0)[:, None, None]  # the mistake: any text will do


class MaskInverted(Faulty, mistake="mask-inverted"):
    def hide(self, visible: Tensor, mask: Tensor) -> Tensor:
        return visible & ~mask[:, None, None]  # the mistake: ~


class MasksOrInsteadOfAnd(Faulty, mistake="masks-or-instead-of-and"):
    def hide(self, visible: Tensor, mask: Tensor) -> Tensor:
        return visible | mask[:, None, None]  # the mistake: or


class MaskFirstBatchOnly(Faulty, mistake="mask-first-batch-only"):
    def hide(self, visible: Tensor, mask: Tensor) -> Tensor:
        return visible & mask[0]  # the mistake: the mask of one sentence for all


class ScaleMissing(Faulty, mistake="scale-missing"):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)  # the mistake: no scale


class ScaleDModel(Faulty, mistake="scale-d-model"):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / math.sqrt(self.q_proj.out_features)  # the mistake: C


class ScaleNoRoot(Faulty, mistake="scale-no-root"):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / q.size(-1)  # the mistake: no square root


class ScaleByLength(Faulty, mistake="scale-by-length"):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / math.sqrt(k.size(-2))  # the mistake: S instead of D


class SoftmaxOverQueries(Faulty, mistake="softmax-over-queries"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = masked_softmax(scores.mT, visible.mT).mT  # the mistake: softmax over the queries
        return F.dropout(weights, 0.1, self.training)


class SoftmaxOverHeads(Faulty, mistake="softmax-over-heads"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = scores.softmax(1) * visible  # the mistake: softmax over the heads
        return F.dropout(weights, 0.1, self.training)


class SoftmaxHalfPrecision(Faulty, mistake="softmax-half-precision"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = masked_softmax(scores.half(), visible).to(scores)  # the mistake: half
        return F.dropout(weights, 0.1, self.training)


class MaskAfterSoftmax(Faulty, mistake="mask-after-softmax"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = scores.softmax(-1) * visible  # the mistake: the mask comes after the softmax
        return F.dropout(weights, 0.1, self.training)


class MaskedRowUniform(Faulty, mistake="masked-row-uniform"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = scores.masked_fill(~visible, -1e9).softmax(-1)  # the mistake: all the same
        return F.dropout(weights, 0.1, self.training)


class MaskedRowNan(Faulty, mistake="masked-row-nan"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1)  # the mistake: can be NaN
        return F.dropout(weights, 0.1, self.training)


class DropoutAtEval(Faulty, mistake="dropout-at-eval"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = masked_softmax(scores, visible)
        return F.dropout(weights, 0.1)  # the mistake: not only while training


class MergeWithoutTranspose(Faulty, mistake="merge-without-transpose"):
    def output(self, context: Tensor) -> Tensor:
        sentences, _, new, _ = context.shape
        return self.out_proj(context.reshape(sentences, new, -1))  # the mistake: no transpose


class MergeDimBeforeHeads(Faulty, mistake="merge-dim-before-heads"):
    def output(self, context: Tensor) -> Tensor:
        return self.out_proj(context.permute(0, 2, 3, 1).flatten(2))  # the mistake: D before H


class MergeBatchMixed(Faulty, mistake="merge-batch-mixed"):
    def output(self, context: Tensor) -> Tensor:
        rows = context.permute(2, 0, 1, 3).flatten(0, 1)  # the mistake: T before B
        return self.out_proj(rows.reshape(context.size(0), context.size(2), -1))


class OutputProjectionMissing(Faulty, mistake="output-projection-missing"):
    def output(self, context: Tensor) -> Tensor:
        return context.transpose(1, 2).flatten(2)  # the mistake: no out_proj


SINGLE = dict(MADE)  # those with a mistake


# Unusual, and right: a comment says why.


class Fused(Faulty, mistake=f"{INNOCENT}/fused"):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight = torch.cat((self.k_proj.weight, self.q_proj.weight, self.v_proj.weight))
        bias = torch.cat((self.k_proj.bias, self.q_proj.bias, self.v_proj.bias))
        width = self.k_proj.out_features
        joined = F.linear(x, weight, bias)  # (B, T, C + 2·G·D)
        k, q, v = joined.split((width, x.size(-1), width), -1)  # the same: as they were joined
        q = self.split(q, self.num_heads)
        k, v = self.split(k, self.num_kv_heads), self.split(v, self.num_kv_heads)
        return q, k, v


class KeysScaled(Faulty, mistake=f"{INNOCENT}/keys-scaled"):
    def score(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ (k * k.size(-1) ** -0.5).mT  # the same: to scale keys is to scale scores


class OneCall(Faulty, mistake=f"{INNOCENT}/one-call"):
    def mix(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        some = visible.any(-1, keepdim=True)
        dropout = 0.1 if self.training else 0.0
        context = F.scaled_dot_product_attention(q, k, v, visible | ~some, dropout)
        return context * some  # the same: rows that see nothing are opened, and emptied afterwards


class MaskAdded(Faulty, mistake=f"{INNOCENT}/mask-added"):
    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        some = visible.any(-1, keepdim=True)
        hidden = torch.zeros_like(scores).masked_fill(~visible & some, -math.inf)
        weights = (scores + hidden).softmax(-1) * some  # the same: no row is -inf alone
        return F.dropout(weights, 0.1, self.training)


class Shifted(Faulty, mistake=f"{INNOCENT}/shifted"):
    def rotate(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.arange(start, start + q.size(2)) + 1  # the same: only differences count
        return rope(q, positions), rope(k, positions), v

    def score(self, q: Tensor, k: Tensor) -> Tensor:
        root = q.size(-1) ** 0.25
        return torch.einsum("bhsd,bhtd->bhts", k / root, q / root)  # the same: two roots make one

    def attend(self, scores: Tensor, visible: Tensor) -> Tensor:
        smallest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~visible, smallest).softmax(-1) * visible  # the same: emptied
        return F.dropout(weights, 0.1, self.training)


INNOCENTS = [name for name in MADE if name not in SINGLE]


PAIRS = (  # each of two methods, and each can be found beside the other
    ("scale-d-model", "mask-first-batch-only"),
    ("value-through-key-projection", "positions-ignored"),
    ("kv-repeat-interleaved-wrongly", "masked-row-nan"), ("causal-leaks-next", "scale-missing"),
    ("keys-detached", "decode-first-key-only"), ("rope-on-values", "mask-inverted"),
    ("merge-dim-before-heads", "scale-by-length"), ("key-value-swapped", "masked-row-nan"),
    ("softmax-over-heads", "positions-ignored"), ("rope-interleaved", "texts-see-each-other"),
    ("window-off-by-one", "keys-rotated-again"), ("rope-on-queries-only", "cache-not-emptied"),
    ("causal-hides-self", "output-projection-missing"), ("rope-interleaved", "masked-row-nan"),
    ("masks-or-instead-of-and", "scale-no-root"), ("scale-missing", "cache-not-emptied"),
    ("kv-repeat-interleaved-wrongly", "texts-see-each-other"),
    ("key-value-swapped", "window-off-by-one"), ("keys-detached", "mask-first-batch-only"),
    ("sees-itself-alone", "softmax-half-precision"),
)  # fmt: skip


def methods(*names: str) -> list[str]:
    """Return the methods that these mistakes replace."""
    return [method for name in names for method in vars(MADE[name]) if not method.startswith("__")]


def faulty(*names: str) -> type[CausalAttention]:
    """Return the attention with these mistakes, no two of them in one method."""
    replaced = {
        method: _renamed(vars(MADE[name])[method], f"Attention.{method}")
        for name in names
        for method in methods(name)
    }
    return type("Attention", (CausalAttention,), {"__doc__": None, **replaced})


def _renamed(method: FunctionType, qualname: str) -> FunctionType:
    """Return a copy that does not tell, as a black box must not, from which class it is."""
    code = method.__code__.replace(co_qualname=qualname)
    return FunctionType(code, method.__globals__, method.__name__, method.__defaults__)


def source(kind: type[CausalAttention]) -> str:
    """Return one class with the methods that kind has: no annotations, docstrings or comments."""
    names = [name for name, member in vars(CausalAttention).items() if callable(member)]
    parts = [_plain(getattr(kind, name)) for name in names if not name.startswith("__")]
    return "class Attention(nn.Module):\n" + textwrap.indent("\n".join(parts), "    ")


def marked(*names: str) -> str:
    """Return the methods that differ from the right ones, each with the remark on its line."""
    parts = []
    for method in (vars(MADE[name])[method] for name in names for method in methods(name)):
        code, text = textwrap.dedent(inspect.getsource(method)), _plain(method)
        statements = [node for node in ast.walk(ast.parse(code)) if isinstance(node, SIMPLE)]
        for number, line in enumerate(code.splitlines(), start=1):
            for node in statements:
                if REMARK in line and node.lineno <= number <= (node.end_lineno or 0):
                    shown = ast.unparse(node)
                    text = text.replace(shown, f"{shown}  # {line.rpartition('# ')[2]}")
        parts.append(text)
    return "\n".join(parts)


def _plain(method: FunctionType) -> str:
    tree = ast.parse(textwrap.dedent(plain_source(method)))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.unparse(tree) + "\n"


WHOLE = """\
class Attention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        B, S, C = x.shape
        H, D = self.num_heads, C // self.num_heads
        if mask is None:
            mask = x.new_ones(S, S, dtype=torch.bool)
        linears = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = [linear(x).view(B, S, H, D).transpose(1, 2) for linear in linears]
        scores = q @ k.transpose(-2, -1) / D**0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(B, S, C)
        return self.out_proj(merged)
"""
WRONG = {  # by its mistake: what stands in WHOLE, and what stands there instead
    "merge-without-transpose": ("context.transpose(1, 2).reshape", "context.reshape"),
    "scale-d-model": ("D**0.5", "C**0.5"),
    "softmax-over-heads": ("dim=-1", "dim=1"),
    "view-without-transpose": (".view(B, S, H, D).transpose(1, 2)", ".view(B, H, S, D)"),
    "mask-after-softmax": (
        "scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)",
        "scores.softmax(dim=-1).masked_fill(~mask, 0.0)",
    ),
}


def whole(right: str = "", wrong: str = "") -> tuple[str, type[nn.Module]]:
    """Return the source of WHOLE with one piece of it replaced, and the class that it makes."""
    code = WHOLE.replace(right, wrong)
    names: dict[str, Any] = {"torch": torch, "nn": nn}
    exec(code, names)
    return code, names["Attention"]
