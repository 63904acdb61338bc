"""Plans for lectures: which sections of which lessons fit into a given time.

TEACHING.md shows this table: ``python -m mha_course.cli.plans`` writes it there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import nbformat

from mha_course.cli import launch
from mha_course.cli.authoring import lessons

TEACHING = launch.ROOT / "TEACHING.md"
MARKED = re.compile(
    r"(?<=<!-- written by python -m mha_course.cli.plans -->\n).*(?=<!-- end of plans -->)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Plan:
    """A lecture: its title, its audience, and how each lesson's section headings begin."""

    title: str
    text: str
    stops: Mapping[int, str]
    after: int = 0  # the plan that comes before it


PLANS = {
    60: Plan(
        "One hour: what attention is",
        "For people who have used a Transformer and never looked inside. No exercises in the room.",
        {
            0: "Opening; See it; Does it matter where a word looks; One attention by hand",
            1: "See it; A whole head",
            2: "Four heads",
            3: "Why the spread matters",
            7: "See it; Recap",
        },
    ),
    90: Plan(
        "Ninety minutes: one head, then all of them",
        "For a seminar that knows some PyTorch. Leave ten minutes for live coding, which is part "
        "of “A whole head”: `self_attention`, one line per person.",
        {
            0: "Opening; See it; Does it matter where a word looks; One attention by hand",
            1: "See it; A whole head",
            2: "Four heads",
            3: "How large is a dot product; Why the spread matters",
            4: "Hiding words",
            7: "See it; Recap",
        },
    ),
    120: Plan(
        "Two hours: Part I",
        "For people who will write it themselves afterwards. Exercises are homework, except for "
        "the last, `multi_head_attention`: one line per person.",
        {
            0: "Opening; See it; Does it matter where a word looks; One attention by hand",
            1: "See it; A whole head",
            2: "Four heads; The split, cell by cell",
            3: "How large is a dot product; Why the spread matters",
            4: "See it; Hiding words",
            5: "Without a mask, attention does not know the order of words",
            6: "See it; W_O",
            7: "See it; Do it; Recap",
        },
    ),
    240: Plan(
        "Four hours: Part I, then what every user meets next",
        "The two hours above, and after a long break (“Do it” in lesson 17 is `relation_score`):",
        {
            7: "Five ways to write it; Break it; What the number of heads changes",
            8: "Opening; Masks: one vocabulary; Break it; A probe; nn.MultiheadAttention",
            10: "Opening; Positions: rotary pairs",
            11: "Opening; KV cache; Fewer KV heads; Bytes",
            12: "Opening; Work and memory; FlashAttention: one pass",
            16: "Opening; See it; Why one head cannot; Recap",
            17: "Do it; Ablation; A weight is not a contribution; Recap",
        },
        after=120,
    ),
}


def stops(length: int) -> list[tuple[int, list[str]]]:
    """Return the lessons of a plan in their order, each with the headings of its sections."""
    plan = PLANS[length]
    before = stops(plan.after) if plan.after else []
    return [*before, *((lesson, [*sections_of(lesson, plan)]) for lesson in plan.stops)]


def sections_of(lesson: int, plan: Plan) -> dict[str, float]:
    """Return the headings of the sections that a plan takes from a lesson, with their minutes."""
    (path,) = lessons([str(lesson)])
    cells = nbformat.read(path, as_version=4).cells
    begun = [cell for cell in cells if "minutes" in cell.metadata.get("lecture", {})]
    minutes = {
        cell.source.split("\n")[0].lstrip("# "): cell.metadata.lecture.minutes for cell in begun
    }
    chosen = {}
    for begin in plan.stops[lesson].replace("Opening", f"{lesson} · ").split("; "):
        (heading,) = (heading for heading in minutes if heading.startswith(begin))
        chosen[heading] = minutes[heading]
    return chosen


def markdown() -> str:
    """Return the plans in TEACHING.md's format."""
    text = "\n"
    for length, plan in PLANS.items():
        text += (
            f"### {plan.title}\n\n{plan.text}\n\n| lesson | sections | minutes |\n|---|---|---|\n"
        )
        together = 0.0
        for lesson, sections in plan.stops.items():
            minutes = sum(sections_of(lesson, plan).values())
            text += f"| {lesson} | {sections} | {minutes:g} |\n"
            together += minutes
        room = length - plan.after
        text += f"\nTogether {together:g} minutes, which leaves {room - together:g} of {room}.\n\n"
    return text


if __name__ == "__main__":
    guide = TEACHING.read_text(encoding="utf-8")
    TEACHING.write_text(MARKED.sub(lambda _: markdown(), guide), encoding="utf-8")
