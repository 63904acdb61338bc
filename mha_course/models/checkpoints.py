"""Published checkpoints, read into the architectures of ``published``.

A folder holds a ``config.json`` and a ``model.safetensors``, or several files and an index of them.
Each family has one table: our modules, and what they are called in the file. Nothing is ever
unpickled, since a pickle can run any code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mha_course.errors import ShapeError, require, require_int
from mha_course.models.published import BERT, GPT2, Config, Llama, PublishedModel, listed, setting


class Family(NamedTuple):
    """How the files of a family are written."""

    architecture: Callable[[Config], PublishedModel]
    classes: tuple[str, ...]  # what config.json may call the whole model
    # Our modules and theirs, * is the layer; where several of ours share one, it holds all of them.
    names: dict[str, str]
    prefix: str  # stands before their names, or does not
    # Tensors that are the same unless the config unties them: one of the two may be absent.
    tied: dict[str, str]
    is_tied: bool  # what a config means that does not say it
    left_out: tuple[str, ...]  # masks and positions that are stored, and heads for other tasks
    only: dict[str, object]  # settings that would make another model if they had another value
    unused: tuple[str, ...] = ()  # settings that have no effect in this family
    stored_in_out: tuple[str, ...] = ()  # theirs whose weight is (in, out), not (out, in)


_GPT2 = Family(
    architecture=GPT2,
    classes=("GPT2LMHeadModel", "GPT2Model"),
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
    only={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    unused=("n_ctx", "reorder_and_upcast_attn"),
    is_tied=True,
)

_BERT = Family(
    architecture=BERT,
    classes=("BertForMaskedLM", "BertForPreTraining"),
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
    only={"position_embedding_type": "absolute"},
    is_tied=True,
)

_LLAMA = Family(
    architecture=Llama,
    classes=("LlamaForCausalLM",),
    names={
        "token_embedding": "embed_tokens",
        "encoder.layers.*.norm1": "layers.*.input_layernorm",
        "encoder.layers.*.attention.q_proj": "layers.*.self_attn.q_proj",
        "encoder.layers.*.attention.k_proj": "layers.*.self_attn.k_proj",
        "encoder.layers.*.attention.v_proj": "layers.*.self_attn.v_proj",
        "encoder.layers.*.attention.out_proj": "layers.*.self_attn.o_proj",
        "encoder.layers.*.attention.q_norm": "layers.*.self_attn.q_norm",
        "encoder.layers.*.attention.k_norm": "layers.*.self_attn.k_norm",
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

_MISTRAL = _LLAMA._replace(
    architecture=partial(Llama, windowed=True),
    classes=("MistralForCausalLM",),
    only={"rope_interleaved": False, "partial_rotary_factor": 1.0},
)
_QWEN2 = _LLAMA._replace(
    architecture=partial(Llama, qkv_bias=True),
    classes=("Qwen2ForCausalLM",),
    only={"use_sliding_window": False, "use_mrope": False, "layer_types": ["full_attention"]},
    unused=("attention_bias", "sliding_window", "max_window_layers"),
)
_QWEN3 = _QWEN2._replace(
    architecture=partial(Llama, qk_norm=True),
    classes=("Qwen3ForCausalLM",),
    unused=("sliding_window", "max_window_layers"),
)

FAMILIES = {
    "gpt2": _GPT2, "bert": _BERT, "llama": _LLAMA, "qwen2": _QWEN2, "qwen3": _QWEN3,
    "mistral": _MISTRAL,
}  # fmt: skip
SHIPPED = ("gpt2", "bert", "llama")  # families of which the course has a small checkpoint
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # where the weights are in several files
ONLY: dict[str, object] = {  # in every family
    "quantization_config": None, "pruned_heads": {}, "is_encoder_decoder": False,
    "is_decoder": False, "add_cross_attention": False,
}  # fmt: skip
# Settings without an effect on what a trained model computes: names, training, how to generate.
# A setting that is neither here nor read may make another model, and is refused.
UNUSED = {
    "_attn_implementation", "_flash_attn_2_enabled", "_name_or_path",
    "attention_dropout", "attention_probs_dropout_prob", "attn_implementation", "attn_pdrop",
    "bos_token_id", "chunk_size_feed_forward", "classifier_dropout", "directionality", "dtype",
    "embd_pdrop", "eos_token_id", "finetuning_task", "gradient_checkpointing",
    "hidden_dropout_prob", "id2label", "initializer_range", "is_llama_config", "label2id",
    "max_length", "max_position_embeddings", "num_labels", "output_attentions",
    "output_hidden_states", "output_past", "pad_token_id", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    "pretraining_tp", "problem_type", "resid_pdrop", "return_dict", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "task_specific_params", "tie_word_embeddings", "tokenizer_class", "torch_dtype",
    "torchscript", "transformers.js_config", "transformers_version", "unsloth_fixed",
    "unsloth_version", "use_cache",
}  # fmt: skip


class Published(NamedTuple):
    """Where a model lies on the hub, and the digest of its weights, where it is pinned."""

    repo: str
    revision: str = "main"
    sha256: str | None = None


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
    """Build a published model from its folder: float32, on the CPU, not to be trained.

    Nothing is unpickled.

    Args: num_threads is how many threads it computes on; None leaves that to PyTorch.
    Raises: ShapeError for what is not there, is not known, or does not fit.
    """
    folder = Path(folder)
    if num_threads is not None:
        require_int("load", "num_threads", num_threads)
    config = read_config(folder, "load")
    family, model = family_of(config, "load"), _without_numbers(config, "load")
    tied = setting(config, "tie_word_embeddings", family.is_tied)
    tensors = _by_their_names(_read_tensors(folder), family, tied)
    model.load_state_dict(_state(model, tensors, family), assign=True)
    model.num_threads = num_threads
    return model.requires_grad_(False).eval()


def shipped(family: str) -> Path:
    """Return the folder of the small checkpoint of a family that comes with the course.

    >>> sorted(file.name for file in shipped("bert").iterdir())
    ['config.json', 'model.safetensors', 'tokenizer.json']
    """
    rule = "no small checkpoint of this family ships"
    require(family in SHIPPED, "shipped", rule, expected=listed(SHIPPED), got=repr(family))
    return Path(__file__).parents[1] / "data" / "checkpoints" / family


def fetch(name: str) -> Path:
    """Return the folder of a published model in huggingface_hub's cache; download it before.

    HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE mean what they mean to the library.

    Args: name is one of PUBLISHED, whose revision and digest are pinned, or any OWNER/NAME of a
        known family.
    Raises: ShapeError for what cannot be had, or is not what was published.
    """
    repo, revision, sha256 = PUBLISHED.get(name, Published(name))
    folder = _cached(repo, revision, "config.json").parent
    _without_numbers(read_config(folder, "fetch"), "fetch")  # before hundreds of megabytes come
    _cached(repo, folder.name, "tokenizer.json")  # of the same commit
    if not (folder / INDEX).is_file():
        _cached(repo, folder.name, WEIGHTS, instead=INDEX)
    for file in _weight_files(folder, "fetch"):
        weights = _cached(repo, folder.name, file)
        stored_as = weights.resolve().name  # in the cache, what the hub says their digest is
        if sha256 is not None or len(stored_as) == 64:
            _require_digest(weights, sha256 or stored_as)
    return folder


def _cached(repo: str, revision: str, file: str, *, instead: str | None = None) -> Path:
    """Return where a file of the hub lies in the cache, and put it there before if it does not.

    Args: instead is another file, for a model that lacks the first.
    """
    from huggingface_hub import errors, hf_hub_download, try_to_load_from_cache  # noqa: PLC0415 (takes a second)

    names = f"{', '.join(PUBLISHED)}, or OWNER/NAME of a public model"
    present = "the file in the cache, or a network"
    unreached = "the hub cannot be reached, and the file is not in the cache"
    offline = "HF_HUB_OFFLINE is set, and the file is not in the cache"
    lacks = "the model lacks a file; weights are read as safetensors, never a pickle"
    refusals: list[tuple[type[Exception], str, str]] = [  # the first that fits
        (errors.HFValidationError, "this is no name of a model", names),
        (errors.GatedRepoError, "the model is gated: only who was let in gets it", names),
        (errors.RepositoryNotFoundError, "the hub has no such model, or keeps it private", names),
        (errors.RevisionNotFoundError, "the hub lacks this revision of the model", revision),
        (errors.OfflineModeIsEnabled, offline, present),
        (errors.LocalEntryNotFoundError, unreached, present),
        (errors.EntryNotFoundError, lacks, file),
        (errors.HfHubHTTPError, unreached, present),
        (Exception, "the download broke off", "a network that holds, and room on the disk"),
    ]
    try:
        cached = try_to_load_from_cache(repo, file, revision=revision)
        if not isinstance(cached, str):
            cached = hf_hub_download(repo, file, revision=revision)
        return Path(cached)
    except Exception as error:
        local = isinstance(error, errors.LocalEntryNotFoundError)
        if instead is not None and isinstance(error, errors.EntryNotFoundError) and not local:
            return _cached(repo, revision, instead)
        # That nothing lies in the cache has a cause: why nothing comes from the hub either.
        reason = error.__cause__ if local else error
        rule, expected = next(
            texts
            for kind, *texts in refusals
            if isinstance(error, kind) or isinstance(reason, kind)
        )
        got = f"{type(reason).__name__} for {file} of {repo}"
        raise ShapeError("fetch", rule, expected=expected, got=got) from error


def _require_digest(path: Path, sha256: str) -> None:
    """Raise unless the bytes are those that were published; other ones do not stay in the cache."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        path.resolve().unlink()
        rule = "the file is not the one that was published, and was removed"
        expected = f"sha256 {sha256}"
        raise ShapeError("fetch", rule, expected=expected, got=digest, fix="fetch it again")


