"""Published checkpoints, read into the architectures of ``published``: GPT-2, BERT and Llama.

A folder holds a ``config.json`` and a ``model.safetensors``. Each family has one table: our modules, and what they are
called in the file. Nothing is ever unpickled, since a pickle can run any code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mha_course.errors import ShapeError, require, require_int
from mha_course.models.published import BERT, GPT2, Config, Llama, PublishedModel, listed, setting


class Family(NamedTuple):
    """How the files of a family are written."""

    architecture: type[PublishedModel]
    names: dict[str, str]  # our modules and theirs, * is the layer; where several of ours share one, it holds all
    prefix: str  # stands before their names, or does not
    tied: dict[str, str]  # tensors that are the same unless the config unties them: one of both may be absent
    is_tied: bool  # what a config means that does not say it
    left_out: tuple[str, ...]  # masks and positions that are stored, and heads for other tasks
    only: dict[str, object]  # settings that make another model where they have another value than this
    stored_in_out: tuple[str, ...] = ()  # theirs whose weight is (in, out), not (out, in) as in nn.Linear


_GPT2 = Family(
    architecture=GPT2,
    names={
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
    },
    stored_in_out=("c_attn", "c_proj", "c_fc"),
    prefix="transformer.",
    tied={"lm_head.weight": "wte.weight"},
    left_out=("h.*.attn.bias", "h.*.attn.masked_bias"),
    only={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    },
    is_tied=True,
)

_BERT = Family(
    architecture=BERT,
    names={
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
    },
    prefix="bert.",
    tied={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    left_out=(
        "embeddings.position_ids",
        "pooler.dense.weight",
        "pooler.dense.bias",
        "cls.predictions.bias",
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
    ),
    only={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
    is_tied=True,
)

_LLAMA = Family(
    architecture=Llama,
    names={
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
    },
    prefix="model.",
    tied={"lm_head.weight": "embed_tokens.weight"},
    left_out=("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"),
    only={"sliding_window": None, "rope_interleaved": False, "partial_rotary_factor": 1.0},
    is_tied=False,
)

FAMILIES = {"gpt2": _GPT2, "bert": _BERT, "llama": _LLAMA}
WEIGHTS = "model.safetensors"


class Published(NamedTuple):
    """A file of weights on the hub; its licence is that of the model."""

    repository: str
    revision: str | None
    sha256: str | None


PUBLISHED = {
    "gpt2": Published(  # MIT
        "openai-community/gpt2",
        "607a30d783dfa663caf39e06633721c8d4cfcd7e",
        "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
    ),
    "bert": Published(  # Apache-2.0
        "google-bert/bert-base-uncased",
        "86b5e0934494bd15c9632b12f734a8a67f723594",
        "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
    ),
    "smollm2": Published(  # Apache-2.0
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        "80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1",
    ),
}


def load(folder: str | Path, *, num_threads: int | None = None) -> PublishedModel:
    """Build a published model from its config.json and its model.safetensors: float32, on the CPU, not to be trained.

    Args: num_threads is how many threads it computes on; None leaves that to PyTorch.
    Raises: ShapeError for what is not there, is not known, or does not fit; nothing is ever unpickled.
    """
    folder = Path(folder)
    if num_threads is not None:
        require_int("load", "num_threads", num_threads)
    config = _read_config(folder)
    kind = config.get("model_type")
    family = FAMILIES.get(str(kind))
    if family is None:
        rule = "the model_type of config.json is not known"
        raise ShapeError("load", rule, expected=listed(FAMILIES), got=repr(kind))
    for name, only in ({"quantization_config": None} | family.only).items():
        value = config.get(name)
        rule = f"{name} of config.json is not supported"
        require(value is None or value == only, "load", rule, expected=repr(only), got=repr(value))
    with torch.device("meta"):  # sizes alone: no number is drawn only to be replaced
        model = family.architecture(config)
    tensors = _by_their_names(_read_tensors(folder), family, setting(config, "tie_word_embeddings", family.is_tied))
    model.load_state_dict(_state(model, tensors, family), assign=True)
    model.num_threads = num_threads
    return model.requires_grad_(False).eval()


def save(model: PublishedModel, config: Config, folder: Path) -> None:
    """Write a model whose words are tied as ``load`` reads it, under its published names: the other way round."""
    family = FAMILIES[config["model_type"]]
    parts: dict[str, list[Tensor]] = {}
    for name, parameter in model.state_dict().items():
        parts.setdefault(_published(name, family.names), []).append(parameter)
    stored = {name: torch.cat(tensors) for name, tensors in parts.items()}
    for name in stored:
        if name.endswith(tuple(f"{module}.weight" for module in family.stored_in_out)):
            stored[name] = stored[name].T.contiguous()
    for copy, original in family.tied.items():
        stored[original] = stored.pop(copy)
    heads = ("cls.", "lm_head.")  # stand beside the model, not in it
    named = {name if name.startswith(heads) else family.prefix + name: tensor for name, tensor in stored.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})


def shipped(family: str) -> Path:
    """Return the folder of the small checkpoint of a family that comes with the course.

    >>> sorted(file.name for file in shipped("bert").iterdir())
    ['config.json', 'model.safetensors', 'tokenizer.json']
    """
    require(family in FAMILIES, "shipped", "no family has this name", expected=listed(FAMILIES), got=repr(family))
    return Path(__file__).parents[1] / "data" / "checkpoints" / family


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
        raise ShapeError("load", rule, expected=expected, got=listed(others), fix=fix)
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ShapeError("load", rule, expected=expected, got=f"a file of that name that is none: {error}") from error


def _by_their_names(stored: Mapping[str, Tensor], family: Family, tied: bool) -> dict[str, Tensor]:
    """Bring all dialects of a family to one: without the prefix, the tied ones there, and what is not needed not."""
    tensors: dict[str, Tensor] = {}
    for written, tensor in stored.items():
        name = written.removeprefix(family.prefix).replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        rule = "two tensors of the file are the same parameter"
        require(name not in tensors, "load", rule, expected="one name of each", got=f"{name}, written twice")
        tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    for one, other in family.tied.items() if tied else ():
        present = tensors.get(one, tensors.get(other))
        if present is not None:
            tensors = {one: present, other: present} | tensors
    return {name: x for name, x in tensors.items() if re.sub(r"\.\d+\.", ".*.", name) not in family.left_out}


def _state(model: PublishedModel, tensors: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Give their tensors our names: all are turned to (out, in), and stacked ones cut."""
    ours: dict[str, dict[str, Tensor]] = {}  # those that make up each of theirs
    for name, parameter in model.state_dict().items():
        ours.setdefault(_published(name, family.names), {})[name] = parameter
    missing, unknown = sorted(ours.keys() - tensors.keys()), sorted(tensors.keys() - ours.keys())
    rule, expected = "the file must hold the tensors that config.json speaks of", f"{len(ours)} tensors"
    got = f"missing: {listed(missing)}; unknown: {listed(unknown)}"
    require(not missing and not unknown, "load", rule, expected=expected, got=got)
    state: dict[str, Tensor] = {}
    wanted, wrong = [], []
    for name, parts in ours.items():
        turned = name.endswith(tuple(f"{module}.weight" for module in family.stored_in_out))
        stacked = torch.cat(list(parts.values()))  # has a shape alone: the model is still on the device meta
        shape, tensor = tuple(stacked.T.shape if turned else stacked.shape), tensors[name]
        if tensor.shape == shape and tensor.is_floating_point():
            tensor = tensor.T.contiguous() if turned else tensor
            state |= zip(parts, tensor.split([part.size(0) for part in parts.values()]), strict=True)
        else:
            wanted.append(f"{name} {shape}")
            wrong.append(f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}")
    rule = "the tensors must be floats of the sizes in config.json"
    require(not wanted, "load", rule, expected=listed(wanted), got=listed(wrong))
    return state


def _published(name: str, names: Mapping[str, str]) -> str:
    """Return what one of our tensors is called in the file."""
    module, _, kind = name.rpartition(".")
    layer = re.search(r"(?<=^encoder\.layers\.)\d+", module)
    if layer is None:
        return f"{names[module]}.{kind}"
    return f"{names[module.replace(layer[0], '*', 1)]}.{kind}".replace("*", layer[0])
