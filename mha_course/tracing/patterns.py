"""What the caller says about axes: patterns (``"B S C"``) and sizes (``dict(H=4)``)."""

from __future__ import annotations

import dis
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from mha_course.errors import ShapeError
from mha_course.torch_internals import has_shape
from mha_course.tracing import letters
from mha_course.tracing.letters import HEADS, KV_HEADS
from mha_course.tracing.rules.call import tensors_in

Patterns = str | Sequence[str | None] | Mapping[str, str] | None
Words = dict[str, tuple[str, ...]]  # by argument
Sizes = Mapping[str, int]
Tensors = dict[str, torch.Tensor]
CONFIGS = ("config", "cfg", "conf", "args", "hparams", "params", "opt")
WIDTHS = ("hidden_size", "embed_dim", "d_model", "n_embd")
HEAD_WIDTHS = ("head_dim", "d_head", "head_size", "d_kv")
DECLARED = (  # sizes from arguments, modules and their configs
    ("H", HEADS),
    ("H_kv", KV_HEADS),
    ("C", WIDTHS),
    ("D", HEAD_WIDTHS),
    ("D_nope", ("qk_nope_head_dim",)),
    ("D_rope", ("qk_rope_head_dim", "rotary_dim", "rotary_ndims")),
    ("D_v", ("v_head_dim",)),
    ("kv_rank", ("kv_lora_rank",)),
    ("q_rank", ("q_lora_rank",)),
    ("d_ff", ("intermediate_size", "d_ff", "ffn_dim", "d_inner", "n_inner", "encoder_ffn_dim")),
)
SIZE_NAMES = {word for _, words in DECLARED for word in words}
NAME = re.compile(r"[^\W\d]\w*'?|\d+|\?")