def read_config(folder: Path, place: str) -> Config:
    """Return the settings of a checkpoint's folder. Raises: ShapeError where there are none."""
    if not folder.is_dir():
        rule = "there is no such folder"
        expected = "a folder of a checkpoint"
        raise ShapeError(place, rule, expected=expected, got=repr(folder.name))
    rule = "config.json must be there and hold an object"
    expected = "the published config.json"
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ShapeError(place, rule, expected=expected, got=type(error).__name__) from error
    require(isinstance(config, dict), place, rule, expected=expected, got=type(config).__name__)
    return config


class _Settings(dict[str, Any]):
    """Keep which settings were asked for."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.unread = set(config)

    def get(self, name: str, default: Any = None) -> Any:
        self.unread.discard(name)
        return super().get(name, default)


def build(config: Config, place: str) -> PublishedModel:
    """Return a model with random numbers. Raises: ShapeError for settings that are not known."""
    settings = _Settings(config)
    family = family_of(settings, place)
    for name, only in (ONLY | family.only).items():
        value = settings.get(name)
        if isinstance(value, list):  # one entry for each layer
            value = list(dict.fromkeys(map(str, value)))
        rule = f"{name} of config.json is not supported"
        require(value is None or value == only, place, rule, expected=repr(only), got=repr(value))
    classes = settings.get("architectures") or family.classes
    rule = "architectures of config.json is not supported"
    fits = isinstance(classes, list | tuple) and set(map(str, classes)) <= set(family.classes)
    require(fits, place, rule, expected=" or ".join(family.classes), got=repr(classes))
    model = family.architecture(settings)
    unknown = sorted(settings.unread - UNUSED - set(family.unused))
    rule = "config.json has settings that are not known, and may make another model"
    require(not unknown, place, rule, expected="none of these", got=listed(unknown))
    return model


def _without_numbers(config: Config, place: str) -> PublishedModel:
    """Return the model of a config with shapes alone, and no numbers yet."""
    with torch.device("meta"):
        return build(config, place)


def family_of(config: Config, place: str) -> Family:
    """Return how a model's files are written. Raises: ShapeError for an unknown family."""
    kind = config.get("model_type")
    rule = "the model_type of config.json is not known"
    require(kind in FAMILIES, place, rule, expected=listed(FAMILIES), got=repr(kind))
    return FAMILIES[str(kind)]


