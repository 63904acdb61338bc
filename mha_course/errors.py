"""One error for every unusable input, and the checks that raise it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mha_course.markup import cut

if TYPE_CHECKING:
    from torch import Tensor


class ShapeError(ValueError):
    """Say that an input cannot be used: ``place: rule. expected …, got …, fix: …``.

    Args:
        place: the function or class that was called.
        rule: what must hold, as a clause without a full stop.
        expected: the shape, type or condition that is accepted.
        got: what came instead.
        fix: a change that is sure to work; left out where there is none.
    """

    def __init__(
        self, place: str, rule: str, expected: str, got: str, fix: str | None = None
    ) -> None:
        # all of them: pickle recreates the error from these
        super().__init__(place, rule, expected, got, fix)
        self.place = place
        self.rule = rule
        self.expected = expected
        self.got = got
        self.fix = fix

    def __str__(self) -> str:
        mend = f", fix: {self.fix}" if self.fix else ""
        return f"{self.place}: {self.rule}. expected {self.expected}, got {self.got}{mend}"


class SentenceError(ShapeError):
    """Say that a model cannot read a sentence; the code that passed it on is fine."""


def require_words(place: str, words: Sequence[str], allowed: Collection[str], named: str) -> None:
    """Raise SentenceError for a word not in ``named``, or if there are no words."""
    unknown = [cut(word, 24) for word in words if word not in allowed]
    if unknown:
        rule = f"“{unknown[0]}” is not one of the {len(allowed)} words that can be read"
        similar = ", ".join(difflib.get_close_matches(unknown[0].lower(), allowed, n=3, cutoff=0.5))
        got = ", ".join(map(repr, unknown))
        raise SentenceError(place, rule, expected=f"words of {named}", got=got, fix=similar or None)
    if not words:
        rule = "a sentence needs at least one word"
        raise SentenceError(place, rule, expected=f"words of {named}", got="an empty sentence")


def require(
    condition: bool, place: str, rule: str, *, expected: str, got: str, fix: str | None = None
) -> None:
    """Raise ShapeError unless the condition holds.

    The texts are built even when the condition holds. If they mention tensor sizes, write ``if …:
    raise ShapeError(…)``: torch.compile treats a size written into a text as a constant, and
    recompiles for the next one.
    """
    if not condition:
        raise ShapeError(place, rule, expected=expected, got=got, fix=fix)


def require_int(place: str, name: str, value: int, least: int = 1) -> None:
    """Raise unless the value is an int, not a bool, and at least ``minimum``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        rule = f"{name} must be {'a positive int' if least == 1 else 'a whole number'}"
        got = f"{name}={value!r}"
        whole = not isinstance(value, int) and hasattr(value, "__index__")  # NumPy's, for example
        fix = f"int({name})" if whole else None
        raise ShapeError(place, rule, expected=f"{name} >= {least}", got=got, fix=fix)


def require_multiple(
    place: str, name: str, value: int, divisor_name: str, divisor: int, fix: str | None = None
) -> None:
    """Raise unless the value is a positive multiple of the divisor; the fix changes the value."""
    require_int(place, name, value)
    if value % divisor:
        below = value - value % divisor
        multiples = " or ".join(str(n) for n in (below, below + divisor) if n > 0)
        rule = f"{name} must be a multiple of {divisor_name}"
        expected = f"{name} % {divisor_name} == 0"
        got = f"{name}={value}, {divisor_name}={divisor}"
        fix = fix or f"{name}={multiples}"
        raise ShapeError(place, rule, expected=expected, got=got, fix=fix)


def require_tensor(place: str, name: str, value: object) -> None:
    """Raise unless the value behaves like a tensor; this module works without torch."""
    if not hasattr(value, "is_floating_point"):
        fix = None if value is None else f"torch.as_tensor({name})"
        got = type(value).__name__
        rule = f"{name} must be a tensor"
        raise ShapeError(place, rule, expected="a torch.Tensor", got=got, fix=fix)
    if getattr(value, "is_nested", False):
        rule, expected = f"{name} must have one size on each axis", "a padded tensor and a mask"
        fix = f"{name}.to_padded_tensor(0.0)"
        raise ShapeError(place, rule, expected=expected, got="a nested tensor", fix=fix)


