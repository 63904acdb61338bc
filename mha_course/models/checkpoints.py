"""Published checkpoints of three families, run on the attention of the course: GPT-2, BERT and Llama.

A folder holds a ``config.json`` and a ``model.safetensors``. Each family has one table: our modules, and what they are
called in the file. Nothing is ever unpickled, since a pickle can run any code.

Axes: B sentences, S tokens, C width, V words in the vocabulary, L layers, H query heads, G key-value heads, D width
of a head, F width inside the feed-forward part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mha_course.attention import attention, fused_attention, merge_heads, split_heads
from mha_course.caching import repeat_kv
from mha_course.errors import SentenceError, ShapeError, require, require_bool, require_int, require_shape
from mha_course.masks import causal_mask
from mha_course.models.blocks import Encoder
from mha_course.models.training import threads
from mha_course.positions import rope

Config = Mapping[str, Any]
Value = TypeVar("Value", str, bool, float)

TANH_GELU = nn.GELU("tanh")
ACTIVATIONS = {
    "gelu": nn.GELU(), "gelu_new": TANH_GELU, "gelu_fast": TANH_GELU, "gelu_pytorch_tanh": TANH_GELU,
    "relu": nn.ReLU(), "silu": nn.SiLU(), "swish": nn.SiLU(),
}  # fmt: skip


class Checkpoint(nn.Module):
    """What the families share: ids go through an encoder of the course, and logits come out.

    A mask is bool, True = a token; what it hides nobody attends to, but it takes up a position.
    """

    NAMES: ClassVar[dict[str, str]]  # our modules (a last name in full), and theirs; several share one that holds all
    STORED_IN_OUT: ClassVar[tuple[str, ...]] = ()  # theirs whose weight is (in, out), not (out, in) as in nn.Linear
    PREFIX: ClassVar[str]  # stands before their names, or does not
    TIED: ClassVar[dict[str, str]]  # may be absent, unless the config unties them: they are the other one then
    LEFT_OUT: ClassVar[tuple[str, ...]]  # stored masks and positions, and heads for other tasks
    ONLY: ClassVar[dict[str, object]]  # settings that other values would make another model, and the value known here

    causal = True
    max_len: int | None = None
    num_threads: int | None = None
    token_embedding: nn.Embedding
    encoder: Encoder
    to_words: nn.Module

    def embed(self, ids: Tensor) -> Tensor:
        """Map ids (B, S) to what enters the first layer, (B, S, C)."""
        return self.token_embedding(ids)  # (B, S, C)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ids (B, S), with a mask (B, S) of the tokens that are no padding, to logits (B, S, V).

        Raises: ShapeError; SentenceError for more tokens than there are positions.
        """
        may_attend = self._may_attend(ids, mask)
        with threads(self.num_threads):
            return self.to_words(self.encoder(self.embed(ids), may_attend))  # (B, S, V)

    def attention_weights(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights of every head of every layer, (L, B, H, S, S). Arguments as for forward."""
        may_attend = self._may_attend(ids, mask)
        with threads(self.num_threads):
            return self.encoder.attention_weights(self.embed(ids), may_attend)  # (L, B, H, S, S)

    def _may_attend(self, ids: Tensor, mask: Tensor | None) -> Tensor | None:
        """Check the inputs and return the mask of the attention, (S, S) or (B, 1, S, S)."""
        place, words = type(self).__name__, self.token_embedding.num_embeddings
        require_shape(place, "ids", ids, {"B": None, "S": None})
        known = not ids.is_floating_point() and bool(((ids >= 0) & (ids < words)).all())
        got = f"{ids.min().item()} to {ids.max().item()}" if ids.numel() else "none"
        require(known and ids.numel() > 0, place, "ids must be words", expected=f"0 <= id < {words}", got=got)
        if self.max_len is not None and ids.size(1) > self.max_len:
            rule, expected = "the sentence is too long", f"S <= {self.max_len}"
            raise SentenceError(place, rule, expected=expected, got=f"S={ids.size(1)}")
        causal = causal_mask(ids.size(1), device=ids.device) if self.causal else None  # (S, S)
        if mask is None:
            return causal
        require_bool(place, mask, what="bool, True = a token", fix="mask.bool() if it holds 1 for a token")
        require_shape(place, "mask", mask, {"B": ids.size(0), "S": ids.size(1)})
        padding = mask[:, None, None].expand(-1, 1, ids.size(1), -1)  # (B, 1, S, S)
        return padding if causal is None else padding & causal


class GPT2(Checkpoint):
    """Pre-norm, learned positions, and one stored projection for queries, keys and values.

    Reference: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3.
    """

    NAMES: ClassVar = {
        "token_embedding": "wte",
        "position_embedding": "wpe",
        "encoder.layers.*.norm1": "h.*.ln_1",
        "encoder.layers.*.attention.q_proj": "h.*.attn.c_attn",
        "encoder.layers.*.attention.k_proj": "h.*.attn.c_attn",
        "encoder.layers.*.attention.v_proj": "h.*.attn.c_attn",
        "encoder.layers.*.attention.out_proj": "h.*.attn.c_proj",
        "encoder.layers.*.norm2": "h.*.ln_2",
        "encoder.layers.*.feed_forward.0": "h.*.mlp.c_fc",
        "encoder.layers.*.feed_forward.3": "h.*.mlp.c_proj",
        "encoder.norm": "ln_f",
        "to_words": "lm_head",
    }
    STORED_IN_OUT = ("c_attn", "c_proj", "c_fc")
    PREFIX = "transformer."
    TIED: ClassVar = {"lm_head.weight": "wte.weight"}
    LEFT_OUT = ("h.*.attn.bias", "h.*.attn.masked_bias")
    ONLY: ClassVar = {
        "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False,
    }  # fmt: skip

    def __init__(self, config: Config) -> None:
        super().__init__()
        words, self.max_len, width = _sizes(config, "vocab_size", "n_positions", "n_embd")
        heads, layers = _sizes(config, "n_head", "n_layer")
        (inner,) = _sizes({"n_inner": 4 * width} if config.get("n_inner") is None else config, "n_inner")
        activation, eps = (
            _activation(config, "activation_function", "gelu_new"),
            _eps(config, "layer_norm_epsilon", 1e-5),
        )
        self.token_embedding, self.position_embedding = nn.Embedding(words, width), nn.Embedding(self.max_len, width)
        self.encoder = _encoder(Encoder(width, heads, inner, layers), activation, eps)
        self.to_words = nn.Linear(width, words, bias=False)

    def embed(self, ids: Tensor) -> Tensor:
        """Add what each token is to where it stands, (B, S, C)."""
        return self.token_embedding(ids) + self.position_embedding.weight[: ids.size(1)]  # (B, S, C)


class BERT(Checkpoint):
    """Post-norm, every token sees all others, and a head that guesses masked words. All tokens are of type 0.

    Reference: Devlin et al. 2019, BERT, section 3.
    """

    NAMES: ClassVar = {
        "token_embedding": "embeddings.word_embeddings",
        "position_embedding": "embeddings.position_embeddings",
        "type_embedding": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
        "encoder.layers.*.attention.q_proj": "encoder.layer.*.attention.self.query",
        "encoder.layers.*.attention.k_proj": "encoder.layer.*.attention.self.key",
        "encoder.layers.*.attention.v_proj": "encoder.layer.*.attention.self.value",
        "encoder.layers.*.attention.out_proj": "encoder.layer.*.attention.output.dense",
        "encoder.layers.*.norm1": "encoder.layer.*.attention.output.LayerNorm",
        "encoder.layers.*.feed_forward.0": "encoder.layer.*.intermediate.dense",
        "encoder.layers.*.feed_forward.3": "encoder.layer.*.output.dense",
        "encoder.layers.*.norm2": "encoder.layer.*.output.LayerNorm",
        "to_words.0": "cls.predictions.transform.dense",
        "to_words.2": "cls.predictions.transform.LayerNorm",
        "to_words.3": "cls.predictions.decoder",
    }
    PREFIX = "bert."
    TIED: ClassVar = {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    LEFT_OUT = (
        "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.predictions.bias",
        "cls.seq_relationship.weight", "cls.seq_relationship.bias",
    )  # fmt: skip
    ONLY: ClassVar = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    causal = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        words, self.max_len, width = _sizes(config, "vocab_size", "max_position_embeddings", "hidden_size")
        heads, layers, inner = _sizes(config, "num_attention_heads", "num_hidden_layers", "intermediate_size")
        (types,) = _sizes({"type_vocab_size": 2} | dict(config), "type_vocab_size")
        activation, eps = _activation(config, "hidden_act", "gelu"), _eps(config, "layer_norm_eps", 1e-12)
        self.token_embedding, self.position_embedding = nn.Embedding(words, width), nn.Embedding(self.max_len, width)
        self.type_embedding = nn.Embedding(types, width)
        self.norm = nn.LayerNorm(width, eps)
        self.encoder = _encoder(Encoder(width, heads, inner, layers, norm_first=False), activation, eps)
        dense, norm = nn.Linear(width, width), nn.LayerNorm(width, eps)
        self.to_words = nn.Sequential(dense, activation, norm, nn.Linear(width, words))

    def embed(self, ids: Tensor) -> Tensor:
        """Add what each token is, where it stands and that it is of type 0; then the norm, (B, S, C)."""
        x = self.token_embedding(ids) + self.position_embedding.weight[: ids.size(1)]  # (B, S, C)
        return self.norm(x + self.type_embedding.weight[0])  # (B, S, C)


class Llama(Checkpoint):
    """Pre-norm with RMSNorm, queries and keys turned by RoPE, shared key-value heads, SwiGLU.

    Reference: Touvron et al. 2023, LLaMA, section 2.2; shared heads: Touvron et al. 2023, Llama 2, section 2.2.
    """

    NAMES: ClassVar = {
        "token_embedding": "embed_tokens",
        "encoder.layers.*.norm1": "layers.*.input_layernorm",
        "encoder.layers.*.attention.q_proj": "layers.*.self_attn.q_proj",
        "encoder.layers.*.attention.k_proj": "layers.*.self_attn.k_proj",
        "encoder.layers.*.attention.v_proj": "layers.*.self_attn.v_proj",
        "encoder.layers.*.attention.out_proj": "layers.*.self_attn.o_proj",
        "encoder.layers.*.norm2": "layers.*.post_attention_layernorm",
        "encoder.layers.*.feed_forward.gate": "layers.*.mlp.gate_proj",
        "encoder.layers.*.feed_forward.inner": "layers.*.mlp.up_proj",
        "encoder.layers.*.feed_forward.outer": "layers.*.mlp.down_proj",
        "encoder.norm": "norm",
        "to_words": "lm_head",
    }
    PREFIX = "model."
    TIED: ClassVar = {"lm_head.weight": "embed_tokens.weight"}
    LEFT_OUT = ("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq")
    ONLY: ClassVar = {"sliding_window": None, "rope_interleaved": False, "partial_rotary_factor": 1.0}

    def __init__(self, config: Config) -> None:
        super().__init__()
        words, width, heads = _sizes(config, "vocab_size", "hidden_size", "num_attention_heads")
        layers, inner = _sizes(config, "num_hidden_layers", "intermediate_size")
        given = {name: value for name, value in config.items() if value is not None}
        defaults = {"num_key_value_heads": heads, "head_dim": width // heads}
        kv_heads, head_dim = _sizes(defaults | given, "num_key_value_heads", "head_dim")
        rule, got = "num_key_value_heads must divide num_attention_heads", f"{kv_heads} and {heads}"
        require(heads % kv_heads == 0, "load", rule, expected="a divisor", got=got)
        activation, eps = _activation(config, "hidden_act", "silu"), _eps(config, "rms_norm_eps", 1e-6)
        base, bias = _rope_base(config), _value(config, "attention_bias", False)
        mlp_bias = _value(config, "mlp_bias", False)
        self.token_embedding = nn.Embedding(words, width)
        self.encoder = Encoder(width, heads, inner, layers)
        for block in self.encoder.blocks:
            block.add_module("norm1", nn.RMSNorm(width, eps))
            block.add_module("attention", RotaryAttention(width, heads, kv_heads, head_dim, bias=bias, base=base))
            block.add_module("norm2", nn.RMSNorm(width, eps))
            block.add_module("feed_forward", GatedFeedForward(width, inner, activation, bias=mlp_bias))
        self.encoder.add_module("norm", nn.RMSNorm(width, eps))
        self.to_words = nn.Linear(width, words, bias=False)


class RotaryAttention(nn.Module):
    """Turn queries and keys by their positions, and let G key-value heads serve H query heads.

    Args: width is C; D = head_dim need not be C / H; base is that of rope.
    """

    def __init__(
        self, width: int, num_heads: int, num_kv_heads: int, head_dim: int, *, bias: bool, base: float
    ) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.base = num_heads, num_kv_heads, base
        self.q_proj = nn.Linear(width, num_heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(width, num_kv_heads * head_dim, bias=bias)
        self.v_proj = nn.Linear(width, num_kv_heads * head_dim, bias=bias)
        self.out_proj = nn.Linear(num_heads * head_dim, width, bias=bias)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = True, is_causal: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return out (B, S, C) and weights (B, H, S, S), or None and a fused kernel, as MultiHeadAttention does."""
        positions = torch.arange(x.size(1), device=x.device)  # (S,)
        q = rope(split_heads(self.q_proj(x), self.num_heads), positions, self.base)  # (B, H, S, D)
        k = rope(split_heads(self.k_proj(x), self.num_kv_heads), positions, self.base)  # (B, G, S, D)
        v = split_heads(self.v_proj(x), self.num_kv_heads)  # (B, G, S, D)
        if not need_weights:
            context = fused_attention(q, k, v, mask, is_causal=is_causal)  # (B, H, S, D)
            return self.out_proj(merge_heads(context)), None
        context, weights = attention(q, repeat_kv(k, self.num_heads), repeat_kv(v, self.num_heads), mask)
        return self.out_proj(merge_heads(context)), weights


class GatedFeedForward(nn.Module):
    """Let one projection decide how much of another passes: outer(activation(gate(x)) * inner(x)).

    Reference: Shazeer 2020, GLU Variants Improve Transformer, section 2.
    """

    def __init__(self, width: int, d_ff: int, activation: nn.Module, *, bias: bool) -> None:
        super().__init__()
        self.gate, self.inner = nn.Linear(width, d_ff, bias=bias), nn.Linear(width, d_ff, bias=bias)
        self.outer, self.activation = nn.Linear(d_ff, width, bias=bias), activation

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, S, C) to (B, S, C)."""
        return self.outer(self.activation(self.gate(x)) * self.inner(x))  # (B, S, C)


FAMILIES: dict[str, type[Checkpoint]] = {"gpt2": GPT2, "bert": BERT, "llama": Llama}


def load(folder: str | Path, *, num_threads: int | None = None) -> Checkpoint:
    """Build a published model from its config.json and its model.safetensors: float32, on the CPU, not to be trained.

    Args: num_threads is how many threads it computes on; None leaves that to PyTorch.
    Raises: ShapeError for what is not there, is not known, or does not fit; nothing is ever unpickled.
    """
    folder = Path(folder)
    if num_threads is not None:
        require_int("load", "num_threads", num_threads)
    config = _read_config(folder)
    kind = config.get("model_type")
    known = isinstance(kind, str) and kind in FAMILIES
    require(known, "load", "the model_type of config.json is not known", expected=_listed(FAMILIES), got=repr(kind))
    family = FAMILIES[str(kind)]
    for name, only in ({"quantization_config": None} | family.ONLY).items():
        value = config.get(name)
        rule = f"{name} of config.json is not supported"
        require(value is None or value == only, "load", rule, expected=repr(only), got=repr(value))
    tied = _value(config, "tie_word_embeddings", family is not Llama)
    with torch.device("meta"):  # sizes alone: no number is drawn only to be replaced
        model = family(config)
    model.load_state_dict(_state(model, _read_tensors(folder), tied), assign=True)
    model.num_threads = num_threads
    return model.requires_grad_(False).eval()


def _read_config(folder: Path) -> Config:
    if not folder.is_dir():
        raise ShapeError("load", "there is no such folder", expected="a folder of a checkpoint", got=repr(folder.name))
    rule, expected = "config.json must be there and hold an object", "the published config.json"
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ShapeError("load", rule, expected=expected, got=type(error).__name__) from error
    require(isinstance(config, dict), "load", rule, expected=expected, got=type(config).__name__)
    return config


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    rule, expected = "the weights must be one file of safetensors", "model.safetensors"
    path = folder / expected
    if not path.is_file():
        others = sorted(
            file.name for file in folder.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".safetensors")
        )
        others += sorted(file.name for file in folder.glob("*.index.json"))
        fix = "save_pretrained of the library it comes from, with safetensors and without shards" if others else None
        raise ShapeError("load", rule, expected=expected, got=_listed(others), fix=fix)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ShapeError("load", rule, expected=expected, got=f"a file of that name that is none: {error}") from error


def _state(model: Checkpoint, stored: Mapping[str, Tensor], tied: bool) -> dict[str, Tensor]:
    """Give the stored tensors our names, in float32, all as (out, in), and stacked ones cut."""
    tensors: dict[str, Tensor] = {}
    for written, tensor in stored.items():
        name = written.removeprefix(model.PREFIX).replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        rule = "two tensors of the file are the same parameter"
        require(name not in tensors, "load", rule, expected="one name of each", got=f"{written} and another")
        tensors[name] = tensor
    for one, other in model.TIED.items() if tied else ():
        present = tensors.get(one, tensors.get(other))
        if present is not None:
            tensors = {one: present, other: present} | tensors
    tensors = {name: x for name, x in tensors.items() if re.sub(r"\.\d+\.", ".*.", name) not in model.LEFT_OUT}
    ours: dict[str, dict[str, Tensor]] = {}  # those that make up each of theirs
    for name, parameter in model.state_dict().items():
        ours.setdefault(_published(name, model.NAMES), {})[name] = parameter
    missing, unknown = sorted(ours.keys() - tensors.keys()), sorted(tensors.keys() - ours.keys())
    rule, expected = (
        "the file must hold the tensors that config.json speaks of",
        f"{len(ours)} of {type(model).__name__}",
    )
    got = f"missing: {_listed(missing)}; unknown: {_listed(unknown)}"
    require(not missing and not unknown, "load", rule, expected=expected, got=got)
    turned = {name for name in ours if name.endswith(tuple(f"{module}.weight" for module in model.STORED_IN_OUT))}
    _require_shapes(tensors, ours, turned)
    state: dict[str, Tensor] = {}
    for name, parts in ours.items():
        tensor = tensors[name].float()
        tensor = tensor.T.contiguous() if name in turned else tensor
        state |= zip(parts, tensor.split([part.size(0) for part in parts.values()]), strict=True)
    return state


def _published(name: str, names: Mapping[str, str]) -> str:
    """Return what one of our tensors is called in the file."""
    module, _, kind = name.rpartition(".")
    layer = re.search(r"(?<=^encoder\.layers\.)\d+", module)
    if layer is None:
        return f"{names[module]}.{kind}"
    return f"{names[module.replace(layer[0], '*', 1)]}.{kind}".replace("*", layer[0])


def _require_shapes(tensors: Mapping[str, Tensor], ours: Mapping[str, Mapping[str, Tensor]], turned: set[str]) -> None:
    wanted, wrong = [], []
    for name, parts in ours.items():
        stacked = torch.cat(list(parts.values()))  # without numbers: on the device meta
        shape = tuple(stacked.T.shape if name in turned else stacked.shape)
        if tuple(tensors[name].shape) != shape or not tensors[name].is_floating_point():
            wanted.append(f"{name} {shape}")
            wrong.append(f"{tuple(tensors[name].shape)} of {tensors[name].dtype}")
    rule = "the tensors must be floats of the sizes in config.json"
    require(not wanted, "load", rule, expected=_listed(wanted), got=_listed(wrong))


def _encoder(encoder: Encoder, activation: nn.Module, eps: float) -> Encoder:
    """Give all norms of an encoder their eps, and its feed-forward parts their activation."""
    for norm in encoder.modules():
        if isinstance(norm, nn.LayerNorm):
            norm.eps = eps
    for block in encoder.blocks:
        block.feed_forward[1] = activation
    return encoder


def _sizes(config: Config, *names: str) -> list[int]:
    for name in names:
        require_int("load", name, config.get(name, 0))
    return [config[name] for name in names]


def _value(config: Config, name: str, default: Value) -> Value:
    """Return a setting, or the default where it is absent or null."""
    value = config.get(name)
    if value is None:
        return default
    fits = type(value) in ((float, int) if isinstance(default, float) else (type(default),))
    kind, got = type(default).__name__, f"{name}={value!r}"
    require(fits, "load", f"{name} of config.json has the wrong type", expected=f"a {kind}", got=got)
    return value


def _eps(config: Config, name: str, default: float) -> float:
    eps = _value(config, name, default)
    require(eps >= 0, "load", f"{name} must not be negative", expected=f"{name} >= 0", got=str(eps))
    return eps


def _activation(config: Config, name: str, default: str) -> nn.Module:
    activation = _value(config, name, default)
    rule = f"{name} of config.json is not known"
    require(activation in ACTIVATIONS, "load", rule, expected=_listed(ACTIVATIONS), got=repr(activation))
    return ACTIVATIONS[activation]


def _rope_base(config: Config) -> float:
    """Return the base of RoPE, which stands at the top of the config, or in a part of its own."""
    part = config.get("rope_scaling") or config.get("rope_parameters") or {}
    plain = isinstance(part, dict) and part.get("rope_type", part.get("type", "default")) == "default"
    plain = plain and part.get("partial_rotary_factor") in (None, 1)
    rule, expected = "this kind of RoPE is not supported", "rope_type 'default', of whole heads"
    require(plain, "load", rule, expected=expected, got=repr(part))
    base = _value(part, "rope_theta", _value(config, "rope_theta", 10000.0))
    require(base > 0, "load", "rope_theta must be positive", expected="rope_theta > 0", got=str(base))
    return base


def _listed(names: Iterable[str]) -> str:
    """Write names one after the other, the first few of many."""
    first, *others = [", ".join(list(names)[:4]) or "none", *list(names)[4:]]
    return f"{first} and {len(others)} more" if others else first