def _weight_files(folder: Path, place: str) -> list[str]:
    """Return the names of the files with the weights: one, or those that the index lists."""
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    expected = f"{WEIGHTS}, or {INDEX} and what it lists"
    if not (folder / INDEX).is_file():
        rule = "the weights must be safetensors"
        kinds = (".bin", ".pt", ".pth", ".safetensors")
        present = sorted(file.name for file in folder.iterdir() if file.suffix in kinds)
        fix = "save_pretrained of the library it comes from" if present else None
        raise ShapeError(place, rule, expected=expected, got=listed(present), fix=fix)
    rule = "the index must list files of safetensors that lie beside it"
    try:
        names = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        plain = all(re.fullmatch(r"[\w.-]+\.safetensors", name) for name in names)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ShapeError(place, rule, expected=expected, got=type(error).__name__) from error
    require(plain and bool(names), place, rule, expected=expected, got=listed(sorted(names)))
    return sorted(names)


def _read_tensors(folder: Path) -> list[tuple[str, Tensor]]:
    tensors: list[tuple[str, Tensor]] = []
    for name in _weight_files(folder, "load"):
        try:
            tensors += load_file(folder / name).items()
        except (OSError, SafetensorError) as error:
            rule = "the weights must be safetensors"
            got = f"a file of that name that is none: {error}"
            if isinstance(error, OSError):
                got = type(error).__name__
            raise ShapeError("load", rule, expected=name, got=got) from error
    return tensors


