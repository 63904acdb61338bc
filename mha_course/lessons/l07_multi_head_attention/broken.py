"""Two typical modules, and five copies of them with one line wrong each.

Axes: B sentences, T = S tokens, C width, H heads, D = C / H.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_course.experiments.faulty_attention import Edit


class Fused(nn.Module):
    """Project to q, k and v with one Linear."""

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")
        self.num_heads = num_heads
        self.dropout = dropout
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        batch, tokens, width = x.shape
        head_dim = width // self.num_heads
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q = q.view(batch, tokens, self.num_heads, head_dim).transpose(1, 2)
        k = k.view(batch, tokens, self.num_heads, head_dim).transpose(1, 2)
        v = v.view(batch, tokens, self.num_heads, head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(head_dim)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, self.dropout, self.training)
        context = weights @ v
        merged = context.transpose(1, 2).reshape(batch, tokens, width)
        return self.out_proj(merged)


class Methods(nn.Module):
    """Give each step a method."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def split_heads(self, x: Tensor) -> Tensor:
        """Cut (B, S, C) into (B, H, S, D)."""
        batch, tokens, width = x.shape
        head_dim = width // self.num_heads
        return x.view(batch, tokens, self.num_heads, head_dim).transpose(1, 2)

    def combine_heads(self, x: Tensor) -> Tensor:
        """Join (B, H, S, D) to (B, S, C)."""
        batch, _, tokens, _ = x.shape
        return x.transpose(1, 2).contiguous().view(batch, tokens, self.d_model)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Map three (B, H, S, D) to the context (B, H, S, D)."""
        head_dim = q.size(-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(head_dim)
        hidden = torch.zeros_like(scores)
        if mask is not None:
            hidden = hidden.masked_fill(~mask, -torch.inf)
        weights = torch.softmax(scores + hidden, dim=-1)
        return torch.matmul(weights, v)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        v = self.split_heads(self.v_proj(x))
        context = self.attend(q, k, v, mask)
        return self.out_proj(self.combine_heads(context))


class Case(NamedTuple):
    """A module with one line wrong: the mistake's id, the right class, and the edit."""

    mistake: str
    reference: type[nn.Module]
    edit: Edit


CASES = {
    1: Case(
        "merge-without-transpose",
        Fused,
        Edit("forward", "context.transpose(1, 2).reshape(", "context.reshape("),
    ),
    2: Case("scale-d-model", Methods, Edit("attend", "sqrt(head_dim)", "sqrt(self.d_model)")),
    3: Case(
        "wrong-unpack-order",
        Fused,
        Edit("forward", "q, k, v = self.qkv_proj", "q, v, k = self.qkv_proj"),
    ),
    4: Case(
        "view-without-transpose",
        Methods,
        Edit(
            "split_heads",
            "(batch, tokens, self.num_heads, head_dim).transpose(1, 2)",
            "(batch, self.num_heads, tokens, head_dim)",
        ),
    ),
    5: Case(
        "mask-after-softmax",
        Methods,
        Edit(
            "attend",
            "torch.softmax(scores + hidden, dim=-1)",
            "torch.softmax(scores, dim=-1) * (hidden == 0)",
        ),
    ),
}
