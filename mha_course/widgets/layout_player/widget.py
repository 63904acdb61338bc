"""Splitting and merging heads, as cells that move over strips of memory."""

from __future__ import annotations

import html
import math
import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mha_course import markup
from mha_course.colours import INK, axis_colour
from mha_course.markup import visible
from mha_course.tracing.records import Argument, Step
from mha_course.widgets.base import esm, style
from mha_course.widgets.layout_player import cells
from mha_course.widgets.player import Player, require_trace

if TYPE_CHECKING:
    from mha_course.tracing import Trace

HERE = Path(__file__).parent


class LayoutPlayer(Player):
    """Follow a tensor through view, reshape, transpose and contiguous, with every number's position
    in memory.

    Args: trace has the steps, of which the first that reshape a tensor are played; beside is a
        second trace, such as the wrong view, played alongside.
    Raises: ShapeError if no step changes the layout, or if more than 512 numbers move.

    >>> import torch
    >>> from mha_course.tracing import trace
    >>> x, names = torch.zeros(1, 3, 8), {"axes": "B S C", "sizes": {"H": 2}}
    >>> LayoutPlayer(trace(lambda x: x.view(1, 3, 2, 4).transpose(1, 2), x, **names))
    LayoutPlayer: view, transpose: 1 strip of memory, no copy.
    """

    _esm = esm("widget.js", folder=HERE)
    _css = style(HERE / "layout_player.css")

    def __init__(self, trace: Trace, beside: Trace | None = None) -> None:
        traces = [trace, *([beside] if beside else [])]
        for item in traces:
            require_trace("LayoutPlayer", item)
        sizes = {name: size for item in reversed(traces) for name, size in item.sizes.items()}
        if {"H", "D"} <= sizes.keys():
            sizes["C"] = sizes["H"] * sizes["D"]
        chains = [cells.choose(item) for item in traces]
        named = [tensor for chain in chains for tensor in chain if "?" not in tensor.axes]
        pairs = zip(traces, chains, strict=True)
        lanes = [_lane(item, chain, named, sizes) for item, chain in pairs]
        self.text = "; beside it ".join(map(_summary, lanes)) + "."
        self.static = markup.figure(_tables(lanes), self.text)
        last = max(len(lane["frames"]) for lane in lanes) - 1
        super().__init__(options={"lanes": lanes, "last": last})


def _lane(
    trace: Trace, chain: list[cells.Tensor], named: list[cells.Tensor], sizes: dict[str, int]
) -> dict[str, Any]:
    strips, readings = cells.replay(chain)
    owners = cells.owners_by_number(readings, sizes)
    frames: list[dict[str, Any]] = []
    mixed = False  # from the first step that mixes
    for number, (tensor, strip, places, ids) in enumerate(readings):
        axes = cells.assumed_axes(tensor, named, chain[0], sizes)
        mixed = mixed or axes != tensor.axes or bool(getattr(tensor, "warning", None))
        meant = cells.owners_by_axes(axes, tensor.shape, sizes)
        odd, mixing = _odd([owners[n] for n in ids], meant, axes) if mixed else ([], "")
        frames.append({
            **_words(trace, tensor, chain[number - 1] if number else None),
            "axes": list(axes), "colors": [axis_colour(axis) for axis in axes],
            "shape": list(tensor.shape),
            "strides": list(tensor.strides), "strip": strip, "places": places, "ids": ids,
            "odd": odd, "mixing": mixing,
        })  # fmt: skip
    strips_in_order = [[[place, n] for place, n in strip.items()] for strip in strips]
    return {"cells": _cells(owners), "strips": strips_in_order, "frames": frames}


def _cells(owners: dict[int, cells.Owner]) -> dict[str, dict[str, Any]]:
    tokens = 1 + max(owner.get("token", 0) for owner in owners.values())
    several = any(owner.get("batch") for owner in owners.values())
    described = {}
    for n, owner in owners.items():
        labels = {"tag": cells.tag(owner), "owner": cells.tag(owner, several)}
        described[str(n)] = {"fill": cells.fill(owner, tokens), **labels, **owner}
    return described


def _odd(
    owners: list[cells.Owner], meant: list[cells.Owner], axes: tuple[str, ...]
) -> tuple[list[int], str]:
    """Return the elements that are not what their axes say, and a description of what was mixed."""
    pairs = list(zip(owners, meant, strict=True))
    odd = [
        i
        for i, (owner, place) in enumerate(pairs)
        if any(owner.get(role, at) != at for role, at in place.items())
    ]
    if not odd:
        return [], ""

    def most(kind: str, holder: str) -> int:
        """Count how many heads, tokens or sentences at most share one index."""
        groups: dict[int, set[int]] = {}
        for owner, place in pairs:
            groups.setdefault(place.get(holder, 0), set()).add(owner.get(kind, 0))
        return max(map(len, groups.values()))

    tokens = len({owner.get("token") for owner in owners})
    if "H" in axes:
        heads = most("head", "head")
        few = most("token", "head")
        text = f"each head holds {f'slices of {heads} heads' if heads > 1 else 'its slice'}"
        text += f", from only {few} of {tokens} tokens" if few < tokens else ""
    elif (tokens_in_row := most("token", "token")) > 1:
        text = f"each token's row holds parts of {tokens_in_row} of {tokens} tokens"
    else:
        text = "the numbers of a head no longer lie side by side"
    return odd, text + ("; sentences are mixed" if most("batch", "batch") > 1 else "")


