"""The lab of lesson 11: every control, its numbers, and heads that do not divide."""

import itertools

import pytest
import torch

from mha_course.lessons.l11_kv_cache.lab import BATCHES, STORED, TOKENS, CacheLab
from mha_course.lessons.l11_kv_cache.model_sizes import MODELS

DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8}


def test_it_says_what_tensors_would_take():
    lab = CacheLab()
    lab.set(model="GPT-2 XL")
    lab.set(tokens=1024, batch=2, num_kv_heads=5)
    for stored, dtype in DTYPES.items():
        lab.set(stored=stored)
        layer = torch.empty(2, 2, 5, 1024, 64, dtype=dtype)  # keys and values
        mib = 48 * layer.numel() * layer.element_size() / 2**20
        assert f"the cache takes {mib:.{0 if mib >= 100 else 1}f} MiB" in lab.text
        assert repr(lab) == f"CacheLab: {lab.text}"
    assert set(DTYPES) == set(STORED)


@pytest.mark.parametrize(
    "model", [model for model in MODELS if not model.latent], ids=lambda model: model.name
)
def test_every_model_starts_as_published_and_every_control_moves(model):
    lab = CacheLab()
    lab.set(model=model.name)
    assert lab.values["num_kv_heads"] == model.num_kv_heads
    assert f"{model.num_kv_heads} KV heads for {model.num_heads} heads" in lab.text
    for tokens, batch in itertools.product(TOKENS, BATCHES):
        lab.set(tokens=tokens, batch=batch)
        assert ("is made for" in lab.text) == (tokens > model.context)
    cache, weights = lab.state["panels"][0]["values"]
    assert cache == pytest.approx(
        model.cache_bytes(TOKENS[-1], batch=BATCHES[-1]) / 2**30, rel=1e-3
    )
    assert weights == pytest.approx(model.weight_bytes / 2**30, rel=1e-3)
    assert lab.state["trouble"] == ""


def test_kv_heads_rest_only_where_they_divide_the_heads():
    lab = CacheLab()
    lab.set(model="Llama 2 7B")
    for wished, found in ((16, 16), (25, 32), (5, 4), (1, 1), (5, 8), (71, 32)):
        lab.set(num_kv_heads=wished)
        assert lab.values["num_kv_heads"] == found, wished


def test_bars_lines_and_table_agree():
    bars, table, lines = CacheLab().state["panels"]
    at = lines["at"]
    cache = next(line["values"] for line in lines["lines"] if line["name"] == "cache")
    assert cache[at] == bars["values"][0] == 0.5
    assert ["cache", "512 MiB"] in table["rows"]
    assert ["a token", "128 KiB"] in table["rows"]
    assert cache[-1] == pytest.approx(128 / 4 * cache[at], rel=1e-3)
