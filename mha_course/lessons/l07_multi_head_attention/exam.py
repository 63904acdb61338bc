"""The exam of Part I: a module from memory, compared with PyTorch's, and five broken ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mha_course import plots
from mha_course.attention import MultiHeadAttention
from mha_course.exercises import Report, check
from mha_course.exercises.catalogue import find_exercise
from mha_course.exercises.inputs import OTHER_SIZES, H, S, tokens
from mha_course.exercises.sandbox import run
from mha_course.experiments.agreement import compare
from mha_course.experiments.faulty_attention import compiled, listing
from mha_course.lessons.l07_multi_head_attention.broken import CASES
from mha_course.lessons.l07_multi_head_attention.exercises import PARAMETERS, parameters, use_module
from mha_course.lessons.l07_multi_head_attention.exercises import MultiHeadAttention as RightModule
from mha_course.masks import causal_mask
from mha_course.mistakes import ROWS
from mha_course.variants import to_torch


def suspects() -> dict[str, nn.Module]:
    """Return the right module and the five cases, in float64, all with the same parameters."""
    classes: dict[str, Any] = {"right": RightModule}
    for number, case in CASES.items():
        classes[f"case {number}"] = compiled(case.reference, case.edit)
    return {name: _with_parameters(cls, H, *parameters()) for name, cls in classes.items()}


def show(number: int) -> None:
    """Show a case's source, folded, and inside it what is wrong, folded again."""
    case = CASES[number]
    row = ROWS[case.mistake]
    code = listing(case.reference, case.edit, init=True)
    reason = f"{row.text} Lesson {row.place}."
    plots.listings(plots.Listing(f"Case {number}", "the wrong line.", reason, code))


def judge(answer: Any) -> Report:
    """Compare a module with nn.MultiheadAttention on the same parameters, and name its mistake.

    It never raises.
    """
    report = check("MultiHeadAttention", answer, record=False)
    if report.status == "unattempted":
        text = "Write the class in the cell above, run it, then run this one again."
        return replace(report, message=text)
    plain, masked, resized = (_beside_torch(answer, *trial) for trial in _trials())
    if plain == masked == "missing":
        return report
    comparison = (
        "Compared with nn.MultiheadAttention on the same parameters, its outputs are "
        f"{plain} without a mask. With a causal mask they are {masked}. With other sizes, and a "
        f"mask (B, 1, S, S) that differs from sentence to sentence, they are {resized}."
    )
    if {plain, masked, resized} != {"the same"}:
        status = "wrong" if report.status == "correct" else report.status
        return replace(report, status=status, message=f"{comparison} {report.message}")
    if report.status == "correct":
        return replace(report, message=f"{comparison} You can write it from memory.")
    message = f"{comparison} The exercise above asks for more: {report.message}"
    return replace(report, status="correct", message=message, result=None)


def _trials() -> list[list[Any]]:
    """Return arguments for use_module: without a mask, with a causal one, and of other sizes."""
    x, _, heads, *weights = find_exercise("MultiHeadAttention").draw(OTHER_SIZES).arguments
    mask = (x[:, None, :, : x.size(1)] > 0) | torch.eye(x.size(1), dtype=torch.bool)  # (B, 1, S, S)
    usual = [[tokens(), mask, H, *parameters()] for mask in (None, causal_mask(S))]
    return [*usual, [x, mask, heads, *weights]]


def _beside_torch(answer: Any, x: Tensor, mask: Tensor | None, heads: int, *weights: Tensor) -> str:
    """Say how far a learner's module is from PyTorch's in its outputs."""
    hidden = None
    if mask is not None:  # in PyTorch's masks True means ignore, and each head has its own
        hidden = ~mask.expand(len(x), heads, -1, -1).flatten(0, 1)  # (B*H, S, S)
    module = to_torch(_with_parameters(MultiHeadAttention, heads, *weights))
    target, _ = module(x, x, x, attn_mask=hidden)

    def distance(*arguments: Any) -> str:
        out = use_module(*arguments)
        return compare(out[0] if isinstance(out, tuple) else out, target, atol=1e-12)

    return run(distance, answer, [x, mask, heads, *weights]).result or "missing"


def _with_parameters(cls: Any, heads: int, *weights: Tensor) -> Any:
    module = cls(len(weights[0]), heads).double()
    state = dict(zip(PARAMETERS, weights, strict=True))
    if hasattr(module, "qkv_proj"):
        for kind in ("weight", "bias"):
            stacked = [state.pop(f"{name}_proj.{kind}") for name in "qkv"]
            state[f"qkv_proj.{kind}"] = torch.cat(stacked)
    module.load_state_dict(state)
    return module
