"""The architectures of published models, on the attention of the course: GPT-2, BERT and Llama.

Each is built from the settings of a ``config.json``, with their published names; ``checkpoints``
gives it numbers.

Axes: B sentences, S tokens, C width, V words in the vocabulary, L layers, H query heads, G
key-value heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mha_course.attention import AttentionModule
from mha_course.caching import KVCache
from mha_course.errors import SentenceError, require, require_bool, require_int, require_shape
from mha_course.masks import causal_mask
from mha_course.models.blocks import Encoder, TokenModel
from mha_course.models.training import threads
from mha_course.positions import rope

Config = Mapping[str, Any]
Value = TypeVar("Value", str, bool, float)

TANH_GELU = nn.GELU("tanh")
ACTIVATIONS = {
    "gelu": nn.GELU(), "gelu_new": TANH_GELU, "gelu_fast": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "relu": nn.ReLU(), "silu": nn.SiLU(), "swish": nn.SiLU(),
}  # fmt: skip


class PublishedModel(TokenModel):
    """What the families share: ids go through an encoder of the course, and logits come out.

    A mask is bool, True = a token; what it hides nobody attends to, but it takes up a position.
    """

    causal = True
    max_len: int | None = None
    num_threads: int | None = None
    to_words: nn.Module

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Map ids (B, S), which follow start others, to what enters the first layer, (B, S, C)."""
        del start
        return self.token_embedding(ids)  # (B, S, C)

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, caches: Sequence[KVCache] | None = None
    ) -> Tensor:
        """Map ids (B, S), with a mask (B, S) of tokens that are no padding, to logits (B, S, V).

        With caches (see new_caches) ids are the new tokens alone, of a causal model; mask is None.

        Raises: ShapeError; SentenceError for more tokens than there are positions.
        """
        start = caches[0].length if caches else 0
        if caches:
            place = type(self).__name__
            rule = "caches are for causal models, and without a mask"
            require(self.causal and mask is None, place, rule, expected="no caches", got="caches")
        may_attend = self._may_attend(ids, mask, start)
        with threads(self.num_threads):
            return self.to_words(self.encoder(self.embed(ids, start), may_attend, caches))

    def new_caches(self) -> list[KVCache]:
        """Return an empty cache for each layer."""
        return [KVCache() for _ in self.blocks]

    def attention_weights(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S); Args as for forward."""
        may_attend = self._may_attend(ids, mask)
        with threads(self.num_threads):
            return self.encoder.attention_weights(self.embed(ids), may_attend)

    def _may_attend(self, ids: Tensor, mask: Tensor | None, start: int = 0) -> Tensor | None:
        """Check the inputs and return the mask of the attention, (S, S) or (B, 1, S, S)."""
        place = type(self).__name__
        words = self.token_embedding.num_embeddings
        self.require_here("ids", ids)
        require_shape(place, "ids", ids, {"B": None, "S": None})
        rule = "ids must be whole numbers"
        whole = ids.dtype in (torch.int32, torch.int64)
        require(whole, place, rule, expected="int64", got=str(ids.dtype), fix="ids.long()")
        in_range = ids.numel() > 0 and bool(((ids >= 0) & (ids < words)).all())
        rule = "each id must be that of a word"
        got = f"{ids.min().item()} to {ids.max().item()}" if ids.numel() else "none"
        require(in_range, place, rule, expected=f"0 <= id < {words}", got=got)
        length = start + ids.size(1)
        if self.max_len is not None and length > self.max_len:
            rule = "the sentence is too long"
            expected = f"S <= {self.max_len}"
            raise SentenceError(place, rule, expected=expected, got=f"S={length}")
        causal = causal_mask(ids.size(1), device=ids.device) if self.causal else None  # (S, S)
        if mask is None:
            return causal
        fix = "mask.bool() if it holds 1 for a token"
        require_bool(place, mask, what="bool, True = a token", fix=fix)
        self.require_here("mask", mask)
        require_shape(place, "mask", mask, {"B": ids.size(0), "S": ids.size(1)})
        padding = mask[:, None, None].expand(-1, 1, ids.size(1), -1)  # (B, 1, S, S)
        return padding if causal is None else padding & causal


class GPT2(PublishedModel):
    """Pre-norm, learned positions, and one stored projection for queries, keys and values.

    Reference: Radford et al. 2019, GPT-2, section 2.3.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        words, self.max_len, width = sizes(config, "vocab_size", "n_positions", "n_embd")
        heads, layers = sizes(config, "n_head", "n_layer")
        (inner,) = sizes(config, "n_inner", n_inner=4 * width)
        activation = _activation(config, "activation_function", "gelu_new")
        eps = setting(config, "layer_norm_epsilon", 1e-5)
        self.token_embedding = nn.Embedding(words, width)
        self.position_embedding = nn.Embedding(self.max_len, width)
        self.encoder = _encoder(Encoder(width, heads, inner, layers), activation, eps)
        self.to_words = nn.Linear(width, words, bias=False)

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Add what each token is to where it stands, (B, S, C)."""
        positions = self.position_embedding.weight[start : start + ids.size(1)]  # (S, C)
        return self.token_embedding(ids) + positions  # (B, S, C)


class BERT(PublishedModel):
    """Post-norm; all tokens are of type 0 and see each other; a head guesses masked words.

    Reference: Devlin et al. 2019, BERT, section 3.
    """

    causal = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        words, self.max_len = sizes(config, "vocab_size", "max_position_embeddings")
        width, heads = sizes(config, "hidden_size", "num_attention_heads")
        layers, inner = sizes(config, "num_hidden_layers", "intermediate_size")
        (types,) = sizes(config, "type_vocab_size", type_vocab_size=2)
        activation = _activation(config, "hidden_act", "gelu")
        eps = setting(config, "layer_norm_eps", 1e-12)
        self.token_embedding = nn.Embedding(words, width)
        self.position_embedding = nn.Embedding(self.max_len, width)
        self.type_embedding = nn.Embedding(types, width)
        self.norm = nn.LayerNorm(width, eps)
        self.encoder = _encoder(
            Encoder(width, heads, inner, layers, norm_first=False), activation, eps
        )
        dense = nn.Linear(width, width)
        norm = nn.LayerNorm(width, eps)
        self.to_words = nn.Sequential(dense, activation, norm, nn.Linear(width, words))

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Add token, position and type 0 embeddings, then normalise, (B, S, C)."""
        positions = self.position_embedding.weight[start : start + ids.size(1)]  # (S, C)
        x = self.token_embedding(ids) + positions + self.type_embedding.weight[0]  # (B, S, C)
        return self.norm(x)  # (B, S, C)


