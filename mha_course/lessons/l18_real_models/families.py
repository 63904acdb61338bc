"""Small random models of many families, for trying an attention function.

Axes: B texts or images, S tokens, C width, N tokens that are not padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedConfig

from mha_course.models import seeded


class Family(NamedTuple):
    """A family's name in transformers, its attention's features, and its settings."""

    model_type: str
    has: str
    settings: Mapping[str, Any] = MappingProxyType({})


SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": 97, "max_position_embeddings": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.3,  # with the usual 0.02, all attention weights would be nearly equal
}  # fmt: skip
SHARED = {"num_key_value_heads": 2, "head_dim": 8}  # two query heads to each
FAMILIES = {
    "GPT-2": Family("gpt2", "q, k and v from one fused matrix"),
    "BERT": Family("bert", "every token attends to all others"),
    "Llama": Family("llama", "RoPE, and shared key-value heads", SHARED),
    "Qwen2": Family("qwen2", "biases of q, k and v only", SHARED),
    "Qwen3": Family(
        "qwen3", "q and k are normed, and D need not be C / H", SHARED | {"head_dim": 12}
    ),
    "Mistral": Family("mistral", "a window of 4 tokens", SHARED | {"sliding_window": 4}),
    "Gemma 4": Family(
        "gemma4_text", "a window in some layers, wider heads in the others, and a scale of 1",
        SHARED | {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
                  "global_head_dim": 12, "hidden_size_per_layer_input": 0},
    ),
    "DeepSeek-V3": Family(
        "deepseek_v3", "all keys and values from one latent, and narrower values",
        {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
         "v_head_dim": 6, "num_key_value_heads": 4, "first_k_dense_replace": 2},
    ),
    "Phi 3": Family("phi3", "fused again, with RoPE", SHARED),
    "OLMo 2": Family("olmo2", "q and k are normed before they are split", SHARED),
    "ViT": Family("vit", "patches of a picture, and no mask", {"image_size": 12, "patch_size": 4}),
    "Whisper": Family(
        "whisper", "cross-attention from text to sound",
        {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
         "num_mel_bins": 8, "max_source_positions": 8, "max_target_positions": 64, "init_std": 0.3,
         "decoder_start_token_id": 1},
    ),
}  # fmt: skip
# These pass more than q, k, v and a mask.
WITH_MORE = {
    "Gemma 2": Family(
        "gemma2", "softcap", SHARED | {"sliding_window": 4, "attn_logit_softcapping": 2.0}
    ),
    "T5": Family(
        "t5", "position_bias",
        {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    ),
    "gpt-oss": Family(
        "gpt_oss", "s_aux",
        SHARED | {"sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
}  # fmt: skip


def config_of(family: Family) -> PreTrainedConfig:
    """Return the settings for a family's small model."""
    return AutoConfig.for_model(family.model_type, **{**SIZES, **family.settings})


def outputs(family: Family, attention: str) -> Tensor:
    """Build a family's model, always with the same random numbers, and return its outputs for two
    texts or images at all tokens except padding, (N, C).

    Args: attention is "eager" or a name from plug_in.
    """
    with seeded(0):
        model = AutoModel.from_config(config_of(family), attn_implementation=attention)
    model.eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, SIZES["vocab_size"], (2, 9), generator=generator)  # (B, S)
    mask = torch.arange(9) < torch.tensor([[9], [6]])  # (B, S), the second text is padded
    if model.main_input_name == "pixel_values":
        images = torch.rand(2, 3, 12, 12, generator=generator)
        return model(images).last_hidden_state.flatten(0, 1)
    if model.main_input_name == "input_features":
        sounds = torch.randn(2, 8, 16, generator=generator)
        return model(sounds, decoder_input_ids=ids).last_hidden_state.flatten(0, 1)
    if model.config.is_encoder_decoder:
        out = model(ids, attention_mask=mask.long(), decoder_input_ids=ids)
        return out.last_hidden_state.flatten(0, 1)
    return model(ids, attention_mask=mask.long()).last_hidden_state[mask]
