"""The split and the merge of heads as cells that move over strips of memory."""

from __future__ import annotations

import html
import math
import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from mha_course.tracing.steps import Argument, Step, color
from mha_course.widgets import layout_cells as cells
from mha_course.widgets.live import Live

if TYPE_CHECKING:
    from mha_course.tracing import Trace


class LayoutPlayer(Live):
    """Follow a tensor through view, reshape, transpose and contiguous, every number with its place in memory.

    Args: trace holds the steps; beside is a second trace, such as the wrong view, that plays along. chain chooses
        where several tensors are laid out anew: by number, or by the name or the stage of a tensor on the way.
    Raises: ShapeError if nothing is laid out anew, or more than 512 numbers are.

    >>> import torch
    >>> from mha_course.tracing import trace
    >>> x, known = torch.zeros(1, 3, 8), {"axes": "B S C", "sizes": {"H": 2}}
    >>> LayoutPlayer(trace(lambda x: x.view(1, 3, 2, 4).transpose(1, 2), x, **known))
    LayoutPlayer: view, transpose: 1 strip of memory, no copy.
    """

    _esm = Path(__file__).with_suffix(".js")
    _css = Path(__file__).with_suffix(".css")
    data = traitlets.Dict().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(self, trace: Trace, beside: Trace | None = None, *, chain: int | str | None = None) -> None:
        traces = [trace, *([beside] if beside else [])]
        sizes = {name: size for one in reversed(traces) for name, size in one.sizes.items()}
        if "H" not in sizes and {"C", "D"} <= sizes.keys():
            sizes["H"] = sizes["C"] // sizes["D"]
        chains = [cells.choose(one, chain) for one in traces]
        known = [tensor for tensors in chains for tensor in tensors if "?" not in tensor.axes]
        lanes = [_lane(one, tensors, known, sizes) for one, tensors in zip(traces, chains, strict=True)]
        self.text = "; beside it ".join(map(_summary, lanes)) + "."
        self.twin = "<br>".join(map(_twin, lanes))
        super().__init__(data={"lanes": lanes})

    @traitlets.validate("position")  # type: ignore[untyped-decorator]
    def _within(self, proposal: dict[str, Any]) -> int:
        """Keep to the frames that there are."""
        last = max(len(lane["frames"]) for lane in self.data["lanes"]) - 1
        return int(max(0, min(proposal["value"], last)))


def _lane(trace: Trace, chain: list[cells.Tensor], known: list[cells.Tensor], sizes: dict[str, int]) -> dict[str, Any]:
    """Return what is drawn of one trace."""
    strips, reads = cells.replay(chain)
    whose = cells.truth(chain, strips, reads, sizes)
    hidden = {n for n, own in whose.items() if own.get("batch", 0)} if len(whose) > cells.WHOLE else set()
    tokens = 1 + max(own.get("token", 0) for own in whose.values())
    frames: list[dict[str, Any]] = []
    for number, (tensor, (strip, places)) in enumerate(zip(chain, reads, strict=False)):
        axes = cells.meant(tensor, known, chain[0], sizes)
        mixed = axes != tensor.axes or bool(getattr(tensor, "warning", None)) or bool(number and frames[-1]["mixed"])
        ids = [strips[strip][place] for place in places]
        odd, mixing = (
            _odd([whose[n] for n in ids], cells.owners(axes, tensor.shape, sizes), axes) if mixed else ([], "")
        )
        frames.append({
            **_words(trace, tensor, chain[number - 1] if number else None),
            "reading": cells.written(axes, tensor.shape),
            "axes": list(axes), "colors": [color(axis) for axis in axes], "shape": list(tensor.shape),
            "strides": list(tensor.strides), "offset": tensor.offset, "strip": strip, "places": places,
            "ids": [-1 if n in hidden else n for n in ids], "mixed": mixed, "odd": odd, "mixing": mixing,
        })  # fmt: skip
    kept = {n: own for n, own in whose.items() if n not in hidden}
    return {
        "cells": {str(n): {"fill": cells.fill(own, tokens), "tag": cells.tag(own), **own} for n, own in kept.items()},
        "strips": [[[place, n] for place, n in strip.items() if n not in hidden] for strip in strips],
        "frames": frames,
        "part": f"Shown: B=0, {len(kept)} of {len(whose)} numbers." if hidden else "",
    }


