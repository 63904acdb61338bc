"""The running example: one sentence, and a small trained model that guesses hidden words.

Axes: B sentences, S tokens, C = d_model width, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.types import Device

from mha_course.attention import MultiHeadAttention
from mha_course.datasets.grammar import MAX_WORDS, sentences, vocabulary, word_classes, words_of
from mha_course.errors import require, require_words
from mha_course.models import MaskedWordModel, masked_word_loss, seeded, train

SENTENCE = "the grey cat that chased the loud dogs was hungry , so it ate greedily"
WEIGHTS = Path(__file__).parent / "data" / "masked_word_model.npz"
PAD, MASK = 0, 1
LEARNING_RATE = 3e-3
_CHOSEN, _POOL, _BATCH = 0.2, 40_000, 128


@dataclass(frozen=True)
class Example:
    """A sentence inside the trained model, at the input of the last layer's attention."""

    tokens: tuple[str, ...]  # S words
    x: Tensor  # (1, S, C), float32: the first layer's output, normalised
    mha: MultiHeadAttention  # the last layer's attention, trained
    model: MaskedWordModel

    @property
    def projections(self) -> dict[str, Tensor]:
        """The weights w_q … w_o, each (C, C) as (out, in), and the biases b_q … b_o, each (C,)."""
        names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
        linears = {name: getattr(self.mha, linear) for name, linear in names.items()}
        weights = {f"w_{name}": linear.weight for name, linear in linears.items()}
        return weights | {f"b_{name}": linear.bias for name, linear in linears.items()}


def load(sentence: str = SENTENCE, *, device: Device = "cpu") -> Example:
    """Load the trained model and run one sentence up to its last layer's attention.

    Args: sentence is at most 15 words of the grammar, separated by spaces.
    Raises: ShapeError for an unknown word, no words, or too many.

    >>> example = load()
    >>> example.tokens[2], example.x.shape
    ('cat', torch.Size([1, 15, 48]))
    """
    words = words_of(sentence)
    ids, _ = encode([words], device=device)
    model = trained_model().to(device)
    with torch.no_grad():
        x = model.attention_inputs(ids)[-1]  # (B, S, C)
    return Example(tuple(words), x, model.blocks[-1].attention, model)


def guess(
    sentence: str, count: int = 3, *, model: MaskedWordModel | None = None
) -> list[tuple[str, float]]:
    """Guess the one word hidden by ``<mask>``: (word, probability), likeliest first.

    Args: model defaults to the trained one that ships.
    Raises: ShapeError unless exactly one word is hidden and all others are known.
    """
    model = model or trained_model()
    ids, _ = encode([sentence], device=model.device)
    positions = (ids[0] == MASK).nonzero().flatten().tolist()
    got = f"{len(positions)} in {sentence!r}"
    require(len(positions) == 1, "guess", "one word must be hidden", expected="one <mask>", got=got)
    with torch.no_grad():
        probabilities = model(ids)[0, positions[0]].softmax(-1)  # (V,)
    best = probabilities.topk(count)
    words = [vocabulary()[number] for number in best.indices.tolist()]
    return list(zip(words, best.values.tolist(), strict=True))


def require_texts(place: str, texts: object) -> None:
    """Require a list of sentences, or of lists of their words."""
    rule = "texts must be a list"
    valid = isinstance(texts, list | tuple)
    expected = "sentences, or lists of their words"
    fix = "[texts]" if isinstance(texts, str) else None
    require(valid, place, rule, expected=expected, got=repr(texts)[:60], fix=fix)


def encode(texts: Sequence[str | Sequence[str]], *, device: Device = None) -> tuple[Tensor, Tensor]:
    """Turn words into ids (B, S), padded on the right, and a mask (B, 1, 1, S), True = a real word.

    Args: texts are sentences, or lists of their words.
    Raises: SentenceError for an unknown word, or if there are no words.

    >>> ids, mask = encode(["The cat.", ["the", "grey", "cat"]])
    >>> mask[:, 0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    require_texts("encode", texts)
    index = _index()
    rows = []
    for text in texts:
        words = words_of(text) if isinstance(text, str) else text
        require_words("encode", words, index, "grammar.vocabulary()")
        rows.append(torch.tensor([index[word] for word in words], device=device))
    ids = pad_sequence(rows, batch_first=True, padding_value=PAD)  # (B, S)
    return ids, (ids != PAD)[:, None, None]


def new_model(seed: int) -> MaskedWordModel:
    """Return the untrained model, the same for the same seed."""
    with seeded(seed):
        return MaskedWordModel(
            len(vocabulary()), MAX_WORDS, d_model=48, num_heads=4, d_ff=128, num_layers=2
        )


def train_model(
    seed: int, *, steps: int = 3000, progress: bool = True
) -> tuple[MaskedWordModel, list[float]]:
    """Train from a seed, reproducibly on one machine; also return the losses in nats per word."""
    model = new_model(seed)
    batches = training_batches(seed)
    losses = train(
        model, batches, masked_word_loss, steps=steps, lr=LEARNING_RATE, progress=progress
    )
    return model.eval().requires_grad_(False), losses


def training_batches(seed: int, split: str = "train") -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield endless batches: ids (B, S) with words hidden, mask (B, 1, 1, S), targets (B, S).

    A fifth of the words are chosen; half become ``<mask>``, half another word of their class. Their
    targets are the true words; all other targets are -100.
    """
    generator = torch.Generator().manual_seed(seed)
    ids, _ = encode([s.words for s in sentences(_POOL, split, seed)], device="cpu")
    while True:
        true = ids[torch.randint(len(ids), (_BATCH,), generator=generator, device="cpu")]  # (B, S)
        drawn = torch.rand(3, *true.shape, generator=generator, device="cpu")  # (3, B, S)
        dice, coin, pick = drawn  # (B, S) each
        chosen = (dice < _CHOSEN) & (true != PAD)  # (B, S)
        noise = torch.where(coin < 0.5, _other_word(true, pick), MASK)  # (B, S)
        hidden = torch.where(chosen, noise, true)  # (B, S)
        targets = torch.where(chosen, true, -100)  # (B, S)
        yield hidden, (true != PAD)[:, None, None], targets


def save(model: MaskedWordModel, path: Path = WEIGHTS) -> None:
    """Write the weights as plain arrays, which load without unpickling."""
    np.savez(path, **{name: tensor.numpy() for name, tensor in model.state_dict().items()})


def trained_model(path: Path = WEIGHTS) -> MaskedWordModel:
    """Load the shipped weights, on the CPU, in evaluation mode and without gradients."""
    model = new_model(0)
    with np.load(path, allow_pickle=False) as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    return model.eval().requires_grad_(False)


@cache
def _index() -> dict[str, int]:
    return {word: i for i, word in enumerate(vocabulary())}


@cache
def _classmates() -> tuple[Tensor, Tensor]:
    """Return, for each word, the others of its class (V, longest) and how many there are (V,)."""
    classes = {word: group for group in word_classes() for word in group}
    rows = []
    for word in vocabulary():
        others = [other for other in classes.get(word, ()) if other != word] or [word]
        rows.append(torch.tensor([_index()[other] for other in others], device="cpu"))
    counts = torch.tensor([len(row) for row in rows], device="cpu")
    return pad_sequence(rows, batch_first=True, padding_value=PAD), counts


def _other_word(ids: Tensor, pick: Tensor) -> Tensor:
    """Replace each word with another of its class, chosen by a number in [0, 1)."""
    others, counts = _classmates()
    return others[ids, (pick * counts[ids]).long()]  # (B, S)
