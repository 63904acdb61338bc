"""Plans for lectures: which sections of which lessons fit into so many minutes.

TEACHING.md shows this table: ``python -m mha_course.cli.plans`` writes it there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import nbformat

from mha_course.cli import launch
from mha_course.cli.authoring import lessons
from mha_course.cli.rendering import HEADING
from mha_course.errors import require

TEACHING = launch.ROOT / "TEACHING.md"
MARKED = re.compile(
    r"(?<=<!-- written by python -m mha_course.cli.plans -->\n).*(?=<!-- end of plans -->)",
    re.DOTALL,
)
OPENING = "Opening"  # of a lesson, before its first section


@dataclass(frozen=True)
class Plan:
    """A lecture: a title, for whom it is, and a lesson's number with how its sections begin."""

    title: str
    text: str
    stops: Sequence[tuple[int, Sequence[str]]]
    after: int = 0  # the plan whose stops come first

    def all_stops(self) -> Sequence[tuple[int, Sequence[str]]]:
        """Return all stops, with those of the plan that comes first."""
        return [*(PLANS[self.after].stops if self.after else []), *self.stops]


_ATTENTION = (0, (OPENING, "See it", "Does the look matter", "One attention by hand"))
_HEAD = (1, ("See it", "A whole head"))
_SPLIT = (2, ("Four heads", "The split, cell by cell"))
_SCALING = (3, ("How large is a dot product", "Why the spread matters"))
_WHOLE_PASS = (7, ("See it", "Recap"))
PLANS = {
    60: Plan(
        "One hour: what attention is",
        "For people who have used a Transformer and never looked inside. No exercises in the room.",
        [_ATTENTION, _HEAD, (2, ("Four heads",)), (3, ("Why the spread matters",)), _WHOLE_PASS],
    ),
    90: Plan(
        "Ninety minutes: one head, then all of them",
        "For a seminar that knows some PyTorch. Leave ten minutes for live coding, which is part "
        "of “A whole head”: `self_attention`, one line a person.",
        [_ATTENTION, _HEAD, (2, ("Four heads",)), _SCALING, (4, ("Hiding words",)), _WHOLE_PASS],
    ),
    120: Plan(
        "Two hours: Part I",
        "For people who will write it themselves afterwards. Exercises are homework, except for "
        "the last, `multi_head_attention`: one line a person.",
        [
            *(_ATTENTION, _HEAD, _SPLIT, _SCALING),
            (4, ("See it", "Hiding words")),
            (5, ("Without a mask, attention does not know the order of words",)),
            (6, ("See it", "W_O")),
            (7, ("See it", "Do it", "Recap")),
        ],
    ),
    240: Plan(
        "Four hours: Part I, then what every user meets next",
        "The two hours above, and after a long break (“Do it” in lesson 17 is `relation_score`):",
        [
            (7, ("Eight ways to write it", "What the number of heads changes")),
            (8, (OPENING, "Masks: one vocabulary", "Break it", "A probe", "nn.MultiheadAttention")),
            (10, (OPENING, "Positions: rotary pairs")),
            (11, (OPENING, "KV cache", "Fewer KV heads", "Bytes")),
            (12, (OPENING, "Work and memory", "FlashAttention: one pass")),
            (16, (OPENING, "See it", "Why one head cannot", "Recap")),
            (17, ("Do it", "Ablation", "A weight is not a contribution", "Recap")),
        ],
        after=120,
    ),
}


def sections_of(lesson: int, begins: Sequence[str]) -> dict[str, float]:
    """Return the headings of a lesson's sections that begin so, with their minutes.

    Raises: ShapeError where not exactly one heading begins so.
    """
    minutes = {}
    (path,) = lessons([str(lesson)])
    for cell in nbformat.read(path, as_version=4).cells:
        heading = HEADING.match(cell.source)
        if heading and "minutes" in cell.metadata.get("lecture", {}):
            minutes[heading[2]] = cell.metadata.lecture.minutes
    chosen = {}
    for begin in begins:
        found = [
            heading
            for heading in minutes
            if heading.startswith(f"{lesson} · " if begin == OPENING else begin)
        ]
        place, rule = f"plans: lesson {lesson}", "one heading must begin so"
        require(len(found) == 1, place, rule, expected=begin, got=str(found), fix="change plans.py")
        chosen[found[0]] = minutes[found[0]]
    return chosen


def markdown() -> str:
    """Return the plans as TEACHING.md has them."""
    parts = []
    for length, plan in PLANS.items():
        parts += [f"### {plan.title}", plan.text]
        rows = ["| lesson | sections | minutes |", "|---|---|---|"]
        together = 0.0
        for lesson, begins in plan.stops:
            minutes = sum(sections_of(lesson, begins).values())
            rows.append(f"| {lesson} | {'; '.join(begins)} | {minutes:g} |")
            together += minutes
        parts += ["\n".join(rows)]
        left = length - plan.after - together
        parts += [f"Together {together:g} minutes, which leaves {left:g} of {length - plan.after}."]
    return "\n" + "\n\n".join(parts) + "\n\n"


if __name__ == "__main__":
    text = TEACHING.read_text(encoding="utf-8")
    TEACHING.write_text(MARKED.sub(lambda _: markdown(), text), encoding="utf-8")
