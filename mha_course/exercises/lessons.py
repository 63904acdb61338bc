"""The lessons: the number of each, its title, and the exercises that belong to it, in their order."""

from __future__ import annotations

LESSONS: dict[int, tuple[str, tuple[str, ...]]] = {
    0: ("Start here", ("similarity",)),
    1: ("Projection", ("project", "project_qkv")),
    2: ("Head splitting", ("split_heads", "split_fused_qkv", "one_head_queries")),
    3: ("Scaling", ("attention_scores", "scaled_scores", "score_form")),
    4: ("Softmax", ("softmax", "entropy", "masked_softmax")),
    5: ("Weighted sum", ("weighted_sum", "self_attention")),
    6: ("Concatenation", ("merge_heads", "head_contributions", "build_subtractor")),
    7: (
        "Multi-head attention",
        ("multi_head_attention", "MultiHeadAttention", "parameter_count", "fold_value_bias"),
    ),
    8: (
        "Masks",
        ("causal_mask", "padding_mask", "combine_masks", "causal_mask_for_cache", "to_attend", "additive_mask"),
    ),
    9: ("Cross-attention", ("cross_attention",)),
    10: ("Positions", ("sinusoidal_encoding", "rope")),
    11: ("KV cache and fewer KV heads", ("decode_step", "repeat_kv", "kv_cache_bytes")),
    12: ("FlashAttention", ("online_softmax", "tiled_attention")),
    13: ("Encoder block", ("layer_norm", "encoder_block")),
    14: ("Vision", ("patchify", "add_class_token")),
    15: ("Language model", ("next_token_targets", "generate")),
    16: ("Why many heads", ("relation_score", "ablate_heads", "other_weights")),
}
