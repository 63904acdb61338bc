"""Published checkpoints, opened to be read and measured: their files, their tokens, and their
heads.

Axes: N texts, S tokens, V tokens in the vocabulary, L layers, B sequences, H heads.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.types import Device

from mha_course.datasets.grammar import Sentence
from mha_course.errors import SentenceError, ShapeError, require
from mha_course.experiments.head_analysis import Head
from mha_course.models import checkpoints, seeded
from mha_course.models.published import PublishedModel

# What is fetched in the place of the small checkpoint of each family.
PUBLISHED = {"gpt2": "GPT-2 small", "bert": "BERT base", "smollm2": "SmolLM2-135M"}
SHIPPED = {"gpt2": "gpt2", "bert": "bert", "smollm2": "llama"}


@dataclass
class Checkpoint:
    """A folder with a model and its tokenizer; small where it is one of the course's own.

    The model is brought to the device, and ids are made there.
    """

    folder: Path
    small: bool
    device: Device = "cpu"

    @cached_property
    def model(self) -> PublishedModel:
        """The model, which is read when it is first needed, and again after ``del
        checkpoint.model``.
        """
        threads = 1 if self.small else None  # a second thread slows small ones
        return checkpoints.load(self.folder, num_threads=threads).to(self.device)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What cuts text into tokens."""
        path = self.folder / "tokenizer.json"
        rule = "the tokenizer must lie beside the model"
        got = f"none in {self.folder.name}"
        expected = "a file tokenizer.json"
        require(path.is_file(), "open_checkpoint", rule, expected=expected, got=got)
        return Tokenizer.from_file(str(path))

    def encode(self, text: str) -> tuple[Tensor, list[str]]:
        """Return the ids of a text (1, S), on the device, and its tokens as words; · stands for the
        space before a token.
        """
        ids = self.tokenizer.encode(text).ids
        if not ids:
            rule = "the text has no token"
            raise SentenceError("encode", rule, expected="at least one", got=repr(text))
        return torch.tensor([ids], device=self.device), [self.token(number) for number in ids]

    def token(self, number: int) -> str:
        """Return the token of an id as a word."""
        return str(self.tokenizer.id_to_token(number)).replace("Ġ", "·").replace("▁", "·")

    def likeliest(self, logits: Tensor, count: int = 5) -> str:
        """Name the tokens with the highest of some logits (V,), each with its probability."""
        shares, ids = logits.softmax(-1).topk(count)
        return "  ".join(
            f"“{self.token(n)}” {p:.2f}" for n, p in zip(ids.tolist(), shares.tolist(), strict=True)
        )

    def untrained(self, seed: int = 0) -> PublishedModel:
        """Return a model of the same architecture with random numbers in it."""
        config = checkpoints.read_config(self.folder, "untrained")
        with seeded(seed):
            model = checkpoints.build(config, "untrained")
        return model.to(self.device).eval().requires_grad_(False)


def open_checkpoint(name: str | Path, *, real: bool = False, device: Device = "cpu") -> Checkpoint:
    """Open the course's small checkpoint of a family, or the published one; print which, in one
    line.

    Args: name is one of PUBLISHED, a folder of one's own, or ``owner/name`` of the hub; real takes
        the published one, and so does MHA_COURSE_REAL=1. Where it cannot be fetched, the small one
        is opened, and the line says why. The model is brought to the device.
    Raises: ShapeError for a name of one's own that is none, or that cannot be fetched.
    """
    if name not in PUBLISHED:
        return _open_own(name, device)
    name = str(name)
    small = f"the course's small checkpoint in the format of {PUBLISHED[name]}"
    if not (real or os.environ.get("MHA_COURSE_REAL") == "1"):
        print(f"This is {small}.")
    else:
        try:
            opened = Checkpoint(checkpoints.fetch(name), small=False, device=device)
            print(f"{PUBLISHED[name]}, as it is published.")
            return opened
        except ShapeError as error:
            print(f"{PUBLISHED[name]} could not be fetched ({error.rule}). This is {small}.")
    return Checkpoint(checkpoints.shipped(SHIPPED[name]), small=True, device=device)


