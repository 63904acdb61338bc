"""Five common ways to write multi-head attention, and a single head, all equivalent.

VARIANTS are those in the course's sources, with their signatures and names.

Axes: B batch, T query tokens, S key and value tokens, C width, H heads, D = C / H. Each class keeps
its source's names; ``from_reference`` gives it a reference module's weights. Inputs that do not fit
raise ShapeError.
"""

from __future__ import annotations

import math
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from mha_course.attention import MultiHeadAttention, attention
from mha_course.errors import require, require_heads, require_module_inputs


class SelfAttention(nn.Module):
    """Attend with a single head as wide as the tokens: no bias, no output Linear.

    Args: embed_size is C.
    """

    def __init__(self, embed_size: int) -> None:
        super().__init__()
        require_heads("SelfAttention", embed_size, 1, "embed_size")
        self.W_q = nn.Linear(embed_size, embed_size, bias=False)
        self.W_k = nn.Linear(embed_size, embed_size, bias=False)
        self.W_v = nn.Linear(embed_size, embed_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x (B, S, C) to context (B, S, C) and weights (B, S, S)."""
        require_module_inputs(type(self).__name__, self.W_q.weight, {"x": x})
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)  # (B, S, C) each
        scores = q @ k.transpose(1, 2) / math.sqrt(q.size(-1))  # (B, S, S)
        weights = torch.softmax(scores, dim=-1)  # (B, S, S)
        return weights @ v, weights


class Variant(nn.Module):
    """The base of all styles: heads that divide the width, and a reference's weights."""

    _targets: ClassVar[tuple[str, str, str, str]]  # the Linears that hold W_Q, W_K, W_V and W_O
    _width_name: ClassVar[str]

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        require_heads(type(self).__name__, width, num_heads, self._width_name)
        self.num_heads = num_heads
        self.head_dim = width // num_heads

    @classmethod
    def _like(cls, mha: MultiHeadAttention) -> Self:
        return cls(mha.d_model, mha.num_heads)

    @classmethod
    def from_reference(cls, mha: MultiHeadAttention) -> Self:
        """Return a module with the reference's weights, dtype, device and mode, without dropout.

        Raises: ShapeError if the reference has a bias that this style lacks.
        """
        variant = cls._like(mha).to(mha.q_proj.weight)
        sources = (mha.q_proj, mha.k_proj, mha.v_proj, mha.out_proj)
        for name in dict.fromkeys(cls._targets):
            target = getattr(variant, name)
            pairs = zip(cls._targets, sources, strict=True)
            linears = [source for target_name, source in pairs if target_name == name]
            fits = target.bias is not None or all(linear.bias is None for linear in linears)
            rule = "q, k and v have no bias in this style"
            expected = "q_proj, k_proj and v_proj without bias"
            fix = "MultiHeadAttention(d_model, num_heads, bias=False)"
            require(fits, cls.__name__, rule, expected=expected, got="a bias", fix=fix)
            copy_linears(linears, target.weight, target.bias)
        return variant.train(mha.training)


class FusedQKV(Variant):
    """Project q, k and v with one Linear of width 3C, then unpack them.

    Args: hidden_size is C, num_heads divides it, bias is for both Linears.
    """

    _targets = ("Wqkv", "Wqkv", "Wqkv", "Wo")
    _width_name = "hidden_size"

    def __init__(self, hidden_size: int, num_heads: int, bias: bool = True) -> None:
        super().__init__(hidden_size, num_heads)
        self.Wqkv = nn.Linear(hidden_size, 3 * hidden_size, bias=bias)
        self.Wo = nn.Linear(hidden_size, hidden_size, bias=bias)

    @classmethod
    def _like(cls, mha: MultiHeadAttention) -> Self:
        return cls(mha.d_model, mha.num_heads, bias=has_bias(mha))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        require_module_inputs(type(self).__name__, self.Wqkv.weight, {"x": x})
        batch, tokens, width = x.shape
        # The 3 comes first: rows 0 to C - 1 of Wqkv are W_Q, unlike in GPT-NeoX's (H, 3, D).
        heads = (3, self.num_heads, self.head_dim)
        qkv = self.Wqkv(x).reshape(batch, tokens, *heads)  # (B, S, 3, H, D)
        q, k, v = qkv.transpose(3, 1).unbind(dim=2)  # (B, H, S, D) each
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, S, S)
        context = torch.softmax(scores, dim=-1) @ v  # (B, H, S, D)
        merged = context.transpose(1, 2).reshape(batch, tokens, width)  # (B, S, C)
        return self.Wo(merged)


