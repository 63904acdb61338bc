"""Guess patterns from shapes and the sizes that modules declare, if axes= is not given."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from mha_course.tracing import patterns
from mha_course.tracing.patterns import Sizes, Tensors, Words

MASKS = ("T S", "B S", "B T S", "H T S", "B 1 T S", "B 1 1 S", "1 1 T S", "B H T S")


def guess(modules: Sequence[nn.Module], tensors: Tensors, hints: Sizes) -> Words:
    """Return patterns for tensors from the sizes that modules or a call declare.

    Args: ``hints`` has H, or C and D, as ``patterns.declared`` finds them; without them, nothing is
        guessed.
    """
    heads = hints.get("H", 0)
    width = hints.get("C", heads * hints.get("D", 0))
    layers = [layer for module in modules for layer in module.modules()]
    inputs = {layer.in_features for layer in layers if isinstance(layer, nn.Linear)}
    channels = {layer.in_channels for layer in layers if isinstance(layer, nn.Conv2d)}
    embeds = any(isinstance(layer, nn.Embedding) for layer in layers)
    first = any(getattr(layer, "batch_first", None) is False for layer in layers)
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
        queries = with_tokens[0]  # separate queries come first
        rows[queries] = tuple("T" if word == "S" else word for word in rows[queries])
    sizes = dict(patterns.words_and_sizes(rows, tensors))
    # A wrong guess would be worse than none: every name must have one size.
    if len(set(patterns.words_and_sizes(rows, tensors))) > len(sizes):
        return {}
    size_of = {"H": heads, "T": sizes.get("S", 0), "1": 1} | sizes
    for name, x in tensors.items():
        shape = tuple(x.shape)
        fitting = [row for row in map(str.split, MASKS) if tuple(map(size_of.get, row)) == shape]
        if name not in rows and len(fitting) == 1 and ("mask" in name or "bias" in name):
            rows[name] = tuple(fitting[0])
    return rows


def described(rows: Words) -> str:
    """Return a note saying what was guessed, or how to name axes if nothing was."""
    if not rows:
        return (
            "axes= was not given, and no module declares sizes to guess from: name them, as in "
            'axes="B S C" for batch, tokens and width'
        )
    read = ", ".join(f"{name} is {' '.join(words)}" for name, words in rows.items())
    return f"axes= was not given, so they were guessed from the sizes that modules declare: {read}"