class Llama(PublishedModel):
    """Pre-norm with RMSNorm, queries and keys turned by RoPE, shared key-value heads, SwiGLU.

    Reference: Touvron et al. 2023, LLaMA, section 2.2; Ainslie et al. 2023, GQA, section 2.2.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        words, width, heads = sizes(config, "vocab_size", "hidden_size", "num_attention_heads")
        layers, inner = sizes(config, "num_hidden_layers", "intermediate_size")
        (kv_heads,) = sizes(config, "num_key_value_heads", num_key_value_heads=heads)
        (head_dim,) = sizes(config, "head_dim", head_dim=width // heads)
        rule = "num_key_value_heads must divide num_attention_heads"
        got = f"{kv_heads} and {heads}"
        require(heads % kv_heads == 0, "load", rule, expected="a divisor", got=got)
        rule = "head_dim must be even"
        got = f"head_dim={head_dim}"
        require(head_dim % 2 == 0, "load", rule, expected="head_dim % 2 == 0", got=got)
        activation = _activation(config, "hidden_act", "silu")
        eps = setting(config, "rms_norm_eps", 1e-6)
        base = _rope_base(config)
        bias = setting(config, "attention_bias", False)
        mlp_bias = setting(config, "mlp_bias", False)
        self.token_embedding = nn.Embedding(words, width)
        self.encoder = Encoder(width, heads, inner, layers)
        for block in self.encoder.blocks:
            block.add_module("norm1", nn.RMSNorm(width, eps))
            block.add_module("norm2", nn.RMSNorm(width, eps))
            attention = RotaryAttention(width, heads, kv_heads, head_dim, bias=bias, base=base)
            block.add_module("attention", attention)
            feed_forward = GatedFeedForward(width, inner, activation, bias=mlp_bias)
            block.add_module("feed_forward", feed_forward)
        self.encoder.add_module("norm", nn.RMSNorm(width, eps))
        self.to_words = nn.Linear(width, words, bias=False)


class RotaryAttention(AttentionModule):
    """Rotate queries and keys by their positions, and let G key-value heads serve H query heads.

    Args: width is C; D = head_dim need not be C / H; base is that of rope.
    """

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, head_dim: int,
        *, bias: bool, base: float,
    ) -> None:  # fmt: skip
        super().__init__(width, num_heads, num_kv_heads, head_dim, bias=bias)
        self.base = base

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, start: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return q (B, H, T, D), k and v (B, G, S, D) of tokens that come after start others."""
        q, k, v = super().project(query, key, value)
        return self._rotate(q, start), self._rotate(k, start), v

    def _rotate(self, x: Tensor, start: int) -> Tensor:
        positions = torch.arange(start, start + x.size(2), device="cpu")  # (S,), where rope works
        return rope(x, positions, self.base)


