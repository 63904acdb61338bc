"""Other people's letters in patterns, translated to the course's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

Words = dict[str, tuple[str, ...]]  # by argument
Sizes = Mapping[str, int]
Tensors = dict[str, torch.Tensor]
COURSE = {*"BTSCH"}  # unambiguous unless other letters are present
HEADS = (
    "num_heads", "n_heads", "n_head", "nhead", "num_attention_heads", "heads", "num_head",
    "nheads", "head_num", "num_attn_heads", "attn_heads", "attention_heads",
    "n_attention_heads", "number_of_heads",
)  # fmt: skip
KV_HEADS = ("num_kv_heads", "n_kv_heads", "num_key_value_heads", "n_kv_head")
_LETTERS = {  # other people's
    "B": "b bs batch batch_size",
    "C": "c dim embed embed_dim d_model hidden hidden_size width",
    "H": " ".join(("h", *HEADS)),
    "D": "dh d_head head_dim d_k",
    "H_kv": " ".join(KV_HEADS),
    "T": "t",
    "S": "s",
    "E": "e",
}
LETTERS = {word: name for name, words in _LETTERS.items() for word in words.split()}
IMAGE = {"N": "B", "H": "Y", "W": "X"}  # H and W together are not heads
TORCH = {"N": "B", "E": "C"}  # if they occur together, as in torch's documentation


def read(words: Sequence[str], every: Sequence[str]) -> tuple[str, ...]:
    """Translate the words of one pattern.

    Args: ``every`` has the letters of all patterns, which identify torch's.
    """
    upper = {letter.upper() for letter in every}
    are_torchs = {"N", "E"} <= upper and "B" not in upper
    rows = [[_read(part, words, are_torchs) for part in word.split("*")] for word in words]
    return tuple(map("*".join, rows))


def _read(letter: str, words: Sequence[str], are_torchs: bool) -> str:
    name = LETTERS.get(letter, letter)
    if {"H", "W"} <= {word.upper() for word in words}:
        return IMAGE.get(letter.upper(), name)
    if are_torchs:
        return TORCH.get(letter.upper(), name)
    if letter == "d":  # With heads, d is the width of one.
        return "D" if {"h", "H", "heads"} & set(words) else "C"
    return name


def read_by_sizes(rows: Words, tensors: Tensors, sizes: Sizes, hints: Sizes) -> None:
    """Translate again using sizes: channels of pictures, and widths called D or E."""
    _channels(rows, tensors, {**hints, **sizes})
    _whole_widths(rows, tensors, sizes, hints)


def _channels(patterns: Words, tensors: Tensors, known: Sizes) -> None:
    """Read C as a picture's channels if it cannot be the width."""
    for name, words in patterns.items():
        sizes = dict(zip(words, tensors[name].shape, strict=True))
        number = sizes.get("C", 0)
        is_width = "D" in known or number % known.get("H", 1) == 0
        if {"Y", "X"} <= sizes.keys() and not (number == known["C"] if "C" in known else is_width):
            patterns[name] = tuple("Ch" if word == "C" else word for word in words)


def _whole_widths(patterns: Words, tensors: Tensors, sizes: Sizes, hints: Sizes) -> None:
    """Read D or E as C if it can only be the whole width: several heads, but no axis H."""
    size_of: dict[str, int] = {}
    for name, row in patterns.items():
        size_of |= zip(row, tensors[name].shape, strict=True)
    written = {part for word in size_of for part in word.split("*")}
    heads = sizes.get("H", hints.get("H", 1))
    if "C" in written:
        return
    for letter in sorted({"D", "E"} & {row[-1] for row in patterns.values()} - sizes.keys()):
        size = size_of[letter]
        several = "H" not in written and heads > 1 and not size % heads and hints.get("D") != size
        if {**hints, **sizes}.get("C", size) == size and (letter == "E" or several):
            for name, row in patterns.items():
                parts = [["C" if x == letter else x for x in word.split("*")] for word in row]
                patterns[name] = tuple(map("*".join, parts))
