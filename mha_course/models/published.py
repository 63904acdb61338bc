"""The architectures of published models, on the attention of the course: GPT-2, BERT, and Llama
with its relatives Qwen2, Qwen3 and Mistral.

Each is built from the settings of a ``config.json``, with their published names; ``checkpoints``
gives it numbers.

Axes: B sentences, S tokens, C width, V words in the vocabulary, L layers, H query heads, G
key-value heads, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mha_course.attention import AttentionModule
from mha_course.caching import KVCache
from mha_course.errors import SentenceError, require, require_bool, require_int, require_shape
from mha_course.masks import causal_mask_for_cache
from mha_course.models.blocks import Encoder, TokenModel
from mha_course.models.training import threads
from mha_course.positions import rope, rope_frequencies

Config = Mapping[str, Any]
Value = TypeVar("Value", str, bool, float)

TANH_GELU = nn.GELU("tanh")
ACTIVATIONS = {
    "gelu": nn.GELU(), "gelu_new": TANH_GELU, "gelu_fast": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "relu": nn.ReLU(), "silu": nn.SiLU(), "swish": nn.SiLU(),
}  # fmt: skip
ROPE_KINDS = {  # and the options of each, beside rope_theta
    "default": (),
    "llama3": (
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    ),
}  # fmt: skip


class PublishedModel(TokenModel):
    """What the families share: ids go through an encoder of the course, and logits come out.

    A mask is bool, True = a token; what it hides nobody attends to, but it takes up a position.
    """

    causal = True
    window: int | None = None  # how many tokens a token sees, itself among them
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
        self._check(ids, mask, start)
        may_attend, is_causal = (None, False) if caches else self._may_attend(ids, mask)
        with threads(self.num_threads):
            x = self.embed(ids, start)  # (B, S, C)
            return self.to_words(self.encoder(x, may_attend, caches, is_causal=is_causal))

    def new_caches(self) -> list[KVCache]:
        """Return an empty cache for each layer."""
        return [KVCache(self.window) for _ in self.blocks]

    def attention_weights(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S); Args as for forward."""
        self._check(ids, mask)
        may_attend, is_causal = self._may_attend(ids, mask)
        with threads(self.num_threads):
            return self.encoder.attention_weights(self.embed(ids), may_attend, is_causal=is_causal)

    def _may_attend(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return the mask of the attention, if one is needed, and whether it is causal by name."""
        length = ids.size(1)
        padding = None if mask is None or mask.all() else mask[:, None, None]  # (B, 1, 1, S)
        if padding is None and length <= (self.window or length):
            return None, self.causal
        if not self.causal:
            return padding, False
        seen = causal_mask_for_cache(length, length, window=self.window, device=ids.device)
        return seen if padding is None else padding & seen, False  # (S, S) or (B, 1, S, S)

    def _check(self, ids: Tensor, mask: Tensor | None, start: int = 0) -> None:
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
        if mask is None:
            return
        fix = "mask.bool() if it holds 1 for a token"
        require_bool(place, mask, what="bool, True = a token", fix=fix)
        self.require_here("mask", mask)
        require_shape(place, "mask", mask, {"B": ids.size(0), "S": ids.size(1)})


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

    Args: what the relatives have and their configs do not say: qkv_bias is a bias of q, k and v
        alone (Qwen2), qk_norm norms q and k in each head (Qwen3), windowed reads sliding_window
        (Mistral).
    Reference: Touvron et al. 2023, LLaMA, section 2.2; Ainslie et al. 2023, GQA, section 2.2.
    """

    def __init__(
        self, config: Config,
        *, qkv_bias: bool = False, qk_norm: bool = False, windowed: bool = False,
    ) -> None:  # fmt: skip
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
        frequencies = _rope_frequencies(config, head_dim)
        bias = qkv_bias or setting(config, "attention_bias", False)
        mlp_bias = setting(config, "mlp_bias", False)
        self.window = config.get("sliding_window", 4096) if windowed else None
        if self.window is not None:
            require_int("load", "sliding_window", self.window)
        self.token_embedding = nn.Embedding(words, width)
        self.encoder = Encoder(width, heads, inner, layers)
        for block in self.encoder.blocks:
            block.add_module("norm1", nn.RMSNorm(width, eps))
            block.add_module("norm2", nn.RMSNorm(width, eps))
            attention = RotaryAttention(
                width, heads, kv_heads, head_dim, bias=bias, frequencies=frequencies
            )
            if qkv_bias:
                attention.out_proj.register_parameter("bias", None)
            if qk_norm:
                attention.q_norm, attention.k_norm = (nn.RMSNorm(head_dim, eps) for _ in "qk")
            block.add_module("attention", attention)
            feed_forward = GatedFeedForward(width, inner, activation, bias=mlp_bias)
            block.add_module("feed_forward", feed_forward)
        self.encoder.add_module("norm", nn.RMSNorm(width, eps))
        self.to_words = nn.Linear(width, words, bias=False)


class RotaryAttention(AttentionModule):
    """Rotate queries and keys by their positions, and let G key-value heads serve H query heads.

    Args: width is C; D = head_dim need not be C / H; frequencies (D/2,) are those of rope.
    """

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, head_dim: int,
        *, bias: bool, frequencies: Tensor,
    ) -> None:  # fmt: skip
        super().__init__(width, num_heads, num_kv_heads, head_dim, bias=bias)
        self.frequencies = frequencies
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, start: int = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return q (B, H, T, D), k and v (B, G, S, D) of tokens that come after start others."""
        q, k, v = super().project(query, key, value)
        return self._rotate(self.q_norm(q), start), self._rotate(self.k_norm(k), start), v

    def _rotate(self, x: Tensor, start: int) -> Tensor:
        positions = torch.arange(start, start + x.size(2), device="cpu")  # (S,), where rope works
        return rope(x, positions, frequencies=self.frequencies)


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
    values = [
        defaults.get(name) if config.get(name) is None else config.get(name) for name in names
    ]
    for name, value in zip(names, values, strict=True):
        require_int("load", name, value)  # type: ignore[arg-type]
    return values  # type: ignore[return-value]


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


def _rope_frequencies(config: Config, head_dim: int) -> Tensor:
    """Return the frequencies of RoPE (D/2,), whose options stand in a part of the config."""
    options = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = None
    if isinstance(options, dict):
        kind = str(options.get("rope_type", options.get("type", "default")))
    known = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}.union(
        ROPE_KINDS.get(str(kind), ())
    )
    fits = kind in ROPE_KINDS and options.keys() <= known
    fits = fits and options.get("partial_rotary_factor") in (None, 1)
    rule = "this kind of RoPE is not supported"
    expected = f"rope_type {' or '.join(map(repr, ROPE_KINDS))}, of whole heads"
    require(fits, "load", rule, expected=expected, got=repr(options))
    base = setting(options, "rope_theta", setting(config, "rope_theta", 10000.0))
    rule = "rope_theta must be positive"
    require(base > 0, "load", rule, expected="rope_theta > 0", got=str(base))
    frequencies = rope_frequencies(head_dim, base)
    return frequencies if kind == "default" else _slowed(frequencies, config, options)


def _slowed(frequencies: Tensor, config: Config, options: Config) -> Tensor:
    """Let pairs turn more slowly, by the factor, that turn less than once in the first training.

    Between low_freq_factor and high_freq_factor turns the two frequencies are mixed.
    Reference: transformers, modeling_rope_utils.py, _compute_llama3_parameters.
    """
    name = "original_max_position_embeddings"
    (length,) = sizes({name: config.get("max_position_embeddings"), **options}, name)
    factor, low, high = (setting(options, name, 0.0) for name in ROPE_KINDS["llama3"][:3])
    rule = "the factors of RoPE must be positive, and the low one below the high one"
    expected = "factor > 0 and 0 < low_freq_factor < high_freq_factor"
    got = f"{factor}, {low} and {high}"
    require(min(factor, low) > 0 and low < high, "load", rule, expected=expected, got=got)
    turns = length * frequencies / (2 * math.pi)  # (D/2,)
    kept = ((turns - low) / (high - low)).clamp(0, 1)  # (D/2,)
    return frequencies * (kept + (1 - kept) / factor)  # (D/2,)


def listed(names: Iterable[str]) -> str:
    """Write names one after the other, the first few of many."""
    first, *others = [", ".join(list(names)[:4]) or "none", *list(names)[4:]]
    return f"{first} and {len(others)} more" if others else first