def _open_own(name: str | Path, device: Device) -> Checkpoint:
    folder = Path(name).expanduser()
    if folder.is_dir():
        print(f"{folder.name}, from your folder.")
        return Checkpoint(folder, small=False, device=device)
    rule = "no model has this name"
    expected = f"{', '.join(PUBLISHED)}, a folder, or OWNER/NAME of a public model"
    require("/" in str(name), "open_checkpoint", rule, expected=expected, got=repr(str(name)))
    opened = Checkpoint(checkpoints.fetch(str(name)), small=False, device=device)
    print(f"{name}, as it is published.")
    return opened


def stored_attention(folder: Path, layer: int = 0) -> dict[str, tuple[int, ...]]:
    """Return name and shape of each tensor of a layer's attention as the file has them, without
    reading numbers.
    """
    config = checkpoints.read_config(folder, "stored_attention")
    family = checkpoints.family_of(config, "stored_attention")
    names = [theirs for ours, theirs in family.names.items() if ".attention." in ours]
    modules = {name.replace("*", str(layer)) for name in names}
    with safe_open(folder / checkpoints.WEIGHTS, "pt") as file:
        return {
            name: tuple(file.get_slice(name).get_shape())
            for name in sorted(file.keys())
            if name.removeprefix(family.prefix).rpartition(".")[0] in modules
        }


class StoredAttention(nn.Module):
    """Let a function do the attention of a layer, with the tensors of its file.

    It is called on the CPU, as ``check`` calls it: a learner's function may make a mask there.
    """

    def __init__(
        self, function: Callable[..., Tensor], state: Mapping[str, Tensor], num_heads: int
    ) -> None:
        super().__init__()
        self.function = function
        self.state = state
        self.num_heads = num_heads

    def forward(self, x: Tensor, **_: Any) -> tuple[Tensor, None]:
        """Map x (B, S, C) to (B, S, C)."""
        return self.function(x.cpu(), self.state, self.num_heads).to(x.device), None


def with_attention(gpt2: Checkpoint, function: Callable[..., Tensor]) -> PublishedModel:
    """Return GPT-2 with ``function(x, state, num_heads)`` in the place of the attention of every
    layer.

    Args: state has the four tensors of a layer, named and stored as in the file, such as
        ``c_attn.weight``.
    """
    model = copy.deepcopy(
        gpt2.model, {id(parameter): parameter for parameter in gpt2.model.parameters()}
    )  # shared
    names = [f"{module}.{kind}" for module in ("c_attn", "c_proj") for kind in ("weight", "bias")]
    with safe_open(gpt2.folder / checkpoints.WEIGHTS, "pt") as file:
        stored = {name.removeprefix("transformer."): name for name in sorted(file.keys())}
        for layer, block in enumerate(model.blocks):
            state = {
                name: file.get_tensor(stored[f"h.{layer}.attn.{name}"]).float() for name in names
            }
            heads = block.attention.num_heads
            block.add_module("attention", StoredAttention(function, state, heads))
    return model


def previous_token_scores(weights: Tensor) -> Tensor:
    """Return each head's mean weight on the token before, (L, H), of weights (L, B, H, S, S)."""
    return weights.diagonal(-1, -2, -1).mean((1, 3))


def induction_scores(weights: Tensor, period: int) -> Tensor:
    """Return each head's mean weight on what came after this token one period ago, (L, H).

    Args: weights (L, B, H, S, S), of sequences with S = 2 periods.
    """
    return weights[..., period:, :].diagonal(1, -2, -1).mean((1, 3))


def first_token_share(weights: Tensor) -> Tensor:
    """Return each head's mean weight on the first token from all later ones, (L, H)."""
    return weights[..., 1:, 0].mean((1, 3))


def top_heads(scores: Tensor, count: int = 4) -> list[Head]:
    """Return layer and head of the highest scores, of scores (L, H), highest first."""
    places = scores.flatten().topk(count).indices.tolist()
    return [divmod(place, scores.size(1)) for place in places]


def in_tokens(
    tokenizer: Tokenizer, texts: Sequence[Sentence], *, device: Device = "cpu"
) -> tuple[list[Sentence], Tensor, Tensor]:
    """Return texts whose pairs are places of tokens, their ids (N, S), and a mask (N, S), True = a
    token, both on the device.

    Of a word in several pieces the last one counts.
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
