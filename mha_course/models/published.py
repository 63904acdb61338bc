"""Your own attention inside published models, through the transformers library.

Axes: B texts or images, T queries, S keys, H query heads, G key-value heads, D head width.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from mha_course.attention import repeat_kv
from mha_course.errors import ShapeError, require, require_shape

# What some models pass besides q, k, v and the mask.
EXTRAS = {
    "softcap": "a soft cap on its scores",
    "position_bias": "a bias for its scores",
    "s_aux": "a sink in each head",
}
# transformers takes names that contain these for its own implementations.
RESERVED = ("sdpa", "flash", "flex", "eager", "paged|", "/")
_plugged_in: dict[str, Callable[..., Any]] = {}
_numbers = itertools.count()


def plug_in(attention: Callable[..., Any], name: str | None = None) -> str:
    """Register attention(q, k, v, mask) with transformers, and return its name there.

    ``AutoModel.from_pretrained(folder, attn_implementation=plug_in(attention))`` then computes
    every attention layer with it, if the model supports such functions; nearly all do.

    Args:
        attention: returns context, or context and weights, and divides q kᵀ by √D itself. If a
        model has another scale, q is rescaled beforehand. ``output_attentions=True`` makes the
        model return the weights.
        name: by default, each call makes a new one.
    Shape:
        q (B, H, T, D)
        k (B, H, S, D), with shared heads repeated
        v (B, H, S, E); E may differ from D
        mask (B or 1, 1, T, S), bool, True = may attend; None if a model has none, such as ViT. A
        fully masked row, as with padding on the left, sees every key. context (B, H, T, E) weights
        (B, H, T, S)
    Raises: ShapeError for a name in use, for anything but a function, and, when a model runs, if it
        passes something the function has no parameter for: ``softcap``, ``position_bias``,
        ``s_aux`` or any other tensor.
    """
    is_function = callable(attention) and not isinstance(attention, nn.Module | type)
    rule = "attention must be a function"
    got = f"a {type(attention).__name__}"
    require(is_function, "plug_in", rule, expected="attention(q, k, v, mask)", got=got)
    if name is None:
        name = f"own-{next(_numbers)}"
        while name in _plugged_in:
            name = f"own-{next(_numbers)}"
    elif _plugged_in.get(name) is attention:
        return name
    _require_free(name)
    AttentionInterface.register(name, _layer(attention))
    # Only this mask maker also makes a mask for plain causal text.
    AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    _plugged_in[name] = attention
    return name


def _require_free(name: str) -> None:
    is_plain = isinstance(name, str) and not any(word in name.lower() for word in RESERVED)
    rule = "transformers would take this name for an implementation of its own"
    expected = f"a name without {', '.join(RESERVED)}"
    require(is_plain and bool(name), "plug_in", rule, expected=expected, got=repr(name))
    rule = "the name is in use, and models that are open would change"
    is_free = name not in AttentionInterface().valid_keys()
    fix = "plug_in(attention) without a name makes a new one"
    require(is_free, "plug_in", rule, expected="a new name", got=repr(name), fix=fix)


def _layer(attention: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Wrap the attention in the form that transformers' layers call."""

    def forward(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
        attention_mask: Tensor | None = None, scaling: float | None = None, **options: Any,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        heads, queries, width = query.shape[1:]
        k = repeat_kv(key, heads)  # (B, H, S, D)
        v = repeat_kv(value, heads)  # (B, H, S, E)
        # The function divides by √D, so multiply q to give the model's own scale.
        scale = width**-0.5 if scaling is None else scaling
        q = query * (scale * width**0.5)  # (B, H, T, D)
        mask = None if attention_mask is None else _bool_mask(attention_mask, queries, k.size(2))
        result = attention(q, k, v, mask, **_extras(module, attention, options))
        context, weights = result if isinstance(result, tuple | list) else (result, None)
        sizes = {"B": q.size(0), "H": heads, "T": queries, "E": v.size(3)}
        require_shape(_called(attention), "context", context, sizes)
        by_token = context.transpose(1, 2).to(query.dtype).contiguous()  # (B, T, H, E)
        return by_token, weights

    return forward


def _bool_mask(mask: Tensor, queries: int, keys: int) -> Tensor:
    """Convert a transformers mask, in which 0 means may attend, to the course's."""
    mask = mask[..., :keys].expand(-1, -1, queries, -1)  # (B, 1, T, S)
    may_attend = mask if mask.dtype == torch.bool else mask == 0  # (B, 1, T, S)
    # A plain softmax gives NaN in an empty row, and NaN reaches real tokens in the next layer.
    is_empty = ~may_attend.any(-1, keepdim=True)  # (B, 1, T, 1)
    return may_attend | is_empty  # (B, 1, T, S)


def _extras(
    module: nn.Module, attention: Callable[..., Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Return the model's extra arguments that change its attention; refuse unsupported ones."""
    accepted = _parameters(attention)
    extras = {}
    for name, value in options.items():
        matters = name in EXTRAS or (isinstance(value, Tensor) and name != "position_ids")
        if value is None or not matters:
            continue
        if name not in accepted:
            extra = EXTRAS.get(name, f"a tensor “{name}”")
            called = _called(attention)
            raise ShapeError(
                type(module).__name__,
                f"this model has {extra}, which {called} does not take",
                expected=f"a parameter {name}",
                got=f"{called}({', '.join(accepted)})",
                fix=f"def {called}(q, k, v, mask=None, {name}=None)",
            )
        extras[name] = value
    return extras


def _parameters(attention: Callable[..., Any]) -> list[str]:
    """Return the names of a function's parameters.

    ``**kwargs`` counts as none, since it would silently ignore unknown arguments.
    """
    try:
        return list(inspect.signature(attention).parameters)
    except ValueError:  # some torch functions have no signature
        return []


def _called(attention: Callable[..., Any]) -> str:
    name = getattr(attention, "__name__", "")
    return name if name.isidentifier() else "attention"  # a lambda has none
