"""All heads side by side, one of them enlarged, recomputed while a control moves.

Axes: L layers, B sentences, H heads, T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mha_course.colours import HEAD_COLOURS, INK
from mha_course.datasets.grammar import words_of
from mha_course.errors import ShapeError, require
from mha_course.plots.scales import palettes
from mha_course.widgets.base import CourseWidget, esm, style
from mha_course.widgets.controls import Control
from mha_course.widgets.head_explorer import controls, static
from mha_course.widgets.head_explorer.maps import PLACE, numbers_of, read
from mha_course.widgets.learner_function import COURSES, YOURS, LearnerFunction

HERE = Path(__file__).parent


class HeadExplorer(CourseWidget):
    """Show what every head attends to; cells, rows and columns respond to pointer and keyboard.

    Args:
        weights: (T, S), (H, T, S), (B, H, T, S) or (L, B, H, T, S): weights, or other numbers such
            as scores; a tensor on any device, an array or lists; T and S up to 512.
        queries: T tokens, or a list of them for each sentence; by default numbers.
        keys: S tokens, likewise; by default the queries if T = S.
        mask: bool, True = may attend, (T, S) or broadcastable to the weights.
        recompute: a function that is called at the start, and while a control moves. Its parameters
            are the controls: ``temperature``, ``scale``, ``mask`` (bool (T, S) or None),
            ``sentence`` (str) and others with a number as default. It returns weights, (weights,
            queries) or (weights, queries, keys). Its method ``without_kernel``, if it has one,
            gives JavaScript that answers in its place: see without_kernel.js. Its method
            ``suggestions``, if it has one, gives what can be done to a sentence without typing: see
            suggestions.js.
        source: the line that says where the numbers of recompute come from.
        follow: the query whose arcs are drawn at the start; by default that of the largest
            number between two different tokens.
    Raises: ShapeError.

    Weights between at most 40 words open as a sentence with arcs from the followed word, and unfold
    to a table. Anything else is a table from the start.

    With ``recompute``, the numbers come from this function from the start; if it returns None or
    raises, the given ones stay, and a line says so.

    ``layer``, ``head``, ``row`` (the followed query) and ``unfolded`` (whether the table is shown)
    follow the learner and may be set. The average counts as a head; sentences are listed below each
    other like layers, and counted with them: sentence 1 of layer 2, of three, is 7.

    >>> explorer = HeadExplorer([[0.9, 0.1], [0.3, 0.7]], queries=["it", "sat"])
    >>> explorer.text
    '1 head, 2 query and 2 key tokens; in this head “sat” puts 0.70 on “sat”, 0.30 on “it”.'
    """

    _esm = esm("widget.js", folder=HERE)
    _css = style(HERE / "head_explorer.css")
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    unfolded = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self, weights: Any, *, queries: Sequence[Any] | None = None,
        keys: Sequence[Any] | None = None, mask: Any = None,
        recompute: Callable[..., Any] | None = None, source: str = YOURS,
        layer: int = 0, head: int = 0, follow: str | None = None,
    ) -> None:  # fmt: skip
        self._maps = read(weights, queries, keys, mask)
        self._mask = mask
        self._sentence = " ".join(self._maps.tokens[0][0])
        self._source = "" if recompute is None else COURSES
        self._source_of_recompute = source
        device = getattr(weights, "device", "cpu")
        self._given_mask = torch.from_numpy(~self._maps.hidden[0, 0]).to(device)
        chosen: list[Control] = []
        self._function = None
        if recompute is not None:
            chosen = controls.controls_of(recompute, self._sentence, self._maps.hidden)
            self._function = LearnerFunction(PLACE, "function", recompute)
        specs = [control.spec() for control in chosen]
        inks = [colour.ink for colour in HEAD_COLOURS]
        options = {"controls": specs, "palettes": palettes(), "colours": inks}
        if recompute is not None and hasattr(recompute, "suggestions"):
            options["suggestions"] = recompute.suggestions()
        super().__init__(chosen, options=options, layer=layer, head=head)
        self.row = self._row_at_start(follow)
        self._sentence = self.values.get("sentence", self._sentence)
        self._show({})

    def _shown(self) -> tuple[int, int]:
        """Return the layer and head shown, since new maps may have fewer."""
        layers, heads = self._maps.numbers.shape[:2]
        return max(0, min(self.layer, layers - 1)), max(0, min(self.head, heads - 1))

    def _row_at_start(self, follow: str | None) -> int:
        """Return the row of a query, the last with this name, or the one with the largest
        number."""
        queries = self._maps.tokens_of(self._shown()[0])[0]
        if follow is None:
            return (self._maps.largest(*self._shown(), distinct=True) or (0, 0))[0]
        expected = f"one of {', '.join(queries)}"
        rule = "follow must be one of the queries"
        require(follow in queries, PLACE, rule, expected=expected, got=repr(follow))
        return len(queries) - 1 - queries[::-1].index(follow)

    def _followed(self) -> int:
        """Return the followed row, since new maps may have fewer."""
        return max(0, min(self.row, self._maps.shape[2] - 1))

    @traitlets.observe("layer", "head", "row")
    def _describe(self, _: Any = None) -> None:
        """Describe in one sentence what is shown."""
        self.text = static.caption(self._maps, *self._shown(), self._followed())

    def _drawn(self) -> dict[str, Any]:
        self._describe()
        ahead = self._shown() if self._ahead else None
        return {**self._maps.message(ahead), "source": self._source}

    def _receive(self, event: Mapping[str, Any]) -> None:
        """Call the function with the controls' values; not again if the browser asks for the
        rest."""
        self._ahead = False  # whether the visible map is sent first
        if self._function is None or "rest" in event:
            return
        for name, sent in event.get("moved", {}).items():
            self.values[name] = self._controls[name].read(PLACE, sent)
        values = dict(self.values)
        sentence = values.get("sentence", self._sentence)
        # A function may have extra tokens, such as [CLS]: sizes change by as many as words were
        # added.
        added = len(words_of(sentence)) - len(words_of(self._sentence))
        T, S = (max(size + added, 1) for size in self._maps.shape[2:])
        mask = self._mask
        if "mask" in values:
            mask = controls.mask_from_choice(values["mask"], (T, S), self._given_mask)
            values["mask"] = mask
        keep = partial(self._keep, sentence, mask)
        self._function.result_to(keep, "weights, such as (H, T, S)", **values)
        self._ahead = "moved" in event

    def _keep(self, sentence: str, mask: Any, result: Any) -> None:
        """Read a result; without tokens, take the sentence's, or the ones before."""
        weights, queries, keys = controls.split_result(result)
        B, _, T, S = (1, 1, *numbers_of(weights).shape)[-4:]
        if queries is None:
            words = sentence.split() if sentence != self._sentence else []
            if words and len(words) != T:
                words = words_of(sentence)
            if self._maps.shape[2:] == (T, S) and len(self._maps.tokens) == B:
                queries, keys = ([names[side] for names in self._maps.tokens] for side in (0, 1))
            queries = words if len(words) == T else queries
            keys = words if len(words) == S else keys
        try:
            self._maps = read(weights, queries, keys, mask)
        except ShapeError:  # the mask was made for other tokens
            self._maps = read(weights, queries, keys)
        self._sentence = sentence
        self._source = self._source_of_recompute

    def without_kernel(self) -> dict[str, Any]:
        """Return the function's own JavaScript; without it, no control is shown."""
        function: Any = self._function and self._function.function
        if hasattr(function, "without_kernel"):
            return {"answerer": function.without_kernel()}
        return {"options": {**self.options, "controls": [], "suggestions": None}}

    def picture(self) -> Axes | Figure:
        """Draw the sentence and up to 16 heads of the layer, or only one head."""
        layer, slot = self._shown()
        is_head = slot < self._maps.num_heads  # without their average
        colour = HEAD_COLOURS[slot % len(HEAD_COLOURS)].ink if is_head else INK
        return static.figure(self._maps, layer, slot, self._followed(), colour)
