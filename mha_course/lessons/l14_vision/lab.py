"""The lab of lesson 14: what each patch of a picture attends to, in every head."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.image import imsave

from mha_course.lessons.l14_vision import vision
from mha_course.lessons.l14_vision.overlays import attention_overlay
from mha_course.lessons.l14_vision.shapes import Pictures
from mha_course.widgets.base import esm
from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import Panels

HERE = Path(__file__).parent
COUNT = 12  # pictures to choose from: a page without a kernel carries all states
FULL = 255  # a patch's brightness: scaled by its head's largest weight


class PatchLab(Lab):
    """Choose a picture and a query, and see its weights on the patches as brightness.

    Args: a ``transformer`` of ``vision``; ``pictures``, of which the first 12 can be chosen;
        ``picture``, the index of the one shown first.
    """

    _esm = esm("lab.js", folder=HERE)
    _css = f"{Lab._css}\n{(HERE / 'lab.css').read_text(encoding='utf-8')}"
    question = "What does a patch attend to?"
    hint = "Click a patch: it becomes the query. Pictures 2n and 2n + 1 are a pair."

    @torch.no_grad()
    def __init__(
        self, transformer: vision.VisionTransformer, pictures: Pictures, picture: int = 0
    ) -> None:
        self._images = pictures.images[:COUNT]
        weights = transformer.attention_weights(self._images)[..., 1:].cpu()  # (L, B, H, S, N)
        on_shape = vision.shape_patches(pictures)[:COUNT, None, None]  # (B, 1, 1, N)
        self._weights = weights
        self._lights = (FULL * weights / weights.amax(-1, keepdim=True)).round().to(torch.uint8)
        self._shares = (weights * on_shape).sum(-1) / weights.sum(-1)  # (L, B, H, S)
        self._names = [pictures.describe(n) for n in range(len(self._images))]
        self._png = list(map(_png, self._images))
        layers = tuple(range(len(weights)))
        queries = tuple(range(weights.size(3)))  # the class token is the first
        words = ("class token", *(f"patch {n}" for n in queries[:-1]))
        numbers = tuple(range(len(self._images)))
        super().__init__([
            Control("picture", "picture", "slider", picture, numbers),
            Control("layer", "layer", "choice", 0, layers),
            Control("query", "query", "slider", 0, queries, words),
        ])  # fmt: skip

    def draw(self, picture: int, layer: int, query: int) -> tuple[Panels, str]:
        """Draw the picture, and again for each head, with weights as brightness."""
        lights = self._lights[layer, picture, :, query].tolist()
        full = [FULL] * len(lights[0])
        titled = {"the image": full, **{f"head {n}": row for n, row in enumerate(lights)}}
        on_shapes = ", ".join(f"{share:.2f}" for share in self._shares[layer, picture, :, query])
        query_name = f"patch {query - 1}" if query else "the class token"
        return tuple(
            {
                "kind": "patches", "title": title, "note": "", "image": self._png[picture],
                "light": light, "columns": vision.GRID[1], "query": query - 1,
            }
            for title, light in titled.items()
        ), (
            f"{self._names[picture].capitalize()}. In layer {layer}, this much of the weight of "
            f"{query_name} falls on the left and the right shape, by head: {on_shapes}."
        )  # fmt: skip

    def picture(self) -> Figure:
        """Draw the same without a browser."""
        number, layer, query = self.values.values()
        rows = {f"head {n}": row for n, row in enumerate(self._weights[layer, number, :, query])}
        framed = query - 1 if query else None
        return attention_overlay(self._images[number], rows, vision.GRID, query=framed, across=5)


def _png(image: torch.Tensor) -> str:
    buffer = io.BytesIO()
    imsave(buffer, image.permute(1, 2, 0).numpy(), format="png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
