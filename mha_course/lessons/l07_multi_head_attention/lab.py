"""The lab of lesson 2: one projection cut into heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mha_course.widgets.controls import Control
from mha_course.widgets.labs.lab import Lab
from mha_course.widgets.labs.panels import HEAD_FILLS, Panels, matrix, plain, shares, table

WIDTH = 24  # C
TOKENS = 5
HEAD_COUNTS = (1, 2, 3, 4, 6, 8, 12, 24)
SIDES = {4: 160, 6: 120, 8: 90, 24: 60}  # pixels of a map, by how many there are at most


class SplitLab(Lab):
    """Cut one projection into heads, and see what changes and what stays.

    The projections and the tokens are drawn once, and stay the same for every H.
    """

    question = "What changes when the same projection is cut into more heads?"

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        shapes = (TOKENS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)
        x, w_q, w_k = (
            torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")
            for shape in shapes
        )
        # q and k have variance 1
        self._w_q = w_q / WIDTH**0.5
        self._w_k = w_k / WIDTH**0.5
        self._q, self._k = x @ self._w_q.T, x @ self._w_k.T  # (S, C)
        super().__init__([Control("num_heads", "H, heads", "slider", 4, HEAD_COUNTS)])

    def weights(self, num_heads: int) -> Tensor:
        """Return the weights of every head, (H, S, S)."""
        q, k = (
            full.unflatten(1, (num_heads, -1)).transpose(0, 1) for full in (self._q, self._k)
        )  # (H, S, D)
        return (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)  # (H, S, S)

    def ranks(self, num_heads: int) -> Tensor:
        """Return the rank of the form with which each head compares, (H,)."""
        w_q, w_k = (
            full.unflatten(0, (num_heads, -1)) for full in (self._w_q, self._w_k)
        )  # (H, D, C)
        return torch.linalg.matrix_rank(w_q.mT @ w_k)

    def draw(self, num_heads: int) -> tuple[Panels, str]:
        """Draw the rows in their blocks, the vector that comes out, and what each head
        makes of it.
        """
        head_dim = WIDTH // num_heads
        parameters = 4 * WIDTH * WIDTH + 4 * WIDTH
        scores = num_heads * TOKENS**2
        names = [str(n) for n in range(TOKENS)]
        weights = self.weights(num_heads)
        heads = "one head has all" if num_heads == 1 else f"each of {num_heads} heads has"
        pattern = "one pattern" if num_heads == 1 else "a pattern of its own"
        rank = int(self.ranks(num_heads).max())
        rows = [
            ["D = C / H", f"{head_dim}"],
            ["attention patterns", f"{num_heads}"],
            ["scores, H · S · S", f"{num_heads} · {TOKENS} · {TOKENS} = {scores}"],
            ["parameters, all four Linears", f"{parameters:,}"],
            ["numbers a head compares by (rank)", f"{rank}, at most D = {head_dim}"],
        ]
        share = plain(1 / num_heads)
        parts = [
            {"name": f"head {n}", "value": share, "color": HEAD_FILLS[n % len(HEAD_FILLS)]}
            for n in range(num_heads)
        ]
        cut = [
            {"name": name, "numbers": [], "parts": parts, "mark": None}
            for name in ("rows of W_Q", "the query q")
        ]
        note = f"S = {TOKENS} tokens; biases are counted."
        group = f"what each head makes of the same {TOKENS} tokens: its weights"
        side = next(pixels for most, pixels in SIDES.items() if num_heads <= most)
        look: dict[str, Any] = {"size": "small", "group": group, "side": side}
        grid = [  # the colour of each title is that of the head's rows
            matrix(part["name"], names, names, its, color=part["color"], **look)
            for part, its in zip(parts, weights, strict=True)
        ]
        return (
            shares(f"C = {WIDTH} rows of W_Q, and the query they make", cut, bare=True),
            table("what H changes", ("", ""), rows, note),
            *grid,
        ), (
            f"H = {num_heads}: {heads} D = {head_dim} of {WIDTH} rows and makes {pattern}. "
            f"Parameters: {parameters:,}, the same for every H. "
            f"Scores: {scores}. A head compares by at most {rank} numbers."
        )
