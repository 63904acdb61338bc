"""Three more ways to write multi-head attention, besides those of ``variants``.

Axes: B batch, T query tokens, S key and value tokens, C width, H heads, D = C / H.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course import plots
from mha_course.attention import MultiHeadAttention
from mha_course.errors import require_module_inputs
from mha_course.sources import plain_source
from mha_course.variants import VARIANTS, Variant, copy_linears, has_bias


class _Head(nn.Module):
    """One head with its own Linears."""

    def __init__(self, width: int, head_dim: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, head_dim)
        self.k_proj = nn.Linear(width, head_dim)
        self.v_proj = nn.Linear(width, head_dim)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_proj(x)  # (B, S, D) each
        k = self.k_proj(x)  # (B, S, D) each
        v = self.v_proj(x)  # (B, S, D) each
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, S, S)
        return scores.softmax(dim=-1) @ v  # (B, S, D)


class ListOfHeads(Variant):
    """Make each head its own module and join the results: the paper's formula.

    Args: d_model is C, num_heads divides it.
    """

    _width_name = "d_model"

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.heads = nn.ModuleList(_Head(d_model, self.head_dim) for _ in range(num_heads))
        self.out_proj = nn.Linear(d_model, d_model)

    @classmethod
    @torch.no_grad()
    def from_reference(cls, mha: MultiHeadAttention) -> Self:
        """Return a module with the reference's weights, dtype, device and mode: D rows per head."""
        module = cls._like(mha).to(mha.q_proj.weight)
        for name in ("q_proj", "k_proj", "v_proj"):
            source = getattr(mha, name)
            targets = [getattr(head, name) for head in module.heads]
            bias = torch.zeros_like(source.weight[:, 0]) if source.bias is None else source.bias
            weights = source.weight.split(module.head_dim)
            biases = bias.split(module.head_dim)
            for target, weight, rows in zip(targets, weights, biases, strict=True):
                target.load_state_dict({"weight": weight, "bias": rows})
        copy_linears([mha.out_proj], module.out_proj.weight, module.out_proj.bias)
        return module.train(mha.training)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        require_module_inputs(type(self).__name__, self.out_proj.weight, {"x": x})
        merged = torch.cat([head(x) for head in self.heads], dim=-1)  # (B, S, C)
        return self.out_proj(merged)


class Einsum(Variant):
    """Name every axis with a letter: einsum splits, transposes and merges.

    Args: d_model is C, num_heads divides it. q, k and v have no bias.
    """

    _targets = ("W_Q", "W_K", "W_V", "W_O")
    _width_name = "d_model"

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.W_Q = nn.Linear(d_model, d_model, bias=False)
        self.W_K = nn.Linear(d_model, d_model, bias=False)
        self.W_V = nn.Linear(d_model, d_model, bias=False)
        self.W_O = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        require_module_inputs(type(self).__name__, self.W_Q.weight, {"x": x})
        heads = (self.num_heads, self.head_dim)
        q = torch.einsum("bsc,hdc->bhsd", x, self.W_Q.weight.unflatten(0, heads))  # (B, H, S, D)
        k = torch.einsum("bsc,hdc->bhsd", x, self.W_K.weight.unflatten(0, heads))  # (B, H, S, D)
        v = torch.einsum("bsc,hdc->bhsd", x, self.W_V.weight.unflatten(0, heads))  # (B, H, S, D)
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(self.head_dim)  # (B, H, S, S)
        context = torch.einsum("bhts,bhsd->bthd", scores.softmax(dim=-1), v)  # (B, S, H, D)
        w_o = self.W_O.weight.unflatten(1, heads)  # (C, H, D)
        return torch.einsum("bthd,chd->btc", context, w_o) + self.W_O.bias


