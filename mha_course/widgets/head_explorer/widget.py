"""All heads side by side and one of them large, every cell with its words, recomputed while a control moves.

Axes: L layers, B sentences, H heads, T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course import plots
from mha_course.errors import SentenceError, ShapeError
from mha_course.widgets.base import INTERRUPTED, StaticFallbackWidget, error_line, esm
from mha_course.widgets.controls import Control
from mha_course.widgets.head_explorer import static
from mha_course.widgets.head_explorer.controls import (
    MASKS,
    controls_of,
    mask_from_choice,
    paint,
    read_values,
    split_result,
)
from mha_course.widgets.head_explorer.maps import PLACE, Maps, read

HERE = Path(__file__).parent
COURSES, YOURS = "These numbers are the course's.", "These numbers are your function's."


class HeadExplorer(StaticFallbackWidget):
    """Show what every head attends to; the cells, rows and columns answer to pointer and keyboard.

    Args:
        weights: (T, S), (H, T, S), (B, H, T, S) or (L, B, H, T, S): weights, or other numbers such as scores; a
            tensor on any device, an array or lists; T and S up to 512.
        queries: T tokens, or a list of them for each sentence; numbers without it.
        keys: S tokens, likewise; by default the queries where T = S.
        mask: bool, True = may attend, (T, S) or broadcastable to the weights.
        recompute: a function that is called at the start, and while a control moves. Its parameters are the controls:
            ``temperature``, ``scale``, ``mask`` (bool (T, S) or None), ``sentence`` (str) and others with a number as
            default; or any four by position, in this order. It returns weights, (weights, queries) or (weights,
            queries, keys).
    Raises: ShapeError.

    With ``recompute`` the numbers are those of this function from the start; where it returns None or raises, the given
    ones stay, and a line says so.

    ``layer``, ``item`` (the sentence), ``head``, ``beside`` (what it is compared with, counted through all layers, -1
    for nothing) and ``scale`` ("fixed" or "head") follow the learner and may be set. The average counts as a head.

    >>> HeadExplorer([[0.9, 0.1], [0.3, 0.7]], queries=["it", "sat"])
    HeadExplorer: 1 head, 2 query and 2 key tokens; in head 0 the largest number is 0.90, from “it” to “it”.
    """

    _esm = esm("widget.js", folder=HERE)
    _css = HERE / "head_explorer.css"
    # What Python sends: the maps, an error of the learner's function; controls and palettes, once.
    packet = traitlets.Dict().tag(sync=True)
    trouble = traitlets.Dict().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    # What the browser asks: a serial number, the controls' values and the painted mask.
    request = traitlets.Dict().tag(sync=True, echo_update=False)
    layer = traitlets.Int(0).tag(sync=True)
    item = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
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
        layer: int = 0,
        item: int = 0,
        head: int = 0,
        beside: int = -1,
        scale: str = "fixed",
    ) -> None:
        self._maps, self._mask = read(weights, queries, keys, mask), mask
        self._sentence, self._whose = " ".join(self._maps.tokens[0][0]), "" if recompute is None else COURSES
        self._device = getattr(weights, "device", "cpu")
        self._recompute: Any = recompute
        self._controls: dict[str, Control] = {}
        self._by_position = False
        painted = None
        if recompute is not None:
            choice, painted = _mask_choice(self._maps)
            self._controls, self._by_position = controls_of(recompute, self._sentence, choice)
            self._sentence = getattr(self._controls.get("sentence"), "start", self._sentence)
        # On a slide nothing recomputes.
        specs = [] if plots.figures.ON_SLIDES else [control.spec() for control in self._controls.values()]
        values = {name: control.write(control.start) for name, control in self._controls.items()}
        options = {"controls": specs, "palettes": static.palettes()}
        request = {"serial": 0, "values": values, "painted": painted}
        trouble = {"serial": 0, "text": self._call(request) if recompute is not None else ""}
        shown = {"layer": layer, "item": item, "head": head, "beside": beside, "scale": scale}
        super().__init__(packet=self._message(0), trouble=trouble, request=request, options=options, **shown)
        self._describe()

    def _shown(self) -> tuple[int, int, int]:
        """Return layer, sentence and head that are shown: of new maps there may be fewer than before."""
        L, B, *_ = self._maps.shape
        counts = {"layer": L, "item": B, "head": self._maps.slots}
        layer, item, head = (max(0, min(getattr(self, name), count - 1)) for name, count in counts.items())
        return layer, item, head

    @traitlets.observe("layer", "item", "head")
    def _describe(self, _: Any = None) -> None:
        """Say in one sentence what is to be seen."""
        self.text = static.caption(self._maps, *self._shown())

    @traitlets.observe("request")
    def _answer(self, change: dict[str, Any]) -> None:
        """Recompute for the controls' values. What goes wrong is shown in place, and the last picture stays."""
        request = change["new"]
        if not self._controls or not request.get("serial"):
            return  # nothing was asked yet
        try:
            trouble = self._call(request)
        except KeyboardInterrupt:  # somebody stopped the kernel: it answers again
            trouble = INTERRUPTED
        if trouble:
            self.trouble = {"serial": request["serial"], "text": trouble}
        else:
            self._describe()
            self.packet = self._message(request["serial"])

    def _message(self, serial: int) -> dict[str, Any]:
        """Return what the browser draws, and whose numbers they are."""
        return {**self._maps.message(serial), "whose": self._whose}

    def _call(self, request: dict[str, Any]) -> str:
        """Call the function and keep the maps that it returned; return what went wrong, or nothing."""
        values, mask = read_values(self._controls, request.get("values", {})), self._mask
        sentence = values.get("sentence", self._sentence)
        # A function may count tokens that are no words, such as [CLS]: sizes change by as many as words were added.
        more = len(sentence.split()) - len(self._sentence.split())
        T, S = (max(size + more, 1) for size in self._maps.shape[3:])
        if "mask" in values:
            values["mask"] = mask = mask_from_choice(values["mask"], (T, S), request.get("painted"), self._device)
        try:
            result = self._recompute(*values.values()) if self._by_position else self._recompute(**values)
        except SentenceError as error:  # while somebody types
            return error_line(error)
        except Exception as error:
            return f"your function: {error_line(error)}"
        if result is None:
            return "your function returns nothing yet (None): expected weights, such as (H, T, S)"
        try:
            self._maps = self._read(result, sentence, mask)
        except Exception as error:
            return f"your function returned something else: {error_line(error).removeprefix(f'{PLACE}: ')}"
        self._sentence, self._whose = sentence, YOURS
        return ""

    def _read(self, result: Any, sentence: str, mask: Any) -> Maps:
        """Read a result; tokens that it does not name are those of the sentence, or as before, where they fit."""
        weights, queries, keys = split_result(result)
        maps = read(weights, queries, keys)
        _, B, _, T, S = maps.shape
        if queries is None:
            words = sentence.split() if sentence != self._sentence else []
            if self._maps.shape[3:] == (T, S) and self._maps.shape[1] == B:
                queries, keys = ([names[side] for names in self._maps.tokens] for side in (0, 1))
            queries = words if len(words) == T else queries
            keys = words if len(words) == S else keys
        try:
            return read(weights, queries, keys, mask)
        except ShapeError:  # the mask was made for other tokens
            return read(weights, queries, keys)

    def picture(self) -> Axes | Figure:
        """Draw the heads that are shown: up to 16 of the layer, or the head alone where numbers are no weights."""
        return static.figure(self._maps, *self._shown())


def _mask_choice(maps: Maps) -> tuple[str, list[str] | None]:
    """Return which choice of a mask the maps have, and its cells if it is none of ours."""
    allowed = ~maps.hidden[0, 0, 0]
    if allowed.all() or (maps.hidden == allowed).any():  # a menu cannot say a mask for each head
        return "none", None
    for choice in MASKS[1:3]:
        if (mask_from_choice(choice, allowed.shape, None, "cpu").numpy() == allowed).all():
            return choice, None
    return "painted", paint(allowed)
