"""What Part I ends with: a module from memory, compared with PyTorch's, and five broken ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from mha_course import plots
from mha_course.attention import MultiHeadAttention
from mha_course.exercises import Report, check
from mha_course.exercises.inputs import C, H, S, tokens
from mha_course.exercises.sandbox import run
from mha_course.experiments.agreement import compare
from mha_course.experiments.faulty_attention import WRONG, whole
from mha_course.lessons.l07_multi_head_attention.exercises import PARAMETERS, parameters, use_module
from mha_course.masks import causal_mask
from mha_course.mistakes import ROWS
from mha_course.variants import to_torch

CASES = dict(enumerate(WRONG, start=1))


def suspects() -> dict[str, nn.Module]:
    """Return the right module and the five cases, in float64, all with the same parameters."""
    made = {"right": whole()[1]}
    made |= {f"case {number}": whole(*WRONG[mistake])[1] for number, mistake in CASES.items()}
    return {name: _with_parameters(cls) for name, cls in made.items()}


def show(number: int) -> None:
    """Show the source of a case, folded, and in it what is wrong, folded once more."""
    mistake = CASES[number]
    row = ROWS[mistake]
    code, _ = whole(*WRONG[mistake])
    listing = plots.Listing(
        f"Case {number}", "the wrong line.", f"{row.text} Lesson {row.place}.", code
    )
    plots.listings(listing)


def judge(answer: Any) -> Report:
    """Compare a module with nn.MultiheadAttention on the same parameters, and name its mistake.

    It never raises.
    """
    report = check("MultiHeadAttention", answer, record=False)
    if report.status == "unattempted":
        text = "Write the class in the cell above, run it, then run this one again."
        return replace(report, message=text)
    plain, masked = _beside_torch(answer, None), _beside_torch(answer, causal_mask(S))
    if plain == masked == "missing":
        return report
    found = (
        "Compared with nn.MultiheadAttention on the same parameters, its outputs are "
        f"{plain} without a mask. With a causal mask they are {masked}."
    )
    if {plain, masked} != {"the same"}:
        status = "wrong" if report.status == "correct" else report.status
        return replace(report, status=status, message=f"{found} {report.message}")
    if report.status == "correct":
        return replace(report, message=f"{found} You can write it from memory.")
    more = f"{found} The exercise above asks for more: {report.message}"
    return replace(report, status="correct", message=more, picture="")


def _beside_torch(answer: Any, mask: Tensor | None) -> str:
    """Say how far the outputs of a learner's module are from those of PyTorch's."""
    x, hidden = tokens(), None if mask is None else ~mask  # in PyTorch's masks True means ignore
    want, _ = to_torch(_with_parameters(MultiHeadAttention))(x, x, x, attn_mask=hidden)

    def distance(*arguments: Any) -> str:
        out = use_module(*arguments)
        return compare(out[0] if isinstance(out, tuple) else out, want, atol=1e-12)

    return run(distance, answer, [x, mask, H, *parameters()]).result or "missing"


def _with_parameters(cls: Any) -> Any:
    module = cls(C, H).double()
    module.load_state_dict(dict(zip(PARAMETERS, parameters(), strict=True)))
    return module
