"""Pictures for the slides of lesson 7 alone."""

from __future__ import annotations

import torch

from mha_course import example, plots


def steps_with_parameters() -> None:
    """Show the two steps that have parameters."""
    plots.show_stage("projection", "concatenation")


def fused_steps() -> None:
    """Show which steps are one call."""
    plots.show_stage("scaling", "softmax", "weighted sum")


def averaged_and_single() -> None:
    """Show the weights averaged over heads, and those of head 1."""
    sentence = example.load()
    weights = sentence.mha.steps(sentence.x).weights[0]  # (H, T, S)
    panels = {"averaged": weights.mean(0), "head 1": weights[1]}
    picture = plots.heatmap_row(panels, sentence.tokens)
    plots.show(picture, "The weights averaged over heads, and those of head 1.")


def row_with_nothing() -> None:
    """Show a mask in which the first row may attend to no word."""
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[0] = False
    picture = plots.mask_grids(plots.MaskGrid("the first row sees nothing", mask))
    plots.show(picture, "A mask in which the first row may attend to no word.")


def one_mask_read_twice() -> None:
    """Show a causal mask in both conventions."""
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    grids = [plots.MaskGrid("True = may attend", mask), plots.MaskGrid("True = ignore", ~mask)]
    plots.show(plots.mask_grids(*grids), "The same booleans, read as two libraries read them.")
