"""Questions that are kept as text, and when each of them is due again.

The standard library is enough, so that the start of the course can ask before PyTorch is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mha_course.errors import ShapeError

INTERVALS = (1, 3, 8, 21, 60)  # days
DAY = 86_400.0
ON_A_CARD = 8  # two minutes, at a quarter of a minute each
IN_A_WEEK = 40  # ten minutes
SIGHTS = 3  # so often a question is seen before those seen more often go first
LESSONS = Path(__file__).with_name("lessons")
NEEDS = "needs: and what is to be done first, and below it questions alone"
FORM = "## id, a line of text, and two lines or more of - choice → reason that differ, with one ✔"
BLOCK = re.compile(r"## ([a-z0-9-]+)\n(\S.+)\n((?:- .+ → .+\n){2,})\n*")
RUN = "from mha_course.exercises import review; review()"
History = list[tuple[float, bool]]  # seconds since 1970, and whether the answer was right


class Asked(NamedTuple):
    """A question as its file has it; answers are lines such as ``✔ choice → reason``."""

    needs: tuple[str, ...]
    name: str
    text: str
    answers: tuple[str, ...]


def read_questions(path: Path) -> dict[str, Asked]:
    """Read a file of questions; its first line, ``needs: …``, names what is to be done first.

    Raises: ShapeError, with the file and the line at which something begins that is no question.
    """
    first, *blocks = re.split("(?m)^(?=#)", path.read_text(encoding="utf-8").rstrip() + "\n")
    at, found = 1, dict[str, Asked]()
    _require(path, at, first, "needs:" in first and not first.partition("\n")[2].strip(), NEEDS)
    needs = tuple(first.removeprefix("needs:").split())
    for before, block in zip((first, *blocks), blocks, strict=False):
        at += before.count("\n")
        match = BLOCK.fullmatch(block)
        lines = match[3].replace("\n- ", "\n")[2:].splitlines() if match else []
        choices = {line.removeprefix("✔ ").partition(" → ")[0] for line in lines}
        marked = sum(line.startswith("✔ ") for line in lines)
        _require(path, at, block, marked == 1 and len(choices) == len(lines), FORM)
        if match is not None:
            _require(path, at, block, match[1] not in found, "an id of its own")
            found[match[1]] = Asked(needs, match[1], match[2], tuple(lines))
    return found


def _require(path: Path, line: int, text: str, holds: bool, expected: str) -> None:
    if not holds:
        place = f"{path.parent.name}/{path.name}, line {line}"
        got = text.partition("\n")[0][:60] or "an empty line"
        raise ShapeError(place, "this cannot be read", expected=expected, got=got)


@cache
def all_questions() -> Mapping[str, Asked]:
    """Return the questions of all lessons by their ids. Raises: ShapeError."""
    files = map(read_questions, sorted(LESSONS.glob("l*/review.md")))
    return {name: asked for file in files for name, asked in file.items()}


def histories(content: Mapping[str, Any]) -> dict[str, History]:
    """Return the answers that are kept of each question; what makes no sense is left out."""
    kept = content.get("review")
    found = dict[str, History]()
    for name, answers in kept.items() if isinstance(kept, dict) else ():
        for answer in answers if isinstance(answers, list) else ():
            match answer:
                case [int() | float() as when, bool(right)]:
                    found.setdefault(name, []).append((when, right))
    return found


def is_due(history: History, now: float) -> bool:
    """Whether a question is to be asked: the interval grows with each right answer after the first,
    and a wrong one begins again. An answer from the future is one of a clock that was wrong.
    """
    if not history:
        return True
    wrong = [at for at, (_, right) in enumerate(history) if not right]
    step = len(history) - 1 - max(wrong, default=0)
    elapsed = now - history[-1][0]
    return not 0 <= elapsed < INTERVALS[min(step, len(INTERVALS) - 1)] * DAY


def due(content: Mapping[str, Any], now: float) -> list[str]:
    """Return the questions of a card: those that are due, of lessons that are done."""
    done = predicted(content)
    for name, entry in content["exercises"].items():
        if isinstance(entry, dict) and entry.get("status") == "correct":
            done.add(name)
    answered = histories(content)
    recent = sum(0 <= now - when < 7 * DAY for each in answered.values() for when, _ in each)
    waiting = list[tuple[int, float, str]]()
    for name, asked in all_questions().items():
        history = answered.get(name, [])
        if done.issuperset(asked.needs) and is_due(history, now):
            last = history[-1][0] if history else 0.0
            waiting.append((min(len(history), SIGHTS), last, name))
    return [name for *_, name in sorted(waiting)[: max(0, min(ON_A_CARD, IN_A_WEEK - recent))]]


def predicted(content: Mapping[str, Any]) -> set[str]:
    """Return the predictions that were answered, of those that are kept."""
    kept = content.get("predicted")
    return {each for each in kept if isinstance(each, str)} if isinstance(kept, list) else set()


def due_line(file: Path, now: float) -> str:
    """Say in a line how many questions are due; nothing where none is."""
    try:
        count = len(due(json.loads(file.read_text(encoding="utf-8")), now))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""  # progress() says what is wrong with it
    questions = "question is" if count == 1 else "questions are"
    return f"{count} review {questions} due. In a lesson: {RUN}\n" if count else ""