def _odd(whose: list[cells.Owner], seen: list[cells.Owner], axes: tuple[str, ...]) -> tuple[list[int], str]:
    """Return the elements that are not what their axes say, and in words what came together."""
    pairs = list(enumerate(zip(whose, seen, strict=True)))
    odd = [i for i, (own, place) in pairs if any(own.get(role, at) != at for role, at in place.items())]
    if not odd:
        return [], ""
    holder = "head" if "H" in axes else "token"
    groups: dict[int, list[cells.Owner]] = {}
    for _, (own, place) in pairs:
        groups.setdefault(place.get(holder, 0), []).append(own)
    most = {role: max(len({own.get(role) for own in group}) for group in groups.values()) for role in cells.ROLES}
    tokens = len({own.get("token") for own in whose})
    if holder == "token":
        return odd, f"each token's row holds parts of {most['token']} of {tokens} tokens"
    slices = f"slices of {most['head']} heads" if most["head"] > 1 else "its slice"
    return odd, f"each head holds {slices}, from {most['token']} of {tokens} tokens"


def _words(trace: Trace, tensor: cells.Tensor, before: cells.Tensor | None) -> dict[str, str]:
    """Return what is said about one tensor."""
    numbers, read = math.prod(tensor.shape), f"strides {tensor.strides}"
    if before is None or isinstance(tensor, Argument):
        call, line = tensor.name or getattr(tensor, "op", ""), getattr(tensor, "line", "")
        sentence = f"{call}: {numbers} numbers in one strip of memory, read with {read}."
        return {"call": call, "line": line, "storage": "start", "sentence": sentence, "warning": ""}
    moved = "strides stay" if tensor.strides == before.strides else f"strides go from {before.strides} to"
    says = {
        "view": f"a view. No number moves; {moved} {tensor.strides}.",
        "same": "the very same tensor: it was contiguous already." if tensor.op == "contiguous" else "the same tensor.",
        "copy": f"a copy. All {numbers} numbers are written anew, in the order of the axes, with {read}.",
    }[tensor.storage]
    if numbers < math.prod(before.shape):
        says += f" It reads {numbers} of the numbers, from place {tensor.offset} on."
    if tensor.storage == "copy" and tensor.op in cells.RESHAPES:
        says += f" {before.strides} could not be read in this shape, so {tensor.op} had to copy."
    call, warning = _call(trace, tensor), re.sub(r"^[\w-]+: ", "", tensor.warning or "")
    sentence = f"{call}: {says}"
    return {"call": call, "line": tensor.line, "storage": tensor.storage, "sentence": sentence, "warning": warning}


def _call(trace: Trace, step: Step) -> str:
    """Return the call as its line has it, transpose(1, 2); only its shape where the line has another one, too."""
    found = []
    for match in re.finditer(rf"\b{re.escape(step.op)}\(", step.line):
        depth, end = 1, match.end()
        while depth and end < len(step.line):
            depth += {"(": 1, ")": -1}.get(step.line[end], 0)
            end += 1
        found += [step.line[match.start() : end]] * (not depth)
    here = [one.index for one in trace.steps if (one.source, one.lineno, one.op) == (step.source, step.lineno, step.op)]
    if len(set(found)) == 1 or (found and len(here) % len(found) == 0):
        return found[here.index(step.index) % len(found)]
    return f"{step.op}{step.shape}" if step.op in ("view", "reshape") else step.op


