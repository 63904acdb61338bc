"""A model's training as a film: its heads' weights in one sentence, and its loss.

Axes: N snapshots, H heads, S tokens of the sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from mha_course import plots
from mha_course.colours import HEAD_COLOURS
from mha_course.example import SENTENCE, encode
from mha_course.models import MaskedWordModel
from mha_course.plots.figures import SMALL
from mha_course.plots.scales import WEIGHTS, palettes
from mha_course.widgets.base import esm, style
from mha_course.widgets.player import Player

HERE = Path(__file__).parent
LAYER = 1  # whose heads are shown
PAUSE = 70  # milliseconds per snapshot when the film plays
SENT = 5  # snapshots sent to the browser together during training
WINDOW = 25  # steps over which losses are averaged


class TrainingFilm(Player):
    """Show heads, a sentence with arcs, and the loss: live during training, then as a player.

    Args: model is still untrained, and its heads are the first snapshot; steps is how many it will
        be trained for, every how many lie between two calls of look.
    """

    _esm = esm("film.js", folder=HERE)
    _css = style(HERE / "film.css")
    row = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)

    def __init__(self, model: MaskedWordModel, *, steps: int, every: int = 5) -> None:
        tokens = SENTENCE.split()
        self._row, self._column = tokens.index("it"), tokens.index("cat")
        self._ids, _ = encode([tokens])  # (1, S)
        self.losses: list[float] = []  # one for each training step
        self._frames: list[NDArray[np.uint8]] = []  # N of (H, S, S)
        options = {"tokens": tokens, "column": self._column, "steps": steps, "every": every}
        options["colours"] = [colour.ink for colour in HEAD_COLOURS]
        options |= {"last": math.ceil(steps / every), "pause": PAUSE, **palettes()}
        super().__init__(options=options, row=self._row)
        self.look(model, 0)

    def recorded(self, loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return the same loss function, recording its results in the film."""

        def recording(*inputs: Any) -> Tensor:
            value = loss(*inputs)
            self.losses.append(value.item())
            return value

        return recording

    def look(self, model: MaskedWordModel, step: int) -> None:
        """Add a snapshot of the model after a number of steps."""
        if step == 0 and self._frames:
            return  # already recorded
        weights = model.attention_weights(self._ids.to(model.device))[LAYER, 0]  # (H, S, S)
        self._frames.append((255 * weights.detach().cpu().numpy()).round().astype("u1"))
        if len(self._frames) % SENT == 1 or step == self.options["steps"]:
            self.text = self._sentence()
            with self.hold_sync():
                self.state = self._state_after({})
                self.head, self.position = self._best(), len(self._frames) - 1

    @property
    def weights(self) -> NDArray[np.float64]:
        """Return the weights of all snapshots, (N, H, S, S), to the nearest 255th."""
        return np.stack(self._frames) / 255

    @property
    def moments(self) -> list[int]:
        """Return four snapshots: the first, the last before the head appears, as it does, the last.

        It appears where *it* first puts half its maximum weight on *cat*, in the head that puts
        most there in the end; just before, the weight is below a quarter of the maximum.
        """
        rise = self._to_target()
        appears = int(np.argmax(rise >= rise.max() / 2))
        below = np.flatnonzero(rise[:appears] < rise.max() / 4)
        return [0, int(below.max(initial=0)), appears, len(rise) - 1]

    def _best(self) -> int:
        return int(self._frames[-1][:, self._row, self._column].argmax())

    def _to_target(self) -> NDArray[np.float64]:
        """Return the weight of *it* on *cat* in the best head, (N,)."""
        return self.weights[:, self._best(), self._row, self._column]

    def _step(self, snapshot: int) -> int:
        return int(min(snapshot * self.options["every"], self.options["steps"]))

    def _sentence(self) -> str:
        rise = self._to_target()
        weights = [f"{rise[i]:.2f} at step {self._step(i)}" for i in self.moments]
        text = f"How much of its weight “it” puts on “cat” in head {self._best()} of layer "
        text += f"{LAYER}: {', '.join(dict.fromkeys(weights))}."
        if self.losses:
            first, last = np.mean(self.losses[:WINDOW]), np.mean(self.losses[-WINDOW:])
            text += f" The loss goes from {first:.2f} to {last:.2f} nats a word."
        return text

    def _means(self) -> NDArray[np.float64]:
        """Return the running mean of the losses at each step."""
        ends = range(1, len(self.losses) + 1)
        return np.array([np.mean(self.losses[max(0, end - WINDOW) : end]) for end in ends])

    def _drawn(self) -> dict[str, Any]:
        frames = np.stack(self._frames)
        heads = {"heads": frames.shape[1], "weights": frames.tobytes()}
        return heads | {"losses": self._means().astype("<f4").tobytes()}

    def picture(self) -> Figure:
        """Draw the row of *it* at four moments, and mark these on the loss curve."""
        figure = plots.new_figure(10.5, 6.4)
        above, below = figure.subplots(2, 1, height_ratios=(2.5, 3))
        rows = self.weights[self.moments, self._best(), self._row]  # (4, S)
        names = [f"{n}: step {self._step(i)}" for n, i in enumerate(self.moments, 1)]
        style: dict[str, Any] = {"keys": self.options["tokens"], "annotate": True, "ax": above}
        title = f"“it” in head {self._best()}"
        plots.heatmap(rows, queries=names, title=title, scale=WEIGHTS, **style)
        above.set(xlabel="", ylabel="")
        steps = range(1, len(self.losses) + 1)
        below.plot(steps, self.losses, color=plots.BAR, alpha=0.45, linewidth=1, label="each step")
        label = f"loss, mean of {WINDOW}"
        below.plot(steps, self._means(), color=plots.INK, linewidth=2.4, label=label)
        below.set(xlabel="step", ylabel="nats a word")
        below.set(xlim=(0, self.options["steps"]), ylim=(0, None))
        for n, i in enumerate(self.moments, 1):
            below.axvline(self._step(i), color=plots.ACCENT, linewidth=2)
            below.text(self._step(i), below.get_ylim()[1], f" {n}", va="top", fontsize=SMALL)
        below.spines[["top", "right"]].set_visible(False)
        below.legend(frameon=False)
        return figure
