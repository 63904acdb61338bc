"""Attention as in small language models, and versions with one line wrong, all trainable.

A mistake is an ``Edit`` of a correct class's source, here ``CausalAttention``.

Axes: B sentences, T new tokens, S all tokens so far, C width, H heads, G key-value heads, D = C/H.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import math
import textwrap
import zlib
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.attention import masked_softmax
from mha_course.caching import KVCache, repeat_kv
from mha_course.positions import rope, rope_interleaved  # noqa: F401, used by an edit


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

        Args: mask (B, S) is True for a token and False for padding, which no token attends to; with
            a cache, x holds only the new tokens, and S also counts those in the cache; texts (B, S)
            says which text each token is from, if several are packed into one row.
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


class Edit(NamedTuple):
    """A piece of a method's source, which occurs once, and its replacement."""

    method: str
    right: str
    wrong: str

    def of(self, reference: type[nn.Module]) -> tuple[str, str]:
        """Return the method's source, original and edited."""
        source = inspect.getsource(getattr(reference, self.method))
        right, wrong = (text.replace("\n", "\n        ") for text in (self.right, self.wrong))
        return source, source.replace(right, wrong)


SINGLE = {  # the faulty versions of CausalAttention
    "key-value-swapped": Edit("project", "return q, k, v", "return q, v, k"),
    "value-through-key-projection": Edit("project", "self.v_proj", "self.k_proj"),
    "keys-detached": Edit(
        "project",
        "self.split(self.k_proj(x), self.num_kv_heads)",
        "self.split(self.k_proj(x), self.num_kv_heads).detach()",
    ),
    "view-without-transpose": Edit(
        "split", "x.size(1), heads, -1).transpose(1, 2)", "heads, x.size(1), -1)"
    ),
    "kv-repeat-interleaved-wrongly": Edit(
        "repeat",
        "repeat_kv(x, self.num_heads)",
        "x.repeat(1, self.num_heads // x.size(1), 1, 1)",
    ),
    "rope-on-values": Edit("rotate", "positions), v", "positions), rope(v, positions)"),
    "rope-on-queries-only": Edit("rotate", "rope(k, positions)", "k"),
    "rope-interleaved": Edit(
        "rotate",
        "rope(q, positions), rope(k, positions)",
        "rope_interleaved(q, positions), rope_interleaved(k, positions)",
    ),
    "positions-ignored": Edit("rotate", "start, start + q.size(2)", "q.size(2)"),
    "keys-rotated-again": Edit(
        "append",
        "return cache.append(k, v)  # (B, G, S, D)",
        "k, v = cache.append(k, v)\nreturn rope(k, torch.arange(k.size(2))), v",
    ),
    "cache-not-emptied": Edit(
        "append",
        "return cache",
        'self.cache = getattr(self, "cache", cache)\nreturn self.cache',
    ),
    "sees-itself-alone": Edit(
        "append",
        "return cache.append(k, v)  # (B, G, S, D)",
        "cache.append(k, v)\nreturn k, v",
    ),
    "causal-missing": Edit("past", ".tril(total - new)", ""),
    "causal-leaks-next": Edit("past", "tril(total - new)", "tril(total - new + 1)"),
    "causal-hides-self": Edit("past", "tril(total - new)", "tril(total - new - 1)"),
    "decode-first-key-only": Edit("past", "tril(total - new)", "tril()"),
    "window-off-by-one": Edit("past", "self.window + 1", "self.window"),
    "texts-see-each-other": Edit(
        "same_text",
        "texts[:, None, -new:, None] == texts[:, None, None]",
        "(texts > 0)[:, None, None]",
    ),
    "mask-inverted": Edit("hide", "& mask", "& ~mask"),
    "masks-or-instead-of-and": Edit("hide", "& mask", "| mask"),
    "mask-first-batch-only": Edit("hide", "mask[:, None, None]", "mask[0]"),
    "scale-missing": Edit("score", " / math.sqrt(q.size(-1))", ""),
    "scale-d-model": Edit("score", "q.size(-1)", "self.q_proj.out_features"),
    "scale-no-root": Edit("score", "math.sqrt(q.size(-1))", "q.size(-1)"),
    "scale-by-length": Edit("score", "q.size(-1)", "k.size(-2)"),
    "softmax-over-queries": Edit(
        "attend", "masked_softmax(scores, visible)", "masked_softmax(scores.mT, visible.mT).mT"
    ),
    "softmax-over-heads": Edit(
        "attend", "masked_softmax(scores, visible)", "scores.softmax(1) * visible"
    ),
    "softmax-half-precision": Edit(
        "attend",
        "masked_softmax(scores, visible)",
        "masked_softmax(scores.half(), visible).to(scores)",
    ),
    "mask-after-softmax": Edit(
        "attend", "masked_softmax(scores, visible)", "scores.softmax(-1) * visible"
    ),
    "masked-row-uniform": Edit(
        "attend",
        "masked_softmax(scores, visible)",
        "scores.masked_fill(~visible, -1e9).softmax(-1)",
    ),
    "masked-row-nan": Edit(
        "attend",
        "masked_softmax(scores, visible)",
        "scores.masked_fill(~visible, -math.inf).softmax(-1)",
    ),
    "dropout-at-eval": Edit("attend", ", self.training", ""),
    "merge-without-transpose": Edit(
        "output",
        "return self.out_proj(context.transpose(1, 2).flatten(2))",
        "sentences, _, new, _ = context.shape\n"
        "return self.out_proj(context.reshape(sentences, new, -1))",
    ),
    "merge-dim-before-heads": Edit("output", "transpose(1, 2)", "permute(0, 2, 3, 1)"),
    "merge-batch-mixed": Edit(
        "output",
        "return self.out_proj(context.transpose(1, 2).flatten(2))",
        "rows = context.permute(2, 0, 1, 3).flatten(0, 1)\n"
        "return self.out_proj(rows.reshape(context.size(0), context.size(2), -1))",
    ),
    "output-projection-missing": Edit(
        "output",
        "self.out_proj(context.transpose(1, 2).flatten(2))",
        "context.transpose(1, 2).flatten(2)",
    ),
}

