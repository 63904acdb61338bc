"""The lab of lesson 11: how many bytes a KV cache takes compared with the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mha_course.lessons.l11_kv_cache.model_sizes import MODELS, Published, amount, length
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels, bars, lines, table

TOKENS = tuple(1024 * 2**power for power in range(8))
BATCHES = (1, 2, 4, 8, 16, 32, 64)
STORED = {"float32": 4, "float16": 2, "int8": 1}
GIB = 2**30
LEAST, MOST = 2.0**-8, 2.0**17  # GiB: the controls' whole range
_BY_NAME = {model.name: model for model in MODELS if not model.latent}
_HEADS = {model.num_heads for model in _BY_NAME.values()}
_GROUPS = tuple(g for g in range(1, max(_HEADS) + 1) if any(heads % g == 0 for heads in _HEADS))


class CacheLab(Lab):
    """Choose a published model, and see how large its cache is for texts of any length and number.

    The number of KV heads starts as published, and takes values that divide the model's heads.
    Weights are counted in float16.
    """

    question = "When does the cache outgrow the model?"

    def __init__(self) -> None:
        model = _BY_NAME["Llama 3 8B"]
        controls = [
            Control("model", "model", "menu", model.name, tuple(_BY_NAME)),
            Control("tokens", "tokens", "slider", 4096, TOKENS, tuple(map(length, TOKENS))),
            Control("batch", "texts at once", "slider", 1, BATCHES),
            Control("num_kv_heads", "KV heads", "slider", model.num_kv_heads, _GROUPS),
            Control("stored", "cache stored as", "choice", "float16", tuple(STORED)),
        ]
        super().__init__(controls)

    def reconcile(self, values: dict[str, Any], moved: Mapping[str, Any]) -> dict[str, Any]:
        """Reset KV heads for a new model, and round the slider to a divisor of its heads."""
        model = _BY_NAME[values["model"]]
        groups = values["num_kv_heads"]
        if "model" in moved and "num_kv_heads" not in moved:
            groups = model.num_kv_heads
        fitting = [g for g in _GROUPS if model.num_heads % g == 0]
        upward = groups > self.values["num_kv_heads"]
        if upward:
            nearest = next((g for g in fitting if g >= groups), fitting[-1])
        else:
            nearest = max(g for g in fitting if g <= groups)
        return {**values, "num_kv_heads": nearest}

    def draw(
        self, model: str, tokens: int, batch: int, num_kv_heads: int, stored: str
    ) -> tuple[Panels, str]:
        """Draw cache and weights as bars and against text length, and a table of both."""
        chosen = _BY_NAME[model]
        at = TOKENS.index(tokens)
        options = {"num_kv_heads": num_kv_heads, "bytes_per_value": STORED[stored]}
        sizes = [chosen.cache_bytes(count, batch=batch, **options) for count in TOKENS]
        cache = [size / GIB for size in sizes]
        weights = chosen.weight_bytes / GIB
        drawn = [
            {"name": "weights", "style": "faint", "values": [weights] * len(TOKENS)},
            {"name": "cache", "style": "main", "values": cache},
        ]
        pair = [cache[at], weights]
        axes: dict[str, Any] = {"low": LEAST, "high": MOST, "doublings": True}
        axes["xlabel"] = "k tokens; both axes in doublings"
        panels = (
            bars("GiB", ["cache", "weights"], pair, high=max(pair), highlighted=[0]),
            self._table(chosen, sizes[at], chosen.cache_bytes(1, **options), num_kv_heads),
            lines("GiB, along the length", [n // 1024 for n in TOKENS], drawn, at=at, **axes),
        )
        limit = ""
        if tokens > chosen.context:
            limit = f" The model itself is made for {chosen.context:,} tokens."
        texts = "1 text" if batch == 1 else f"{batch} texts"
        return panels, (
            f"{model}, {texts} of {length(tokens)} tokens, {num_kv_heads} KV heads for "
            f"{chosen.num_heads} heads, {stored}: the cache takes {amount(sizes[at])}, "
            f"{sizes[at] / chosen.weight_bytes:.2f} times the weights "
            f"({amount(chosen.weight_bytes)}).{limit}"
        )

    @staticmethod
    def _table(model: Published, cache: int, token: int, num_kv_heads: int) -> dict[str, Any]:
        rows = [
            ["layers × KV heads × D", f"{model.layers} × {num_kv_heads} × {model.head_dim}"],
            ["heads that share one", f"{model.num_heads // num_kv_heads}"],
            ["a token", amount(token)],
            ["cache", amount(cache)],
            ["weights, float16", amount(model.weight_bytes)],
        ]
        published = model.num_kv_heads
        kv = "as published" if num_kv_heads == published else f"published: {published}"
        return table("bytes", ("", model.name), rows, f"KV heads {kv}. 1 KiB is 1,024 bytes.")
