"""Limits of ablation: how far it moves a model, and structure smaller than a head.

Axes: N sentences, C width, D head width, n directions in it, V words in the vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from mha_course.datasets.grammar import PRONOUNS, Sentence, vocabulary
from mha_course.example import MASK, encode
from mha_course.experiments.head_analysis import Head, ablate_heads, all_heads, around_attention
from mha_course.models import MaskedWordModel


def after_attention(model: MaskedWordModel, texts: Sequence[Sentence], layer: int) -> Tensor:
    """Return the hidden word's vector in each sentence after a layer's attention, (N, C)."""
    ids, mask = encode([text.words for text in texts], device=model.device)
    return around_attention(model, ids, mask, layer)[1][ids == MASK]


def distance_moved(
    model: MaskedWordModel, texts: Sequence[Sentence], known: Sequence[Sentence],
    means: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return how far ablating each head moves hidden words from all known ones, (L·H,).

    That is the mean distance, after the head's layer, to the nearest hidden word of known sentences
    in the intact model, divided by the distance without ablation. means is as for ``ablate_heads``.
    """
    ratios = []
    for layer, head in all_heads(model):
        known_words = after_attention(model, known, layer)
        ablated = ablate_heads(model, [(layer, head)], means)
        moved, intact = (
            torch.cdist(after_attention(variant, texts, layer), known_words).amin(1).mean()
            for variant in (ablated, model)
        )
        ratios.append(moved / intact)
    return torch.stack(ratios)


@torch.no_grad()
def pronoun_directions(model: MaskedWordModel, layer: int, head: int) -> Tensor:
    """Return directions in a head's values that separate it, he, she and they, (3, D).

    They span the differences between the mean values of each pronoun's nouns.
    """
    block = model.blocks[layer]
    width = model.encoder.norm.weight.numel() // block.attention.num_heads
    words = block.attention_input(model.token_embedding.weight)
    values = block.attention.v_proj(words)[:, width * head : width * (head + 1)]  # (V, D)
    index = {word: number for number, word in enumerate(vocabulary())}
    means = [
        values[[index[noun] for noun, its in PRONOUNS.items() if its == pronoun]].mean(0)
        for pronoun in sorted(set(PRONOUNS.values()))
    ]
    centred = torch.stack(means) - torch.stack(means).mean(0)  # (4, D), of rank 3
    return torch.linalg.svd(centred, full_matrices=False).Vh[:-1]  # (3, D)


@torch.no_grad()
def ablate_directions(model: MaskedWordModel, head: Head, directions: Tensor) -> MaskedWordModel:
    """Return a copy with the context of one head projected off directions (n, D)."""
    ablated = copy.deepcopy(model)
    layer, number = head
    width = directions.size(1)
    weight = ablated.blocks[layer].attention.out_proj.weight
    columns = slice(width * number, width * (number + 1))
    weight[:, columns] -= weight[:, columns] @ directions.T @ directions  # orthonormal rows
    return ablated


def words_read_back(vectors: Tensor, count: int, generator: torch.Generator) -> float:
    """Return how often a sum of count word vectors reveals which words were added, 0 to 1.

    The vectors (V, C) are centred and normalised; the words read are those with the largest dot
    products with the sum.
    """
    centred = vectors - vectors.mean(0)
    units = centred / centred.norm(dim=1, keepdim=True)  # (V, C)
    drawn = torch.rand(2000, len(units), generator=generator, device="cpu")
    added = drawn.argsort(-1)[:, :count].to(units.device)
    read = (units[added].sum(1) @ units.T).topk(count).indices  # (2000, count)
    right = added.sort(-1).values == read.sort(-1).values
    return right.all(-1).float().mean().item()