def bind(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by parameter name."""
    try:
        signature = inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn)
        return dict(signature.bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # builtins; a wrong call raises anyway
        return {f"arg{position}": value for position, value in enumerate(args)} | kwargs


def named_tensors(bound: dict[str, Any]) -> Tensors:
    """Return the tensors among the arguments by name."""
    tensors: Tensors = {}
    for name, value in bound.items():
        single = isinstance(value, torch.Tensor)
        for i, tensor in enumerate(tensors_in([value])):
            if has_shape(tensor):
                tensors[name if single else f"{name}[{i}]"] = tensor
    return tensors


def is_ids(x: torch.Tensor) -> bool:
    """Return whether a tensor may contain word ids."""
    return not x.is_floating_point() and x.dtype != torch.bool


def assign(axes: Patterns, tensors: Tensors) -> Words:
    """Return the pattern of each argument that has one."""
    if axes is None:
        return {}
    by_name = _by_name(axes, tensors)
    every = " ".join(text for text in by_name.values() if isinstance(text, str))
    texts = {name: text or "" for name, text in by_name.items() if text or isinstance(axes, str)}
    chosen = {name: _words(text, every) for name, text in texts.items()}
    for name, words in chosen.items():
        if len(words) != tensors[name].dim():
            rule = f"the pattern of {name} must name each axis"
            expected = f"{tensors[name].dim()} names for {tuple(tensors[name].shape)}"
            raise ShapeError("trace", rule, expected=expected, got=" ".join(words))
    for name, words in chosen.items():
        if "T" in words:  # One tensor as query and key: attention names its queries itself.
            same = [other for key, other in chosen.items() if tensors[key] is tensors[name]]
            chosen[name] = next((other for other in same if "S" in other), words)
    return chosen


def _by_name(axes: str | Sequence[Any] | Mapping[str, Any], tensors: Tensors) -> Mapping[str, Any]:
    if not isinstance(axes, (str, Mapping, Sequence)):
        rule = "axes must be patterns"
        raise ShapeError("trace", rule, expected='"B S C", or several', got=repr(axes))
    if isinstance(axes, str):  # for the first tensor, and for all others of its shape
        if not tensors:
            rule = "axes needs a tensor argument"
            raise ShapeError("trace", rule, expected="a tensor", got="none", fix="axes=None")
        first = next(iter(tensors.values()))
        return {name: axes for name, x in tensors.items() if x.shape == first.shape}
    names = " ".join(tensors)
    if isinstance(axes, Mapping):
        strange = ", ".join(repr(name) for name in axes if name not in tensors)
        if strange:
            rule = f"axes names {strange}, which is not a tensor argument"
            expected = names or "no names: there is no tensor"
            raise ShapeError("trace", rule, expected=expected, got=" ".join(axes))
        return axes
    if len(axes) > len(tensors):
        rule = "axes has more patterns than tensors"
        expected = f"at most {len(tensors)} patterns, for {names}"
        raise ShapeError("trace", rule, expected=expected, got=f"{len(axes)}")
    return dict(zip(tensors, axes, strict=False))


def _words(text: str, all_text: str) -> tuple[str, ...]:
    words = _written(text) if isinstance(text, str) else ("",)
    if not words or not all(NAME.fullmatch(part) for word in words for part in word.split("*")):
        rule = "a pattern names each axis once"
        raise ShapeError("trace", rule, expected='names such as "B S C"', got=repr(text))
    if letters.COURSE.issuperset(words):
        return words
    return letters.read(words, NAME.findall(all_text))


def _written(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").strip("() ").split())


def translated(axes: Patterns, patterns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return a note if the caller's letters were translated."""
    given = [axes] if isinstance(axes, str) else axes or ()
    texts = given.values() if isinstance(given, Mapping) else given
    notes = []
    for words, read in zip(map(_written, filter(None, texts)), patterns.values(), strict=False):
        if words != read:
            notes.append(f"{' '.join(words)} was read as {' '.join(read)}")
    return tuple(dict.fromkeys(notes))


def words_and_sizes(patterns: Words, tensors: Tensors) -> list[tuple[str, int]]:
    """Return each name of each pattern with its size, in order."""
    pairs: list[tuple[str, int]] = []
    for name, words in patterns.items():
        pairs += zip(words, tensors[name].shape, strict=True)
    return pairs


def solve(patterns: Words, tensors: Tensors, sizes: Sizes, hints: Sizes) -> dict[str, int]:
    """Find every name's size, and D = C / H; drop hints that do not fit."""
    pairs = words_and_sizes(patterns, tensors)
    written = "*".join([word for word, _ in pairs]).split("*")
    solved = {**hints, **sizes}
    for letter in hints.keys() & {*written} - sizes.keys():
        del solved[letter]  # The pattern says it.
    for _ in range(3):  # sizes found in one pattern help to read the next
        for word, size in pairs:
            _bind(word, size, solved)
        if not _heads(solved) and "H" not in sizes:
            del solved["H"]
        elif not _heads(solved):
            got = f"C={solved['C']}, H={solved['H']}"
            raise ShapeError("trace", "H must divide C", expected="C % H == 0", got=got)
    for letter in written:
        if letter.isidentifier() and letter not in solved:
            rule = f"the size of {letter} cannot be read off"
            expected = f"{letter} alone or in sizes"
            fix = f"sizes=dict({letter}=…)"
            raise ShapeError("trace", rule, expected=expected, got="a product", fix=fix)
    return solved


def positive(name: str, size: Any) -> int:
    """Return a size that the caller gave as an int, or refuse it."""
    if hasattr(size, "__index__") and not isinstance(size, bool):
        size = operator.index(size)
    if not _is_count(size):
        rule = f"sizes[{name!r}] must be a positive int"
        raise ShapeError("trace", rule, expected=f"{name} >= 1", got=repr(size))
    return size


def _bind(word: str, size: int, solved: dict[str, int]) -> None:
    if word == "?":
        return
    letters = word.split("*")
    free = [letter for letter in letters if not letter.isdigit() and letter not in solved]
    product = 1
    for letter in letters:
        product *= int(letter) if letter.isdigit() else solved.get(letter, 1)
    if len(free) == 1 and product and size % product == 0:
        solved[free[0]] = size // product
    elif not free and product != size and not (len(letters) == 1 and size == 1):
        rule = f"the sizes of {word} do not agree"
        raise ShapeError("trace", rule, expected=f"{word}={product}", got=str(size))


def _heads(solved: dict[str, int]) -> bool:
    """Derive D from C and H, or H from C and D; return whether they fit."""
    width, heads, inner = map(solved.get, "CHD")
    if width and heads and not inner:
        if width % heads:
            return False
        solved["D"] = width // heads
    elif width and inner and not heads and width % inner == 0:
        solved["H"] = width // inner
    return True


def modules_of(fn: Callable[..., Any], given: Iterable[Any] = ()) -> list[nn.Module]:
    """Return the modules that a callable is, belongs to or refers to, else those given."""
    fn = fn.func if isinstance(fn, partial) else fn
    owner = fn if isinstance(fn, nn.Module) else getattr(fn, "__self__", None)
    for values in ([owner], referred(fn), given):
        if modules := [value for value in values if isinstance(value, nn.Module)]:
            return modules
    return []


def referred(fn: Callable[..., Any]) -> list[Any]:
    """Return a function's outside variables by name."""
    try:
        outside = inspect.getclosurevars(fn)
    except (TypeError, ValueError):  # not a Python function, or its names are not bound yet
        return []
    # Python counts attribute names as globals: x.proj would find a global module proj.
    used = {**outside.nonlocals}
    for load in dis.get_instructions(fn):
        if load.opname in ("LOAD_GLOBAL", "LOAD_NAME") and load.argval in outside.globals:
            used[load.argval] = outside.globals[load.argval]
    return list(used.values())


def declared(modules: Sequence[nn.Module], bound: dict[str, Any]) -> dict[str, int]:
    """Return the sizes that arguments, modules and configs declare; H_kv only if it differs."""
    modules = [inner for module in modules for inner in module.modules()]
    attributes: list[Mapping[str, Any]] = [vars(inner) for inner in modules]
    configs, *nested = _configs([*attributes, bound])
    attributes += [{"hidden_size": config.get("dim"), **config} for config in configs]
    places: list[Sequence[Mapping[str, Any]]] = [[bound], attributes, *nested]
    levels = [_counts(level) for level in places]  # From the outside in.
    by_letter: dict[str, int] = {}
    for letter, words in DECLARED:
        values: set[int] = set()
        for counts in levels:  # the outer one wins
            values = values or {value for word in words for value in counts.get(word, ())}
        if len(values) == 1:  # If two modules disagree, neither counts.
            by_letter[letter] = values.pop()
    if {"D_nope", "D_rope"} <= by_letter.keys():  # their sum is D; head_dim may be the second
        by_letter["D"] = by_letter["D_nope"] + by_letter["D_rope"]
    if by_letter.get("H_kv") in (None, by_letter.get("H")):
        by_letter.pop("H_kv", None)
    return by_letter


def _counts(places: Sequence[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Return the sizes in these places, by name."""
    by_name: dict[str, set[int]] = {}
    for place in places:
        for name, value in place.items():
            if name in SIZE_NAMES and _is_count(value):
                by_name.setdefault(name, set()).add(value)
    return by_name


def _configs(places: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the configs in modules or arguments, then those nested in them, by depth."""
    values = [place[name] for place in places for name in CONFIGS if name in place]
    levels = []
    for _ in range(3):
        configs: list[Mapping[str, Any]] = []
        for value in values:
            if isinstance(value, Mapping):
                configs.append(value)
            elif hasattr(value, "__dict__") and not callable(value):  # no class and no module
                configs.append(vars(value))
        levels.append(configs)
        values = [value for config in configs for value in config.values()]
    return levels


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