def _words(trace: Trace, tensor: cells.Tensor, before: cells.Tensor | None) -> dict[str, str]:
    if before is None or isinstance(tensor, Argument):
        call = str(tensor.name or getattr(tensor, "op", ""))
        storage = "start"
        warning = ""
        numbers = math.prod(tensor.shape)
        count = "1 number" if numbers == 1 else f"{numbers} numbers"
        effect = f"{count} in one strip of memory, read with strides {tensor.strides}."
    else:
        call = _call(trace, tensor)
        storage = tensor.storage
        warning = re.sub(r"^[\w-]+: ", "", tensor.warning or "")
        effect = _became(tensor, before)
    words = {"call": call, "line": getattr(tensor, "line", ""), "warning": warning}
    words = {name: visible(text) for name, text in words.items()}
    return {**words, "storage": storage, "sentence": f"{words['call']}: {effect}"}


def _became(step: Step, before: cells.Tensor) -> str:
    """Say what a step does to memory and strides."""
    numbers = math.prod(step.shape)
    if step.storage == "view":
        unchanged = step.strides == before.strides
        strides = "strides stay" if unchanged else f"strides go from {before.strides} to"
        effect = f"a view. No number moves; {strides} {step.strides}."
    elif step.storage == "copy":
        order = "in the order of the axes" if step.contiguous else "in the order they were in"
        effect = f"a copy. All {numbers} numbers are written anew, {order}, with strides "
        effect += f"{step.strides}."
    else:
        already = "very same tensor: it was contiguous already"
        effect = f"the {already if step.op == 'contiguous' else 'same tensor'}."
    if numbers < math.prod(before.shape):
        effect += f" It reads {numbers} of the numbers, from place {step.offset} on."
    if step.storage == "copy" and step.op in cells.RESHAPES:
        effect += f" {before.strides} could not be read in this shape, so {step.op} had to copy."
    return effect


def _call(trace: Trace, step: Step) -> str:
    """Return a call as in its line, or with its shape if the line is ambiguous."""
    inside = r"(?:[^()]|\([^()]*\))*"  # calls among the arguments, too
    calls = re.findall(rf"\b{re.escape(step.op)}\({inside}\)", step.line)
    place = (step.source, step.lineno, step.op)
    alike = [s.index for s in trace.steps if (s.source, s.lineno, s.op) == place]
    if len(set(calls)) == 1 or (calls and len(alike) % len(calls) == 0):
        return calls[alike.index(step.index) % len(calls)]
    return f"{step.op}{step.shape}" if step.op in ("view", "reshape") else step.op


def _summary(lane: dict[str, Any]) -> str:
    """Describe a lane's steps, and what they do to memory and to the heads."""
    _, *steps = lane["frames"]
    copies = sum(frame["storage"] == "copy" for frame in steps)
    strips = f"{copies + 1} strips of memory, {copies} {'copy' if copies == 1 else 'copies'}"
    strips = strips if copies else "1 strip of memory, no copy"
    ops = ", ".join(frame["call"].partition("(")[0] for frame in steps)
    mixing = next((f"; ⚠ {frame['mixing']}" for frame in reversed(steps) if frame["mixing"]), "")
    return f"{ops}: {strips}{mixing}"


def _tables(lanes: list[dict[str, Any]]) -> str:
    """Return every reading as a table; the lanes' common start appears once."""
    blocks = []
    for lane, place in zip(lanes, ("", "Beside it: "), strict=False):
        for number, frame in enumerate(lane["frames"], start=1):
            start = (frame, lane["cells"]) == (lanes[0]["frames"][0], lanes[0]["cells"])
            if place and number == 1 and start:
                continue
            blocks.append(_table(lane, frame, f"{place}{number}. "))
            warnings = filter(None, (frame["mixing"], frame["warning"]))
            blocks += [f"<p>⚠ {html.escape(text)}</p>" for text in warnings]
    return "".join(blocks)


def _table(lane: dict[str, Any], frame: dict[str, Any], prefix: str) -> str:
    """Return one reading: columns for the last axis, rows for the indices of all others."""
    sizes = zip(frame["axes"] or ["1"], frame["shape"] or [1], strict=True)
    *outer, last = [[_index(axis, i) for i in range(size)] for axis, size in sizes]
    heads = "".join(f'<th scope="col">{name}</th>' for name in last)
    rows = [f"<tr><td></td>{heads}</tr>"]
    for number, index in enumerate(product(*outer)):
        places = range(number * len(last), (number + 1) * len(last))
        tds = "".join(_td(lane, frame, i) for i in places)
        rows.append(f'<tr><th scope="row">{", ".join(index)}</th>{tds}</tr>')
    read = "read as if it were" if frame["odd"] else "read as"
    reading = cells.written(frame["axes"], frame["shape"])
    caption = f"{prefix}{frame['sentence']} Strip {frame['strip'] + 1}, {read} {reading}."
    return (
        f"<table><caption "
        f'style="text-align:left">{html.escape(caption)}</caption>{"".join(rows)}</table>'
    )


def _index(axis: str, i: int) -> str:
    return html.escape("qkv"[i] if axis == "3" else str(i) if axis in ("?", "1") else f"{axis}={i}")


def _td(lane: dict[str, Any], frame: dict[str, Any], i: int) -> str:
    """Return a cell: its position, its owner, and a mark if that is not what the axes say."""
    cell = lane["cells"][str(frame["ids"][i])]
    style = f"background:{cell['fill']};color:{INK};text-align:center"
    mark = " ⚠" if i in frame["odd"] else ""
    return f'<td style="{style}">{frame["places"][i]}<br><small>{cell["tag"]}{mark}</small></td>'