def _by_their_names(
    stored: list[tuple[str, Tensor]], family: Family, tied: bool
) -> dict[str, Tensor]:
    """Bring all dialects of a family to one: no prefix, both tied tensors, nothing left out."""
    tensors: dict[str, Tensor] = {}
    for written, tensor in stored:
        name = written.removeprefix(family.prefix).replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        rule = "two tensors of the file are the same parameter"
        got = f"{name}, written twice"
        require(name not in tensors, "load", rule, expected="one name of each", got=got)
        tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    for pair in family.tied.items() if tied else ():
        present = next((tensors[name] for name in pair if name in tensors), None)
        if present is not None:
            tensors = dict.fromkeys(pair, present) | tensors
    return {
        name: tensor
        for name, tensor in tensors.items()
        if re.sub(r"\.\d+\.", ".*.", name) not in family.left_out
    }


def _state(
    model: PublishedModel, tensors: Mapping[str, Tensor], family: Family
) -> dict[str, Tensor]:
    """Give their tensors our names: all are turned to (out, in), and stacked ones cut."""
    ours: dict[str, dict[str, Tensor]] = {}  # those that make up each of theirs
    for name, parameter in model.state_dict().items():
        ours.setdefault(stored_name(name, family.names), {})[name] = parameter
    missing = sorted(ours.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - ours.keys())
    rule = "the file must hold the tensors that config.json speaks of"
    expected = f"{len(ours)} tensors"
    got = f"missing: {listed(missing)}; unknown: {listed(unknown)}"
    require(not missing and not unknown, "load", rule, expected=expected, got=got)
    state: dict[str, Tensor] = {}
    wanted, wrong = [], []
    for name, parts in ours.items():
        transposed = name.endswith(tuple(f"{module}.weight" for module in family.stored_in_out))
        stacked = torch.cat(list(parts.values()))  # no numbers: the model is on the device meta
        shape = tuple(stacked.T.shape if transposed else stacked.shape)
        tensor = tensors[name]
        if tensor.shape == shape and tensor.is_floating_point():
            # a view: the numbers stay in the mapped file
            tensor = tensor.T if transposed else tensor
            rows = [part.size(0) for part in parts.values()]
            state |= zip(parts, tensor.split(rows), strict=True)
        else:
            wanted.append(f"{name} {shape}")
            wrong.append(f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}")
    rule = "the tensors must be floats of the sizes in config.json"
    require(not wanted, "load", rule, expected=listed(wanted), got=listed(wrong))
    return state


def stored_name(name: str, names: Mapping[str, str]) -> str:
    """Return what one of our tensors is called in the file, without a prefix."""
    module, _, kind = name.rpartition(".")
    layer = re.search(r"(?<=^encoder\.layers\.)\d+", module)
    if layer is None:
        return f"{names[module]}.{kind}"
    return f"{names[module.replace(layer[0], '*', 1)]}.{kind}".replace("*", layer[0])
