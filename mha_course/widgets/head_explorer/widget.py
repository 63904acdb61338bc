"""All heads side by side and one of them large, every cell with its words, recomputed while a control moves.

Axes: L layers, B sentences, H heads, T query tokens, S key tokens.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course.errors import ShapeError
from mha_course.widgets.base import StaticFallbackWidget, esm
from mha_course.widgets.head_explorer import controls as asking
from mha_course.widgets.head_explorer import static
from mha_course.widgets.head_explorer.maps import PLACE, Maps, read
from mha_course.widgets.head_explorer.packing import SIDE, pack, pack_one
from mha_course.widgets.head_explorer.page import write_page

HERE = Path(__file__).parent
SCRIPTS = ("data.js", "draw.js", "scene.js", "text.js", "thumbnails.js", "controls.js", "input.js", "widget.js")
PAGE_BYTES = 32_000_000  # beyond which a page holds small pictures
PAGE_SIDE = 256


class HeadExplorer(StaticFallbackWidget):
    """Show what every head attends to; the cells, rows and columns answer to pointer and keyboard.

    Args:
        weights: (T, S), (H, T, S), (B, H, T, S) or (L, B, H, T, S): weights, or other numbers such as scores; a
            tensor on any device, an array or lists.
        queries: T tokens, or a list of them for each sentence; numbers without it.
        keys: S tokens, likewise; by default the queries where T = S.
        mask: bool, True = may attend, (T, S) or broadcastable to the weights.
        recompute: a function that is called while a control moves. Its parameters are the controls: ``temperature``,
            ``scale``, ``mask`` (bool (T, S) or None), ``sentence`` (str) and others with a number as default; or any
            four by position, in this order. It returns weights, (weights, queries) or (weights, queries, keys).
    Raises: ShapeError.

    ``layer``, ``item`` (the sentence), ``head``, ``beside`` (what it is compared with, counted through all layers, -1
    for nothing) and ``scale`` ("fixed" or "head") follow the learner and may be set. The average counts as a head.

    >>> HeadExplorer([[0.9, 0.1], [0.3, 0.7]], queries=["it", "sat"])
    HeadExplorer: 1 head, 2 query and 2 key tokens; in head 0 the largest number is 0.90, from “it” to “it”.
    """

    _esm = esm(*SCRIPTS, folder=HERE)
    _css = HERE / "head_explorer.css"
    packet, full, page, palettes = (traitlets.Bytes().tag(sync=True) for _ in range(4))
    options, trouble = (traitlets.Dict().tag(sync=True) for _ in range(2))
    request, wanted = (traitlets.Dict().tag(sync=True, echo_update=False) for _ in range(2))
    asked, layer, item, head = (traitlets.Int(0).tag(sync=True) for _ in range(4))
    beside = traitlets.Int(-1).tag(sync=True)
    scale = traitlets.Enum(["fixed", "head"], "fixed").tag(sync=True)

    def __init__(
        self,
        weights: Any,
        *,
        queries: Sequence[Any] | None = None,
        keys: Sequence[Any] | None = None,
        mask: Any = None,
        recompute: Callable[..., Any] | None = None,
        **view: Any,
    ) -> None:
        strange = set(view) - {"layer", "item", "head", "beside", "scale"}
        if strange:
            raise TypeError(f"HeadExplorer: unexpected {', '.join(sorted(strange))}")
        self._maps, self._mask, self._lock = read(weights, queries, keys, mask), mask, threading.Lock()
        self._serial = 0
        self._sentence = " ".join(self._maps.names(0)[0])
        self._device = getattr(weights, "device", "cpu")
        chosen, painted = self._chosen()
        self._asking = None if recompute is None else asking.Asking(recompute, self._sentence, chosen)
        controls = self._asking.controls if self._asking else []
        start = {"request": {"serial": 0, "painted": painted}, "options": {"controls": controls}}
        super().__init__(packet=pack(self._maps, 0), palettes=static.palettes(), **start, **view)
        self._say()

    def _chosen(self) -> tuple[str, dict[str, Any] | None]:
        """Return which choice of a mask it starts with, and the cells if it is none of ours."""
        given = self._maps.mask
        if given is None or given.size != math.prod(given.shape[3:]):
            return "none", None
        size = (given.shape[3], given.shape[4])
        for choice in asking.MASKS[1:3]:
            if np.array_equal(asking.mask_of(choice, size, None, "cpu"), given[0, 0, 0]):  # type: ignore[arg-type]
                return choice, None
        return "painted", asking.paint(given[0, 0, 0])

    @traitlets.validate("layer", "item", "head", "beside")
    def _within(self, proposal: dict[str, Any]) -> int:
        """Keep to the maps that there are."""
        L, B, *_ = self._maps.shape
        name = proposal["trait"].name
        most = {"layer": L, "item": B, "head": self._maps.slots, "beside": L * self._maps.slots}[name] - 1
        return int(max(-1 if name == "beside" else 0, min(proposal["value"], most)))

    @traitlets.observe("layer", "item", "head")
    def _say(self, _: Any = None) -> None:
        """Say in one sentence what is to be seen."""
        self.text = static.told(self._maps, self.layer, self.item, self.head)

    @traitlets.observe("request")
    def _answer(self, change: dict[str, Any]) -> None:
        """Recompute for the controls' values. What goes wrong is told in place, and the last picture stays."""
        values = change["new"]
        if self._asking is None or not values.get("serial"):
            return  # nothing was asked yet
        with self._lock:
            try:
                self._maps = self._computed(self._asking, values)
                self._say()
                self._serial = values["serial"]
                self.packet = pack(self._maps, self._serial)
            except _TroubleError as trouble:
                self.trouble = {"serial": values["serial"], "text": str(trouble)}

    def _computed(self, ask: asking.Asking, values: dict[str, Any]) -> Maps:
        """Call the function, and read what it returned."""
        sentence = values.get("sentence") if ask.has("sentence") else None
        sentence = self._sentence if sentence is None else str(sentence)
        more = len(sentence.split()) - len(self._sentence.split()) if sentence != self._sentence else 0
        T, S = (max(size + more, 1) for size in self._maps.shape[3:])
        mask = self._mask
        try:
            if ask.has("mask"):
                mask = asking.mask_of(values.get("mask", "none"), (T, S), values.get("painted"), self._device)
            result = ask(values, mask)
        except Exception as error:
            raise _TroubleError(f"your function: {_line(error)}") from error
        if result is None:
            raise _TroubleError("your function returned None: expected weights, such as (H, T, S)")
        try:
            maps = self._read(result, sentence, mask)
        except Exception as error:
            raise _TroubleError(f"your function returned something else: {_line(error)}") from error
        self._sentence = sentence
        return maps

    def _read(self, result: Any, sentence: str, mask: Any) -> Maps:
        """Read a result; tokens that it does not name are those of the sentence, or as before, where they fit."""
        weights, queries, keys = asking.parts(result)
        maps = read(weights, queries, keys)
        _, B, _, T, S = maps.shape
        if queries is None:
            words = sentence.split() if sentence != self._sentence else []
            old = self._maps if self._maps.shape[3:] == (T, S) and self._maps.shape[1] == B else maps
            queries = words if len(words) == T else old.queries
            keys = words if len(words) == S else old.keys
        try:
            return read(weights, queries, keys, mask)
        except ShapeError:  # the mask was made for other tokens
            return read(weights, queries, keys)

    @traitlets.observe("wanted")
    def _send_map(self, change: dict[str, Any]) -> None:
        """Send every cell of a map that was sent small."""
        wanted = change["new"]
        with self._lock:
            if wanted.get("serial") == self._serial:  # else a newer picture is on its way
                self.full = pack_one(self._maps, self._serial, *wanted["map"])

    @traitlets.observe("asked")
    def _send_page(self, _: Any) -> None:
        """Send the page that the learner wants to keep."""
        self.page = self.to_html().encode()

    def to_html(self) -> str:
        """Return a page that shows all heads as they are now, without Python and without a network."""
        side = PAGE_SIDE if math.prod(self._maps.shape[:3]) * PAGE_SIDE**2 * 2 <= PAGE_BYTES else SIDE
        view = {name: getattr(self, name) for name in ("layer", "item", "head", "beside", "scale")}
        state = {**view, "options": {"controls": [], "alone": True}, "request": {}, "trouble": {}, "asked": 0}
        binary = {"packet": pack(self._maps, 0, PAGE_BYTES, side), "palettes": self.palettes}
        return write_page(repr(self), str(self._css), self._esm, state, binary)

    def save(self, path: str | Path) -> None:
        """Write the picture (.png) or the page (.html)."""
        file = Path(path)
        if file.suffix not in (".png", ".html"):
            raise ShapeError(
                f"{PLACE}.save", "the name must end in .png or .html", expected="a name", got=repr(str(path))
            )
        file.write_bytes(self.png() if file.suffix == ".png" else self.to_html().encode())

    def picture(self) -> Axes | Figure:
        """Draw the heads that are shown: up to 16 of the layer, or the head alone where numbers are no weights."""
        return static.drawn(self._maps, self.layer, self.item, self.head)


class _TroubleError(Exception):
    """What a learner's function did wrong, in one line."""


def _line(error: Exception) -> str:
    """Return an error's kind and message in one line."""
    message = " ".join(str(error).split())
    kind = "" if isinstance(error, ShapeError) and message.startswith(PLACE) else f"{type(error).__name__}: "
    return f"{kind}{message.removeprefix(f'{PLACE}: ')}"[:300]