class ReturnsWeights(Variant):
    """Project with three Linears and also return the weights, for pictures.

    Args: embed_size is C, num_heads divides it.
    """

    _targets = ("W_q", "W_k", "W_v", "fc_out")
    _width_name = "embed_size"

    def __init__(self, embed_size: int, num_heads: int) -> None:
        super().__init__(embed_size, num_heads)
        self.W_q = nn.Linear(embed_size, embed_size)
        self.W_k = nn.Linear(embed_size, embed_size)
        self.W_v = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Map X (B, S, C) to out (B, S, C) and weights (B, H, S, S)."""
        require_module_inputs(type(self).__name__, self.W_q.weight, {"X": X})
        batch, tokens, width = X.shape
        heads = (batch, tokens, self.num_heads, self.head_dim)
        q = self.W_q(X).view(heads).transpose(1, 2)  # (B, H, S, D)
        k = self.W_k(X).view(heads).transpose(1, 2)  # (B, H, S, D)
        v = self.W_v(X).view(heads).transpose(1, 2)  # (B, H, S, D)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim)  # (B, H, S, S)
        attention_weights = torch.softmax(scores, dim=-1)  # (B, H, S, S)
        context = torch.matmul(attention_weights, v)  # (B, H, S, D)
        # view alone would raise: transposed heads are side by side in memory only after a copy.
        merged = context.transpose(1, 2).contiguous().view(batch, tokens, width)  # (B, S, C)
        return self.fc_out(merged), attention_weights


class SplitCombine(Variant):
    """Take separate query, key and value, and a mask with 0 = hidden; one method per step.

    Args: d_model is C, num_heads divides it.
    """

    _targets = ("W_q", "W_k", "W_v", "W_o")
    _width_name = "d_model"

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def scaled_dot_product_attention(
        self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return context (B, H, T, D) and weights (B, H, T, S), for a mask of any dtype."""
        # Usually masked_fill(mask == 0, -1e9), which gives the values' mean if no key is visible.
        return attention(Q, K, V, None if mask is None else mask != 0)

    def split_heads(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to (B, H, S, D)."""
        batch, tokens, _ = x.size()
        return x.view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)  # (B, H, S, D)

    def combine_heads(self, x: Tensor) -> Tensor:
        """Map x (B, H, S, D) to (B, S, C)."""
        batch, _, tokens, _ = x.size()
        width = self.num_heads * self.head_dim
        return x.transpose(1, 2).contiguous().view(batch, tokens, width)  # (B, S, C)

    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map Q (B, T, C), K and V (B, S, C) to out (B, T, C)."""
        seen = None if mask is None else mask != 0
        require_module_inputs(
            "SplitCombine", self.W_q.weight, {"Q": Q, "K": K, "V": V}, self.num_heads, seen
        )
        q = self.split_heads(self.W_q(Q))  # (B, H, T, D)
        k = self.split_heads(self.W_k(K))  # (B, H, S, D)
        v = self.split_heads(self.W_v(V))  # (B, H, S, D)
        context, _ = self.scaled_dot_product_attention(q, k, v, seen)  # (B, H, T, D)
        return self.W_o(self.combine_heads(context))


class PermuteView(Variant):
    """Split with view and permute, merge with permute, contiguous and view, as in vision code.

    Args: hidden_dim is C, num_heads divides it. Tokens are image patches there.
    """

    _targets = ("q_linear", "k_linear", "v_linear", "out_linear")
    _width_name = "hidden_dim"

    def __init__(self, hidden_dim: int, num_heads: int) -> None:
        super().__init__(hidden_dim, num_heads)
        self.q_linear = nn.Linear(hidden_dim, hidden_dim)
        self.k_linear = nn.Linear(hidden_dim, hidden_dim)
        self.v_linear = nn.Linear(hidden_dim, hidden_dim)
        self.out_linear = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to out (B, S, C)."""
        require_module_inputs(type(self).__name__, self.q_linear.weight, {"x": x})
        batch, tokens, width = x.shape
        heads = (batch, tokens, self.num_heads, self.head_dim)
        q = self.q_linear(x).view(heads).permute(0, 2, 1, 3)  # (B, H, S, D)
        k = self.k_linear(x).view(heads).permute(0, 2, 1, 3)  # (B, H, S, D)
        v = self.v_linear(x).view(heads).permute(0, 2, 1, 3)  # (B, H, S, D)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5  # (B, H, S, S)
        context = scores.softmax(dim=-1) @ v  # (B, H, S, D)
        merged = context.permute(0, 2, 1, 3).contiguous().view(batch, tokens, width)  # (B, S, C)
        return self.out_linear(merged)


class FoldedHeads(Variant):
    """Fold the heads into the batch, so that plain batched matrix products do the work.

    Args: k is C, heads divides it, mask=True hides later tokens. q, k and v have no bias.
    """

    _targets = ("toqueries", "tokeys", "tovalues", "unifyheads")
    _width_name = "k"

    def __init__(self, k: int, heads: int = 4, mask: bool = False) -> None:
        super().__init__(k, heads)
        self.mask = mask
        self.toqueries = nn.Linear(k, k, bias=False)
        self.tokeys = nn.Linear(k, k, bias=False)
        self.tovalues = nn.Linear(k, k, bias=False)
        self.unifyheads = nn.Linear(k, k)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to out (B, T, C)."""
        require_module_inputs(type(self).__name__, self.toqueries.weight, {"x": x})
        queries = self._fold(self.toqueries(x))  # (B*H, T, D)
        keys = self._fold(self.tokeys(x))  # (B*H, T, D)
        values = self._fold(self.tovalues(x))  # (B*H, T, D)
        dot = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(self.head_dim)  # (B*H, T, T)
        if self.mask:
            later = torch.ones_like(dot[0], dtype=torch.bool).triu(1)  # (T, T)
            dot = dot.masked_fill(later, -math.inf)  # (B*H, T, T)
        context = torch.bmm(torch.softmax(dot, dim=2), values)  # (B*H, T, D)
        heads = context.view(x.size(0), self.num_heads, x.size(1), self.head_dim)  # (B, H, T, D)
        return self.unifyheads(heads.transpose(1, 2).reshape(x.shape))

    def _fold(self, x: Tensor) -> Tensor:
        """Split the heads and move them into the batch."""
        heads = x.view(x.size(0), x.size(1), self.num_heads, self.head_dim)  # (B, T, H, D)
        return heads.transpose(1, 2).flatten(0, 1)  # (B*H, T, D)


VARIANTS: dict[str, type[Variant]] = {
    cls.__name__: cls for cls in (FusedQKV, ReturnsWeights, SplitCombine, PermuteView, FoldedHeads)
}


def to_torch(mha: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return PyTorch's module, batch_first, with the same weights, dropout, dtype, device and mode.

    In its masks True means ignore, and it averages weights over the heads unless
    ``average_attn_weights=False``.
    """
    module = nn.MultiheadAttention(
        mha.d_model, mha.num_heads, mha.dropout, bias=has_bias(mha), batch_first=True
    )
    module.to(mha.q_proj.weight)
    copy_linears([mha.q_proj, mha.k_proj, mha.v_proj], module.in_proj_weight, module.in_proj_bias)
    copy_linears([mha.out_proj], module.out_proj.weight, module.out_proj.bias)
    return module.train(mha.training)


def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Return the reference with a PyTorch module's weights, dropout, dtype, device and mode.

    Raises: ShapeError for kdim, vdim, add_bias_kv or add_zero_attn, which the reference lacks.
    """
    extras = {
        "kdim or vdim": module.in_proj_weight is None,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
    }
    unsupported = " and ".join(name for name, present in extras.items() if present)
    rule = "the module has parts the reference lacks"
    require(not unsupported, "from_torch", rule, expected="a plain module", got=unsupported)
    state: dict[str, Tensor] = {
        f"out_proj.{kind}": parameter for kind, parameter in module.out_proj.named_parameters()
    }
    for kind, stacked in (("weight", module.in_proj_weight), ("bias", module.in_proj_bias)):
        if stacked is not None:
            names = (f"q_proj.{kind}", f"k_proj.{kind}", f"v_proj.{kind}")
            state |= zip(names, stacked.chunk(3), strict=True)
    bias = module.in_proj_bias is not None
    mha = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias, dropout=module.dropout)
    mha.to(module.out_proj.weight).load_state_dict(state)
    return mha.train(module.training)


def has_bias(mha: MultiHeadAttention) -> bool:
    """Return True if any Linear of a reference has a bias."""
    return any(linear.bias is not None for linear in mha.children())


@torch.no_grad()
def copy_linears(linears: list[nn.Linear], weight: Tensor, bias: Tensor | None) -> None:
    """Copy several Linears' parameters into one weight and bias; a missing bias counts as 0."""
    weight.copy_(torch.cat([linear.weight for linear in linears]))
    if bias is not None:
        zeros = weight.new_zeros(weight.size(1))
        bias.copy_(torch.cat([zeros if linear.bias is None else linear.bias for linear in linears]))
