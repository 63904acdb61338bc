"""What happens to the trained model when its heads have to share keys and values.

Axes: G key-value heads.
"""

from __future__ import annotations

import copy

import torch

from mha_course import example
from mha_course.attention import attention
from mha_course.caching import GroupedQueryAttention, KVCache, decode_chunk, repeat_kv
from mha_course.datasets.grammar import sentences
from mha_course.experiments import precomputed
from mha_course.experiments.costs import count_flops
from mha_course.experiments.head_analysis import accuracy
from mha_course.models import MaskedWordModel, masked_word_loss, seeded, train

TRAINING_STEPS = 3000  # of the model that ships
SHARE = 0.05
RELATIONS = ("pronoun", "adjective", "state")
STARTS = {
    "mean of the group": ("mean", 2),
    "first of the group": ("first", 2),
    "drawn anew": ("anew", 2),
    "a new model": ("new model", 2),
    "mean, one KV head": ("mean", 1),
}  # how the key-value heads begin, and their number
SEEDS = (1, 2, 3)
RATES = (1e-3, 3e-3)  # the second is that of the model that ships

# Of every seed, before and after: right guesses of each relation.
Runs = dict[str, dict[str, list[float]]]


def costs_of(num_kv_heads: int) -> tuple[int, float, float, int]:
    """Count what one new word costs in a layer of eight query heads, 96 wide.

    Returns: its parameters, thousands of FLOPs of the projections and of attention to 1,024 words,
        and the bytes that the word takes in the cache.
    """
    module = GroupedQueryAttention(96, 8, num_kv_heads)
    word, kept = torch.zeros(1, 1, 96), KVCache()
    projections = count_flops(lambda: module(word)).projections
    kv = repeat_kv(torch.zeros(1, num_kv_heads, 1024, 12), 8)
    attending = count_flops(lambda: attention(torch.zeros(1, 8, 1, 12), kv, kv)).attention
    with torch.no_grad():
        decode_chunk(module, word, kept)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    return parameters, projections / 1e3, attending / 1e3, kept.bytes


def group_kv_heads(
    model: MaskedWordModel, num_kv_heads: int, start: str = "mean", *, seed: int = 0
) -> MaskedWordModel:
    """Return a copy in which, in each layer, so many key-value heads take the place of all.

    Args: start is "mean" of each group's heads, its "first" head, or drawn "anew", from the seed.
    Raises: ShapeError when they do not divide the heads. Reference: Ainslie et al. 2023, GQA,
        section 2.1, figure 4.
    """
    grouped = copy.deepcopy(model)
    for layer, block in enumerate(grouped.blocks):
        full = block.attention
        shared = GroupedQueryAttention.from_multi_head(full, num_kv_heads)
        for name in () if start == "mean" else ("k_proj", "v_proj"):
            linear = getattr(shared, name)
            if start == "first":
                heads = getattr(full, name).state_dict().items()
                size = (num_kv_heads, full.num_heads // num_kv_heads, -1)
                linear.load_state_dict(
                    {parameter: x.unflatten(0, size)[:, 0].flatten(0, 1) for parameter, x in heads}
                )
            else:
                with seeded(100 * seed + 10 * layer + (name == "v_proj")):
                    linear.reset_parameters()
        block.register_module("attention", shared)
    return grouped.requires_grad_(False)


def uptrain(
    model: MaskedWordModel, share: float = SHARE, *, seed: int = 1, rate: float = RATES[0]
) -> MaskedWordModel:
    """Return a copy that was trained for a share of the steps that the shipped model had, on one
    thread.

    Reference: Ainslie et al. 2023, GQA, sections 2.1 and 3.1.
    """
    trained = copy.deepcopy(model).requires_grad_(True).train()
    steps = round(share * TRAINING_STEPS)
    batches = example.training_batches(seed)
    train(trained, batches, masked_word_loss, steps=steps, lr=rate, progress=False)
    return trained.eval().requires_grad_(False)


def guesses(model: MaskedWordModel) -> list[float]:
    """Return the share of right guesses of hidden words, by relation, in 500 held-out sentences."""
    texts = sentences(500, "test", seed=2)
    return [round(float(accuracy(model, texts, name)), 3) for name in RELATIONS]


def uptrained(start: str, seed: int) -> dict[str, list[float]]:
    """Uptrain from one of STARTS; return the guesses "before", and after it with each rate."""
    grouping, groups = STARTS[start]
    model = example.new_model(seed) if grouping == "new model" else example.trained_model()
    grouped = group_kv_heads(
        model, groups, "anew" if grouping == "new model" else grouping, seed=seed
    )
    after = {f"{rate:g}": guesses(uptrain(grouped, seed=seed, rate=rate)) for rate in RATES}
    return {"before": guesses(grouped), **after}


def every_seed(start: str) -> Runs:
    """Uptrain from one of STARTS with each seed."""
    return {str(seed): uptrained(start, seed) for seed in SEEDS}


def load() -> dict[str, Runs]:
    """Return what ships: what ``uptrained`` found for every start and seed."""
    return precomputed.load().uptraining
