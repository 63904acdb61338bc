"""Patterns guessed from shapes and the sizes that modules declare, where axes= was not given."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mha_course.tracing import patterns
from mha_course.tracing.patterns import Sizes, Tensors, Words

MASKS = ("T S", "B S", "B T S", "H T S", "B 1 T S", "B 1 1 S", "1 1 T S", "B H T S")


def guess(modules: Sequence[nn.Module], tensors: Tensors, hints: Sizes) -> Words:
    """Return the patterns that tensors have by what modules or a call declare of their sizes.

    Args: ``hints`` has H, or C and D, as ``patterns.declared`` finds them; without them nothing
        is guessed.
    """
    heads = hints.get("H", 0)
    width = hints.get("C", heads * hints.get("D", 0))
    parts = [part for module in modules for part in module.modules()]
    inputs = {part.in_features for part in parts if isinstance(part, nn.Linear)}
    channels = {part.in_channels for part in parts if isinstance(part, nn.Conv2d)}
    embeds = any(isinstance(part, nn.Embedding) for part in parts)
    first = any(getattr(part, "batch_first", None) is False for part in parts)
    rows: Words = {}
    for name, x in tensors.items():
        last = x.shape[-1] if x.dim() else 0
        fits = last == width if width else bool(heads)
        fits = fits and last > 0 == last % max(heads, 1) and (last in inputs or not inputs)
        if x.dim() == 2 and embeds and patterns.is_ids(x):
            rows[name] = ("B", "S")
        elif x.dim() == 4 and x.shape[1] in channels:
            rows[name] = ("B", "C", "Y", "X")
        elif x.dim() == 3 and x.is_floating_point() and fits:
            rows[name] = ("S", "B", "C") if first else ("B", "S", "C")
    with_tokens = [name for name, words in rows.items() if "S" in words]
    if len({tensors[name].shape[rows[name].index("S")] for name in with_tokens}) > 1:
        own = with_tokens[0]  # queries of their own come first
        rows[own] = tuple("T" if word == "S" else word for word in rows[own])
    sizes = dict(patterns.words_and_sizes(rows, tensors))
    if len(set(patterns.words_and_sizes(rows, tensors))) > len(sizes):  # a name has one size
        return {}
    known = {"H": heads, "T": sizes.get("S", 0), "1": 1} | sizes
    for name, x in tensors.items():
        shape = tuple(x.shape)
        like = [row for row in map(str.split, MASKS) if tuple(map(known.get, row)) == shape]
        if name not in rows and len(like) == 1 and ("mask" in name or "bias" in name):
            rows[name] = tuple(like[0])
    return rows


def described(rows: Words) -> str:
    """Return the note that says what was guessed, or how to name axes where nothing was."""
    if not rows:
        return (
            "axes= was not given, and no module declares sizes to guess from: name them, as in "
            'axes="B S C" for batch, tokens and width'
        )
    read = ", ".join(f"{name} is {' '.join(words)}" for name, words in rows.items())
    return f"axes= was not given, so they were guessed from the sizes that modules declare: {read}"
