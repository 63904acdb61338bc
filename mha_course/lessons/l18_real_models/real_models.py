"""Published checkpoints, opened with transformers: their files, tokens and heads.

Axes: N texts, S tokens, V tokens in the vocabulary, L layers, B sequences, H heads, C width.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from huggingface_hub import (
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import RemoteEntryNotFoundError
from huggingface_hub.utils.tqdm import enable_progress_bars
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.types import Device
from transformers import AutoConfig, PreTrainedModel

from mha_course.datasets.grammar import Sentence
from mha_course.errors import SentenceError, ShapeError, require
from mha_course.experiments.head_analysis import Head
from mha_course.models import seeded

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Published(NamedTuple):
    """A model on the hub, for which a small checkpoint ships."""

    title: str
    repo: str
    revision: str


PUBLISHED = {
    "gpt2": Published(  # MIT
        "GPT-2 small", "openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e"
    ),
    "bert": Published(  # Apache-2.0
        "BERT base", "google-bert/bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594"
    ),
    "llama": Published(  # Apache-2.0
        "SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M", "93efa2f097d58c2a74874c7e644dbc9b0cee75a2"
    ),
}


class Checkpoint:
    """A folder with a model and its tokenizer; small if it is the course's own."""

    def __init__(self, folder: Path, *, small: bool, device: Device = "cpu") -> None:
        self.folder = folder
        self.small = small
        self.device = device

    @cached_property
    def model(self) -> PreTrainedModel:
        """The model in float32, frozen, on the device; loaded when first needed."""
        return on_device(load(self.folder), self.device)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer from the model's folder. Raises: ShapeError if there is none."""
        path = self.folder / "tokenizer.json"
        rule = "the tokenizer must be next to the model"
        got = f"none in {self.folder.name}"
        expected = "a file tokenizer.json"
        require(path.is_file(), "open_checkpoint", rule, expected=expected, got=got)
        return Tokenizer.from_file(str(path))

    def encode(self, text: str) -> tuple[Tensor, list[str]]:
        """Return a text's ids (1, S), on the device, and its tokens as words; · marks a space
        before one.
        """
        ids = self.tokenizer.encode(text).ids
        longest = self.model.config.max_position_embeddings
        if not 0 < len(ids) <= longest:
            rule = f"the text has {len(ids)} tokens: 1 to {longest} can be read"
            got = f"{len(ids)} in {text[:40]!r}"
            raise SentenceError("encode", rule, expected=f"1 to {longest} tokens", got=got)
        return torch.tensor([ids], device=self.device), [self.token(number) for number in ids]

    def token(self, number: int) -> str:
        """Return the token of an id as a word."""
        return str(self.tokenizer.id_to_token(number)).replace("Ġ", "·").replace("▁", "·")

    def likeliest(self, logits: Tensor, count: int = 5) -> str:
        """Name the tokens with the highest logits (V,), each with its probability."""
        values, ids = logits.softmax(-1).topk(count)
        return "  ".join(
            f"“{self.token(n)}” {p:.2f}" for n, p in zip(ids.tolist(), values.tolist(), strict=True)
        )

    def untrained(self, seed: int = 0) -> PreTrainedModel:
        """Return a model of the same architecture with random parameters."""
        with seeded(seed):
            model = type(self.model)(self.model.config)
        return on_device(model.eval().requires_grad_(False), self.device)


def on_device(model: PreTrainedModel, device: Device) -> PreTrainedModel:
    """Move a model to a device, and return it."""
    nn.Module.to(model, device)
    return model


def load(folder: Path) -> PreTrainedModel:
    """Build a model from its folder with transformers and "eager" attention, which can return its
    weights. No code from the folder runs.

    Raises: ShapeError if transformers cannot open it.
    """
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    enable_progress_bars()  # also download bars, if the line above hides progress
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        architecture = getattr(transformers, config.architectures[0])
        model = architecture.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32, use_safetensors=True
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        rule = "transformers cannot open this model"
        expected = "config.json and safetensors of a model that it knows"
        raise ShapeError("load", rule, expected=expected, got=_first_line(error)) from error
    return model.eval().requires_grad_(False)


def shipped(family: str) -> Path:
    """Return the folder of a family's small checkpoint, which comes with the course."""
    return Path(__file__).parents[2] / "data" / "checkpoints" / family


def fetch(repo: str, revision: str | None = None) -> Path:
    """Return a published model's folder in huggingface_hub's cache, downloading it if needed.

    HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE work as usual.

    Raises: ShapeError if it cannot be downloaded.
    """
    try:
        if try_to_load_from_cache(repo, "config.json", revision=revision) is None:
            # Without a network this fails immediately; a download would retry for half a minute.
            get_hf_file_metadata(hf_hub_url(repo, "config.json", revision=revision))
        folder = Path(hf_hub_download(repo, "config.json", revision=revision)).parent
        get = partial(hf_hub_download, repo, revision=folder.name)  # from the same commit
        get("tokenizer.json")
        try:
            get(WEIGHTS)
        except RemoteEntryNotFoundError:  # larger models have several files
            index = json.loads(Path(get(INDEX)).read_text(encoding="utf-8"))
            for file in sorted(set(index["weight_map"].values())):
                get(file)
        return folder
    except Exception as error:
        rule = f"{repo} cannot be fetched"
        expected = "the name of a public model, and a network or the files in the cache"
        raise ShapeError("fetch", rule, expected=expected, got=_first_line(error)) from error


def _first_line(error: Exception) -> str:
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first[:160]}"