def require_float(place: str, tensors: Mapping[str, Tensor]) -> None:
    """Raise unless these are floating point, on one device and, outside autocast, of one dtype."""
    first_name, first = next(iter(tensors.items()))
    for name, tensor in tensors.items():
        require_tensor(place, name, tensor)
        if not tensor.is_floating_point():
            rule = f"{name} must be floating point"
            got = str(tensor.dtype)
            raise ShapeError(place, rule, expected="a float dtype", got=got, fix=f"{name}.float()")
        require_device(place, name, tensor, first.device, first_name)
        # Under autocast, float32 weights routinely meet bfloat16 tokens: the Linear casts both.
        if tensor.dtype != first.dtype and not _autocast(first):
            rule = f"{name} must have the dtype of {first_name}"
            fix = f"{name}.to({first.dtype})"
            raise ShapeError(place, rule, expected=str(first.dtype), got=str(tensor.dtype), fix=fix)


def require_device(place: str, name: str, tensor: Tensor, device: object, owner: str) -> None:
    """Raise unless this is a tensor on its owner's device."""
    require_tensor(place, name, tensor)
    if tensor.device != device:
        rule = f"{name} must be on the device of {owner}"
        fix = f"{name}.to({str(device)!r})"
        raise ShapeError(place, rule, expected=str(device), got=str(tensor.device), fix=fix)


def _autocast(tensor: Tensor) -> bool:
    import torch  # noqa: PLC0415 (the rest of this module works without torch)

    return torch.is_autocast_enabled(tensor.device.type)


def require_shape(
    place: str, name: str, tensor: Tensor, axes: Mapping[str, int | None], fix: str | None = None
) -> None:
    """Raise unless the tensor has these axes; None allows any size."""
    require_tensor(place, name, tensor)
    shape = tuple(tensor.shape)
    if len(shape) != len(axes):
        rule = f"{name} must have {len(axes)} axes"
        got = str(shape)
    else:
        wrong = [
            letter
            for (letter, want), have in zip(axes.items(), shape, strict=True)
            if want not in (None, have)
        ]
        if not wrong:
            return
        rule = f"{name} has the wrong {' and '.join(wrong)}"
        got = _written(axes, shape)
    raise ShapeError(place, rule, expected=_written(axes, axes.values()), got=got, fix=fix)


def _written(letters: Iterable[str], sizes: Iterable[int | None]) -> str:
    """Write axes with known sizes, as ``(B=2, S)``; an axis that is always 1 has no letter."""
    axes = []
    for letter, size in zip(letters, sizes, strict=True):
        named = letter if size is None else f"{letter}={size}"
        axes.append(str(size) if letter[0].isdigit() else named)
    return f"({', '.join(axes)})"


def require_heads(place: str, d_model: int, num_heads: int, width: str = "d_model") -> None:
    """Raise unless both are positive whole numbers and num_heads divides the width."""
    require_int(place, width, d_model)
    require_int(place, "num_heads", num_heads)
    if d_model % num_heads == 0:
        return
    divisors = [n for n in range(1, d_model + 1) if d_model % n == 0]
    near = [max(n for n in divisors if n < num_heads), *[n for n in divisors if n > num_heads][:1]]
    below = d_model - d_model % num_heads
    widths = [n for n in (below, below + num_heads) if n > 0]
    rule = f"num_heads must divide {width}"
    got = f"{width}={d_model}, num_heads={num_heads}"
    fix = f"num_heads={' or '.join(map(str, near))}, or {width}={' or '.join(map(str, widths))}"
    raise ShapeError(place, rule, expected=f"{width} % num_heads == 0", got=got, fix=fix)


def require_bool(
    place: str, mask: Tensor, *, name: str = "mask", what: str = "bool, True = may attend",
    fix: str = "mask.bool() if it holds 1 for may attend, mask == 0 if it is additive (0 and -inf)",
) -> None:  # fmt: skip
    """Raise unless the mask is a bool tensor."""
    require_tensor(place, name, mask)
    if str(mask.dtype) != "torch.bool":
        rule = f"{name} must be {what}"
        raise ShapeError(place, rule, expected="torch.bool", got=str(mask.dtype), fix=fix)