INNOCENT = "no-mistake"
INNOCENTS = {  # unusual but right: a comment, which a case's source does not show, says why
    f"{INNOCENT}/fused": [
        Edit(
            "project",
            "q = self.split(self.q_proj(x), self.num_heads)  # (B, H, T, D)\n"
            "k = self.split(self.k_proj(x), self.num_kv_heads)  # (B, G, T, D)\n"
            "v = self.split(self.v_proj(x), self.num_kv_heads)  # (B, G, T, D)\n",
            "weight = torch.cat((self.k_proj.weight, self.q_proj.weight, self.v_proj.weight))\n"
            "bias = torch.cat((self.k_proj.bias, self.q_proj.bias, self.v_proj.bias))\n"
            "width = self.k_proj.out_features\n"
            "joined = F.linear(x, weight, bias)  # (B, T, C + 2·G·D)\n"
            "# the same: as they were joined\n"
            "k, q, v = joined.split((width, x.size(-1), width), -1)\n"
            "q = self.split(q, self.num_heads)\n"
            "k, v = self.split(k, self.num_kv_heads), self.split(v, self.num_kv_heads)\n",
        )
    ],
    f"{INNOCENT}/keys-scaled": [
        Edit(
            "score",
            "k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, S)",
            "(k * k.size(-1) ** -0.5).mT  # the same: to scale keys is to scale scores",
        )
    ],
    f"{INNOCENT}/one-call": [
        Edit(
            "mix",
            "return self.attend(self.score(q, k), visible) @ v  # (B, H, T, D)",
            "some = visible.any(-1, keepdim=True)\n"
            "dropout = 0.1 if self.training else 0.0\n"
            "context = F.scaled_dot_product_attention(q, k, v, visible | ~some, dropout)\n"
            "# the same: rows that see nothing are opened, and emptied afterwards\n"
            "return context * some",
        )
    ],
    f"{INNOCENT}/mask-added": [
        Edit(
            "attend",
            "weights = masked_softmax(scores, visible)  # (B, H, T, S)",
            "some = visible.any(-1, keepdim=True)\n"
            "hidden = torch.zeros_like(scores).masked_fill(~visible & some, -math.inf)\n"
            "weights = (scores + hidden).softmax(-1) * some  # the same: no row is -inf alone",
        )
    ],
    f"{INNOCENT}/shifted": [
        Edit("rotate", "q.size(2))", "q.size(2)) + 1  # the same: only differences count"),
        Edit(
            "score",
            "return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, S)",
            "root = q.size(-1) ** 0.25  # the same: two roots make one\n"
            'return torch.einsum("bhsd,bhtd->bhts", k / root, q / root)',
        ),
        Edit(
            "attend",
            "weights = masked_softmax(scores, visible)  # (B, H, T, S)",
            "smallest = torch.finfo(scores.dtype).min\n"
            "# the same: rows that see nothing are emptied\n"
            "weights = scores.masked_fill(~visible, smallest).softmax(-1) * visible",
        ),
    ],
}
MADE = {name: [edit] for name, edit in SINGLE.items()} | INNOCENTS

PAIRS = (  # pairs in different methods, each recognisable next to the other
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


def edits_of(*names: str) -> list[Edit]:
    """Return the edits of these cases to CausalAttention."""
    return [edit for name in names for edit in MADE[name]]


def methods(*names: str) -> list[str]:
    """Return the methods that these cases replace."""
    return [edit.method for edit in edits_of(*names)]


def faulty(*names: str) -> type[CausalAttention]:
    """Return attention with these mistakes, no two in the same method."""
    return compiled(CausalAttention, *edits_of(*names))


def compiled(reference: type[nn.Module], *edits: Edit) -> Any:
    """Compile the edited source into a class, always called Attention."""
    text = _edited(reference, edits)
    file = f"<attention {zlib.crc32(text.encode()):08x}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), globals(), names)
    return names["Attention"]


def listing(reference: type[nn.Module], *edits: Edit, init: bool = False) -> str:
    """Return the edited source as learners see it: no annotations, docstrings or comments.

    Args: init keeps ``__init__``.
    """
    text = _edited(reference, edits)
    lines, source = text.splitlines(), ["class Attention(nn.Module):"]
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or (function.name == "__init__" and not init):
            continue
        for argument in function.args.args:
            argument.annotation = None
        body = function.body[1:] if ast.get_docstring(function) else function.body
        written = lines[body[0].lineno - 1 : function.end_lineno]
        code = [line.partition("  # ")[0].rstrip() for line in written]
        source += [
            f"    def {function.name}({ast.unparse(function.args)}):",
            *filter(None, code),
            "",
        ]
    return "\n".join(source)


def diff(reference: type[nn.Module], *edits: Edit) -> str:
    """Return the edited methods as a diff, with ``- `` before right lines, ``+ `` before others."""
    lines = []
    for edit in edits:
        right, wrong = (textwrap.dedent(text).splitlines() for text in edit.of(reference))
        lines += [line for line in difflib.ndiff(right, wrong) if not line.startswith("?")]
    return "\n".join(lines)


def _edited(reference: type[nn.Module], edits: tuple[Edit, ...]) -> str:
    text = inspect.getsource(reference)
    for edit in edits:
        text = text.replace(*edit.of(reference))
    return text.replace(f"class {reference.__name__}", "class Attention", 1)
