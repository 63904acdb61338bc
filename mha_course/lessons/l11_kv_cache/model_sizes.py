"""Published sizes of real models, and the sizes of their caches.

Each row names its source.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from mha_course.caching import kv_cache_bytes

FLOAT16 = 2  # bytes per number in float16 and bfloat16
ROTARY = 64  # numbers in DeepSeek-V3's cache that carry positions and serve only as keys


class Published(NamedTuple):
    """A decoder: its layers L, heads H, key-value heads G, head width D, parameters, longest text,
    and source.

    If latent is not 0, that many numbers per token and layer are cached instead of keys and values.
    local_layers of the layers cache at most a window of tokens, and together a state of fixed size,
    however long the text is.
    """

    name: str
    layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    parameters: float
    context: int
    source: str
    latent: int = 0
    local_layers: int = 0
    window: int = 0
    state: int = 0

    @property
    def flops_per_byte(self) -> float:
        """FLOPs of decoding's attention for each byte of a float16 cache, read once."""
        # q · k and weights · v; both read a latent, the values without its rotary part
        numbers = 2 * self.latent - ROTARY if self.latent else 2 * self.head_dim
        return 2 * self.num_heads * numbers * self.layers / self.cache_bytes(1)

    @property
    def weight_bytes(self) -> int:
        """Bytes of its parameters in float16."""
        return round(self.parameters * FLOAT16)

    def cache_bytes(
        self,
        tokens: int,
        *,
        batch: int = 1,
        num_kv_heads: int | None = None,
        bytes_per_value: int = FLOAT16,
    ) -> int:
        """Bytes of its cache for a number of tokens, optionally with other key-value heads."""
        if self.latent and num_kv_heads is None:
            return self.layers * batch * tokens * self.latent * bytes_per_value
        groups = self.num_kv_heads if num_kv_heads is None else num_kv_heads
        sizes = groups, self.head_dim, bytes_per_value
        near = kv_cache_bytes(self.local_layers, batch, min(tokens, self.window), *sizes)
        far = kv_cache_bytes(self.layers - self.local_layers, batch, tokens, *sizes)
        return near + far + self.state * batch * bytes_per_value


MODELS = (
    Published(
        "GPT-2 XL", 48, 25, 25, 64, 1.558e9, 1024,
        "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2 (48 "
        "layers, width 1600) and section 2.3; 25 heads and parameters (1542M in the table): the "
        "released model",
    ),
    Published(
        "Llama 2 7B", 32, 32, 32, 128, 6.7e9, 4096,
        "Touvron et al. 2023, Llama 2: Open Foundation and Fine-Tuned Chat Models, table 1; "
        "layers, heads and width as in LLaMA: Open and Efficient Foundation Language Models, "
        "table 2",
    ),
    Published(
        "Llama 3 8B", 32, 32, 8, 128, 8e9, 131072,
        "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3; 128K tokens, from 3.1 on: "
        "section 3.4.2",
    ),
    Published(
        "Qwen3 8B", 36, 32, 8, 128, 8.2e9, 40960,
        "config.json and model card of Qwen/Qwen3-8B",
    ),
    Published(
        "Falcon 7B", 32, 71, 1, 64, 7e9, 2048,
        "model card and config.json of tiiuae/falcon-7b; Almazrouei et al. 2023, The Falcon "
        "Series of Open Language Models",
    ),
    Published(
        "DeepSeek-V3", 61, 128, 128, 128, 671e9, 131072,
        "config.json of deepseek-ai/DeepSeek-V3 (kv_lora_rank 512 and qk_rope_head_dim 64 are "
        "cached); DeepSeek-AI 2024, DeepSeek-V3 Technical Report",
        latent=512 + ROTARY,
    ),
)  # fmt: skip
WITH_LOCAL_LAYERS = (
    Published(
        "Gemma 3 12B", 48, 16, 8, 256, 12e9, 131072,
        "config.json of google/gemma-3-12b-it (every sixth layer is global); Gemma Team 2025, "
        "Gemma 3 Technical Report",
        local_layers=40, window=1024,
    ),
    Published(
        "Qwen3.5 9B", 32, 16, 4, 256, 8.95e9, 262144,
        "transformers 5.23, Qwen3_5TextConfig (every fourth layer is global, the others have 32 "
        "heads with a state of 128 x 128); 262,144 tokens: model card of Qwen/Qwen3.5-9B",
        local_layers=24, state=24 * 32 * 128 * 128,
    ),
)  # fmt: skip


def amount(size: float) -> str:
    """Write bytes with three digits and a unit: 1 KiB is 1,024 bytes.

    >>> amount(300 * 1024), amount(1.5 * 2**30), amount(1180 * 2**30)
    ('300 KiB', '1.50 GiB', '1.15 TiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    digits = 0 if size >= 100 or unit == "B" else 1 if size >= 10 else 2
    return f"{size:,.{digits}f} {unit}"


def length(tokens: int) -> str:
    """Write a number of tokens: 4096 as 4k, where k is 1,024.

    >>> length(1), length(131072)
    ('1', '128k')
    """
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)


def table(
    lengths: Sequence[int], models: Sequence[Published] = MODELS
) -> tuple[list[str], list[list[str | int]]]:
    """Return column headings, and a row for each model: its sizes, its cache at these lengths, and
    its weights.
    """
    heads = ["model", "L", "H", "G", "D", *map(length, lengths), "weights"]
    rows: list[list[str | int]] = []
    for model in models:
        groups: str | int = "–" if model.latent else model.num_kv_heads
        rows.append([model.name, model.layers, model.num_heads, groups, model.head_dim])
        for tokens in lengths:
            written = amount(model.cache_bytes(tokens))
            rows[-1].append(f"({written})" if tokens > model.context else written)
        rows[-1].append(amount(model.weight_bytes))
    return heads, rows


def sources() -> str:
    """Write the source of each model's sizes, a paragraph for each."""
    paragraph = textwrap.TextWrapper(width=88, subsequent_indent="    ", break_on_hyphens=False)
    models = MODELS + WITH_LOCAL_LAYERS
    return "\n".join(paragraph.fill(f"{model.name}: {model.source}.") for model in models)