class FusedKernel(Variant):
    """Project with one Linear and leave the middle to PyTorch's fused kernel, the usual way today.

    Args: d_model is C, num_heads divides it, bias is for both Linears, dropout the fraction of
        weights dropped in training.
    """

    _targets = ("qkv_proj", "qkv_proj", "qkv_proj", "out_proj")
    _width_name = "d_model"

    def __init__(
        self, d_model: int, num_heads: int, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, num_heads)
        self.dropout = dropout
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    @classmethod
    def _like(cls, mha: MultiHeadAttention) -> Self:
        return cls(mha.d_model, mha.num_heads, bias=has_bias(mha), dropout=mha.dropout)

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        """Map x (B, S, C) to out (B, S, C); is_causal=True hides later tokens."""
        require_module_inputs(type(self).__name__, self.qkv_proj.weight, {"x": x})
        batch, tokens, width = x.shape
        q, k, v = self.qkv_proj(x).split(width, dim=2)  # (B, S, C) each
        q = q.view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)  # (B, H, S, D)
        k = k.view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)  # (B, H, S, D)
        v = v.view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)  # (B, H, S, D)
        p = self.dropout if self.training else 0.0  # the kernel cannot know which it is
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=is_causal)
        merged = context.transpose(1, 2).reshape(batch, tokens, width)  # (B, S, C)
        return self.out_proj(merged)


STYLES: dict[str, type[Variant]] = {
    "ListOfHeads": ListOfHeads, **VARIANTS, "Einsum": Einsum, "FusedKernel": FusedKernel,
}  # fmt: skip


def source(name: str) -> str:
    """Return the source of one of STYLES: its methods without docstrings and checks.

    >>> print(source("ListOfHeads").splitlines()[-1].strip())
    return self.out_proj(merged)
    """
    classes = []
    for cls in (_Head, ListOfHeads) if name == "ListOfHeads" else (STYLES[name],):
        methods = [method for method in vars(cls).values() if inspect.isfunction(method)]
        code = [plain_source(method) for method in methods if method.__name__ != "__init__"]
        classes.append(f"class {cls.__name__.strip('_')}:\n" + "\n".join(code))
    return "\n".join(classes)


# For each style: what it is, what to find in its source, and the answer.
FIND = {
    "ListOfHeads": (
        "a list of heads, as in many first lectures",
        "where are the heads split?",
        "Nowhere. Each head is a module with its own Linears, from C to D; torch.cat lays "
        "the results side by side. It is the formula of the paper, Concat(head_1 … "
        "head_H) W_O, and a loop over the heads.",
    ),
    "ReturnsWeights": (
        "three Linears, and the weights returned",
        "the one word that copies memory although nothing is computed.",
        "contiguous(). After the transpose the heads of a token do not lie side by "
        "side, so view cannot join them.",
    ),
    "SplitCombine": (
        "a method for each step, a mask, three inputs",
        "what is computed and thrown away?",
        "The weights: context, _ = … keeps only the first result. This style can "
        "also ask one sentence and look at another: Q from here, K and V from there "
        "(lesson 9).",
    ),
    "PermuteView": (
        "view and permute, as in vision code",
        "the line that undoes permute(0, 2, 1, 3), and with what.",
        "merged = … with the same permute(0, 2, 1, 3): swapping two axes twice changes nothing.",
    ),
    "FusedQKV": (
        "one Linear of width 3C",
        "the two lines that would have to change if the rows were stacked head by head.",
        "reshape(batch, tokens, 3, …), where the 3 before the heads says that all of q "
        "comes first (lesson 2), and the line below it, which takes the 3 apart.",
    ),
    "FoldedHeads": (
        "heads folded into the batch",
        "where does an axis vanish, and where does it come back?",
        "flatten(0, 1) makes B · H small problems of B sentences with H heads; "
        "context.view(…) takes them apart again. bmm needs three axes.",
    ),
    "Einsum": (
        "a letter for each axis",
        "which letter is summed over in the scores, and how do you see it?",
        "d: it is on the left of the arrow, but not on its right. Transposes and the merge "
        "are gone: the order of the letters does both. TransformerLens, a tool for looking into "
        "models, keeps its parameters by head, (H, C, D), and W_O as (H, D, C).",
    ),
    "FusedKernel": (
        "one Linear and one call, as models are shipped",
        "where is the scale, and what is p in evaluation?",
        "Inside the call, and 0. nanoGPT's model.py reads almost the same, line by line.",
    ),
}


def show_listings(names: Iterable[str]) -> None:
    """Show the source of some styles, folded, each with one thing to find."""
    listings = []
    for name in names:
        about, find, answer = FIND[name]
        listings.append(plots.Listing(f"{name}: {about}", find, answer, source(name)))
    plots.listings(*listings)