class GatedFeedForward(nn.Module):
    """Let one projection decide how much of another passes: outer(activation(gate(x)) * inner(x)).

    Reference: Shazeer 2020, GLU Variants Improve Transformer, section 2.
    """

    def __init__(self, width: int, d_ff: int, activation: nn.Module, *, bias: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(width, d_ff, bias=bias)
        self.inner = nn.Linear(width, d_ff, bias=bias)
        self.outer = nn.Linear(d_ff, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to (B, S, C)."""
        return self.outer(self.activation(self.gate(x)) * self.inner(x))  # (B, S, C)


def _encoder(encoder: Encoder, activation: nn.Module, eps: float) -> Encoder:
    """Give all norms of an encoder their eps, and its feed-forward parts their activation."""
    for norm in encoder.modules():
        if isinstance(norm, nn.LayerNorm):
            norm.eps = eps
    for block in encoder.blocks:
        block.feed_forward[1] = activation
    return encoder


def sizes(config: Config, *names: str, **defaults: int) -> list[int]:
    """Return settings that are positive ints, or the default where one is absent or null."""
    given = defaults | {name: value for name, value in config.items() if value is not None}
    for name in names:
        require_int("load", name, given.get(name))  # type: ignore[arg-type]
    return [given[name] for name in names]


def setting(config: Config, name: str, default: Value) -> Value:
    """Return a setting, or the default where it is absent or null."""
    value = config.get(name)
    if value is None:
        return default
    fits = type(value) in ((float, int) if isinstance(default, float) else (type(default),))
    rule = f"{name} of config.json has the wrong type"
    expected = f"a {type(default).__name__}"
    require(fits, "load", rule, expected=expected, got=f"{name}={value!r}")
    return value


def _activation(config: Config, name: str, default: str) -> nn.Module:
    activation = setting(config, name, default)
    rule = f"{name} of config.json is not known"
    is_known = activation in ACTIVATIONS
    require(is_known, "load", rule, expected=listed(ACTIVATIONS), got=repr(activation))
    return ACTIVATIONS[activation]


def _rope_base(config: Config) -> float:
    """Return the base of RoPE, which stands at the top of the config, or in a part of its own."""
    options = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = None
    if isinstance(options, dict):
        kind = options.get("rope_type", options.get("type", "default"))
    plain = kind == "default" and options.get("partial_rotary_factor") in (None, 1)
    rule = "this kind of RoPE is not supported"
    expected = "rope_type 'default', of whole heads"
    require(plain, "load", rule, expected=expected, got=repr(options))
    base = setting(options, "rope_theta", setting(config, "rope_theta", 10000.0))
    rule = "rope_theta must be positive"
    require(base > 0, "load", rule, expected="rope_theta > 0", got=str(base))
    return base


def listed(names: Iterable[str]) -> str:
    """Write names one after the other, the first few of many."""
    first, *others = [", ".join(list(names)[:4]) or "none", *list(names)[4:]]
    return f"{first} and {len(others)} more" if others else first