def _summary(lane: dict[str, Any]) -> str:
    """Say which steps a lane takes, and what they do to memory and to the heads."""
    _, *steps = lane["frames"]
    copies = sum(frame["storage"] == "copy" for frame in steps)
    strips = (
        f"{copies + 1} strips of memory, {_count(copies, 'copy', 'copies')}" if copies else "1 strip of memory, no copy"
    )
    ops = ", ".join(frame["call"].partition("(")[0] for frame in steps)
    mixing = next((f"; ⚠ {frame['mixing']}" for frame in reversed(steps) if frame["mixing"]), "")
    return f"{ops}: {strips}{mixing}"


def _twin(lane: dict[str, Any]) -> str:
    """Return the strips and every reading of them as tables."""
    parts = [f"<p>{lane['part']}</p>"] if lane["part"] else []
    for number, frame in enumerate(lane["frames"]):
        if not number or frame["storage"] == "copy":
            parts.append(_strip_table(lane, frame["strip"]))
        parts.append(_grid_table(lane, number))
        parts += [f"<p>⚠ {html.escape(text)}</p>" for text in (frame["mixing"], frame["warning"]) if text]
    return "".join(parts)


def _strip_table(lane: dict[str, Any], number: int) -> str:
    """Return a strip of memory, a dozen places or fewer in a row."""
    strip, width = lane["strips"][number], min(lane["frames"][0]["shape"][-1], 12)
    rows = []
    for start in range(0, len(strip), width):
        row = strip[start : start + width]
        texts = [(place, n, f"from {n}" if number else "") for place, n in row]
        cells_ = "".join(_td(lane, n, place, note) for place, n, note in texts)
        rows.append(f'<tr><th scope="row">places {row[0][0]} to {row[-1][0]}</th>{cells_}</tr>')
    return f"<table><caption>Strip {number + 1} of memory</caption>{''.join(rows)}</table>"


def _grid_table(lane: dict[str, Any], number: int) -> str:
    """Return one reading: a row for every row of the tensor."""
    frame = lane["frames"][number]
    shape = frame["shape"] or [1]
    *outer, width = [list(zip(frame["axes"] or ["1"], shape, strict=True))[i] for i in range(len(shape))]
    head = "".join(f'<th scope="col">{_index(width[0], i)}</th>' for i in range(width[1]))
    rows = []
    for row, index in enumerate(product(*(range(size) for _, size in outer))):
        span = range(row * width[1], (row + 1) * width[1])
        if all(frame["ids"][i] < 0 for i in span):
            continue
        name = ", ".join(_index(axis, i) for (axis, _), i in zip(outer, index, strict=True))
        tds = "".join(_td(lane, frame["ids"][i], frame["places"][i], "⚠" if i in frame["odd"] else "") for i in span)
        rows.append(f'<tr><th scope="row">{name}</th>{tds}</tr>')
    as_if = "read as if it were" if frame["odd"] else "read as"
    caption = html.escape(f"{number + 1}. {frame['sentence']} Strip {frame['strip'] + 1}, {as_if} {frame['reading']}.")
    return f"<table><caption>{caption}</caption><tr><td></td>{head}</tr>{''.join(rows)}</table>"


def _index(axis: str, i: int) -> str:
    """Write an index with its axis, H=1."""
    return html.escape("qkv"[i] if axis == "3" else str(i) if axis in ("?", "1") else f"{axis}={i}")


def _td(lane: dict[str, Any], n: int, place: int, note: str) -> str:
    """Return one number: its place, and whose it is."""
    if n < 0:
        return "<td></td>"
    cell = lane["cells"][str(n)]
    small = " ".join(word for word in (cell["tag"], note) if word)
    style = f"background:{cell['fill']};color:#1f2430;text-align:center"
    return f'<td style="{style}">{place}<br><small>{small}</small></td>'


def _count(number: int, word: str, many: str) -> str:
    """Return a number and its noun."""
    return f"{number} {word if number == 1 else many}"