def require_mask(place: str, mask: Tensor, sizes: Mapping[str, int], device: object = None) -> None:
    """Raise unless the mask is bool, on the device, and (T, S) or broadcastable to (B, H, T, S)."""
    require_bool(place, mask)
    require_device(place, "mask", mask, device or mask.device, "the tokens")
    # A mask (B, T, S) is refused: broadcasting would read it as (H, T, S), and where B = H nobody
    # would notice.
    shape = tuple(mask.shape)
    full = tuple(sizes.values())
    if shape == full[2:] or (len(shape) == 4 and _broadcasts(shape, full)):
        return
    rule = "mask must be (T, S), or 4-D and broadcastable to (B, H, T, S)"
    expected = f"{_written(sizes, full)}, or its last two axes"
    got = _written(list(sizes)[-len(shape) :], shape) if len(shape) in (2, 4) else str(shape)
    lacks_heads = len(shape) == 3 and _broadcasts((shape[0], 1, *shape[1:]), full)
    head_axis = "mask.unsqueeze(1), which gives it a head axis" if lacks_heads else None
    raise ShapeError(place, rule, expected=expected, got=got, fix=head_axis)


def _broadcasts(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    return all(have in (1, want) for have, want in zip(shape, full, strict=True))


def require_tokens(place: str, name: str, x: Tensor, axes: str) -> None:
    """Raise unless x is floating point and has these axes, given as ``"B S C"``."""
    require_float(place, {name: x})
    letters = axes.split()
    if x.dim() == len(letters):
        return
    fix = f"{name}.unsqueeze(0), a batch of one" if x.dim() == len(letters) - 1 else None
    require_shape(place, name, x, dict.fromkeys(letters), fix)


def require_attention_inputs(
    place: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> None:
    """Raise unless k and the mask fit q, and v fits k."""
    require_float(place, {"q": q, "k": k, "v": v})
    require_tokens(place, "q", q, "B H T D")
    batch, heads, queries, width = q.shape
    require_shape(place, "k", k, {"B": batch, "H": heads, "S": None, "D": width})
    require_shape(place, "v", v, {"B": batch, "H": heads, "S": k.size(2), "D": None})
    if mask is not None:
        require_mask(place, mask, {"B": batch, "H": heads, "T": queries, "S": k.size(2)}, q.device)


def require_module_inputs(
    place: str, weight: Tensor, inputs: Mapping[str, Tensor],
    num_heads: int = 1, mask: Tensor | None = None, is_causal: bool = False,
) -> None:  # fmt: skip
    """Raise unless the inputs fit the weight and each other, and the mask fits.

    Args: inputs by the caller's names: one for self-attention, or query, key and value.
    """
    first, *others = inputs
    for name, x in inputs.items():
        require_tokens(place, name, x, "B T C" if others and name == first else "B S C")
    require_float(place, {"the weights": weight, **inputs})
    query = inputs[first]
    key = inputs[others[0]] if others else query
    batch, queries, _ = query.shape
    keys = key.size(1)
    width = weight.size(1)
    require_shape(place, first, query, {"B": None, "T" if others else "S": None, "C": width})
    for name in others:
        tokens = None if name == others[0] else keys
        require_shape(place, name, inputs[name], {"B": batch, "S": tokens, "C": width})
    if mask is not None:
        sizes = {"B": batch, "H": num_heads, "T": queries, "S": keys}
        require_mask(place, mask, sizes, weight.device)
        if is_causal:
            rule = "is_causal and a mask cannot be combined"
            fix = "mask=mask & causal_mask(S) instead of is_causal" if queries == keys else None
            raise ShapeError(place, rule, expected="one of them", got="both", fix=fix)
    elif is_causal and queries != keys:
        rule = "is_causal needs as many queries as keys"
        got = f"T={queries}, S={keys}"
        last = "mask=causal_mask_for_cache(T, S), where the queries are the last tokens"
        fix = last if queries < keys else None
        raise ShapeError(place, rule, expected="T == S", got=got, fix=fix)