def open_checkpoint(name: str | Path, *, real: bool = False, device: Device = "cpu") -> Checkpoint:
    """Open a family's small checkpoint, or the published one; print a line saying which.

    Args: name is one of PUBLISHED, your own folder, or ``owner/name`` on the hub; real, or
        MHA_COURSE_REAL=1, opens the published one. If it cannot be downloaded, the small one is
        opened, and the line says why. The model is moved to the device.
    Raises: ShapeError if your own name is unknown, or cannot be downloaded.
    """
    if name not in PUBLISHED:
        return _open_own(name, device)
    published = PUBLISHED[str(name)]
    small = f"the course's small checkpoint in the format of {published.title}"
    if real or os.environ.get("MHA_COURSE_REAL") == "1":
        try:
            folder = fetch(published.repo, published.revision)
        except ShapeError as error:
            print(f"{error.rule} ({error.got}). This is {small}.")
        else:
            print(f"{published.title}, as it is published.")
            return Checkpoint(folder, small=False, device=device)
    else:
        print(f"This is {small}.")
    return Checkpoint(shipped(str(name)), small=True, device=device)


def _open_own(name: str | Path, device: Device) -> Checkpoint:
    folder = Path(name).expanduser()
    if folder.is_dir():
        print(f"{folder.name}, from your folder.")
        return Checkpoint(folder, small=False, device=device)
    rule = "no model has this name"
    expected = f"{', '.join(PUBLISHED)}, a folder, or OWNER/NAME of a public model"
    require("/" in str(name), "open_checkpoint", rule, expected=expected, got=repr(str(name)))
    opened = Checkpoint(fetch(str(name)), small=False, device=device)
    print(f"{name}, as it is published.")
    return opened


def stored_attention(folder: Path, layer: int = 0) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a layer's attention tensors in the file, without reading
    numbers; norms and stored masks are left out.
    """
    in_layer = re.compile(rf"\b(h|layers?)\.{layer}\.(attn|attention|self_attn)\.(?!.*norm)", re.I)
    with safe_open(folder / WEIGHTS, "pt") as file:
        shapes = {
            name: tuple(file.get_slice(name).get_shape())
            for name in sorted(file.keys())
            if in_layer.search(name)
        }
    return {name: shape for name, shape in shapes.items() if len(shape) <= 2}


def attention_weights(model: PreTrainedModel, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the weights of every head of every layer, (L, B, H, S, S).

    Args: ids (B, S); mask (B, S) is bool, True = a token.
    """
    padding = None if mask is None else mask.long()
    weights = model(ids, attention_mask=padding, output_attentions=True).attentions
    return torch.stack(weights)  # (L, B, H, S, S)


def all_heads(model: PreTrainedModel) -> list[Head]:
    """Return the layer and head index of every head in a model."""
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    return [(layer, head) for layer in range(layers) for head in range(heads)]


@contextmanager
def heads_off(gpt2: PreTrainedModel, heads: Sequence[Head]) -> Iterator[None]:
    """Ablate heads of a GPT-2 inside ``with``: set their context to 0.

    Args: heads are pairs of a layer and a head, both counted from 0.
    """
    width = gpt2.config.hidden_size // gpt2.config.num_attention_heads
    with ExitStack() as hooks:
        for layer, head in heads:
            project = gpt2.get_submodule(f"transformer.h.{layer}.attn.c_proj")
            columns = torch.arange(head * width, (head + 1) * width, device=gpt2.device)
            hook = partial(_without, columns)
            hooks.enter_context(project.register_forward_pre_hook(hook))
        yield


def _without(columns: Tensor, module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
    return inputs[0].index_fill(-1, columns, 0.0)  # (B, S, C)


def previous_token_scores(weights: Tensor) -> Tensor:
    """Return each head's mean weight on the previous token, (L, B, H, S, S) -> (L, H)."""
    return weights.diagonal(-1, -2, -1).mean((1, 3))


def induction_scores(weights: Tensor, period: int) -> Tensor:
    """Return each head's mean weight on what followed this token one period ago, (L, H).

    Args: weights (L, B, H, S, S), for sequences of two periods.
    """
    return weights[..., period:, :].diagonal(1, -2, -1).mean((1, 3))


def top_heads(scores: Tensor, count: int = 4) -> list[Head]:
    """Return the layer and head of the highest scores (L, H), highest first."""
    places = scores.flatten().topk(count).indices.tolist()
    return [divmod(place, scores.size(1)) for place in places]


def in_tokens(
    tokenizer: Tokenizer, texts: Sequence[Sentence], *, device: Device = "cpu"
) -> tuple[list[Sentence], Tensor, Tensor]:
    """Return texts with pairs of token positions, their ids (N, S), and a mask (N, S), True = a
    token, both on the device.

    For a word in several pieces, the last one counts.
    """
    encodings = tokenizer.encode_batch([text.words for text in texts], is_pretokenized=True)
    placed = []
    for text, encoding in zip(texts, encodings, strict=True):
        last = {word: place for place, word in enumerate(encoding.word_ids) if word is not None}
        pairs = {
            name: tuple((last[a], last[b]) for a, b in pairs) for name, pairs in text.pairs.items()
        }
        placed.append(replace(text, words=tuple(encoding.tokens), pairs=pairs))
    rows = [torch.tensor([encoding.ids, encoding.attention_mask]).T for encoding in encodings]
    ids, mask = pad_sequence(rows, batch_first=True).to(device).unbind(-1)  # (N, S) each
    return placed, ids, mask.bool()
