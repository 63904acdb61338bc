"""A concept inventory for classes: 15 questions, asked before the course and after Part I."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from mha_course.exercises.progress_store import update
from mha_course.exercises.spec import Question, question
from mha_course.markup import box
from mha_course.mistakes import ROWS
from mha_course.questions import read_questions

FILE = Path(__file__).with_name("inventory.md")
WHENS = ("before", "after")
LETTERS = "abcde"
MARK = re.compile(r" \[([a-z-]+)\]$")  # the id of a mistake, behind what a choice believes
LAST = 6  # misunderstandings that a class still has, on its page
EXAMPLE = 'inventory("{}", "b d a - c …"), a letter for each question, or - to skip it'


class Item(NamedTuple):
    """One question of the inventory; mistakes are the ids of those behind its choices, if known."""

    concept: str
    question: Question
    mistakes: Mapping[str, str]

    @property
    def right(self) -> str:
        """The letter of the right choice."""
        return LETTERS[self.question.choices.index(self.question.right)]

    def choice(self, letter: str) -> str:
        """Write a choice out."""
        return f"{letter}) {self.question.choices[LETTERS.index(letter)]}"

    def reason(self, letter: str = "") -> str:
        """Write what a choice takes for true; without a letter, why the right one is right."""
        return self.question.answers[self.choice(letter or self.right)[3:]]


@cache
def items() -> tuple[Item, ...]:
    """Return the questions of the inventory, in their order."""
    found = list[Item]()
    for asked in read_questions(FILE).values():
        named = ((line.partition(" → ")[0], MARK.search(line)) for line in asked.answers)
        mistakes = {choice: mark[1] for choice, mark in named if mark}
        bare = question(asked.text, *(MARK.sub("", line) for line in asked.answers))
        found.append(Item(asked.concept, bare, mistakes))
    return tuple(found)


def read_letters(answers: Any) -> str | None:
    """Return 15 letters a to e, with ``-`` for what was skipped; None for anything else."""
    if type(answers) not in (str, list, tuple):
        return None
    tokens = re.findall(r"[^\s,]+", answers) if isinstance(answers, str) else [*answers]
    if len(tokens) == 1 and isinstance(answers, str):
        tokens = [*tokens[0]]
    letters = [token.lower() for token in tokens if type(token) is str and token]
    fits = len(letters) == len(tokens) == len(items()) and {*letters} <= {*LETTERS, "-"}
    return "".join(letters) if fits else None


def right_answers(letters: str) -> Counter[str]:
    """Return how many answers of each concept are right."""
    counts = Counter({item.concept: 0 for item in items()})
    for item, letter in zip(items(), letters, strict=True):
        counts[item.concept] += letter == item.right
    return counts


def share(letters: str) -> float:
    """Return the share of all answers that is right."""
    return right_answers(letters).total() / len(items())


def gain(before: float, after: float) -> float | None:
    """Return how much of what was missing was gained (Hake 1998); None where nothing was."""
    return None if before >= 1 else (after - before) / (1 - before)


@dataclass(frozen=True)
class Inventory:
    """Paragraphs, of which all but the first begin with a title; shows itself in a notebook."""

    paragraphs: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n\n".join(self.paragraphs)

    def _repr_html_(self) -> str:
        first, *others = (escape(each).split("\n") for each in self.paragraphs)
        body = (f"<p><b>{title}</b><br>{'<br>'.join(lines)}</p>" for title, *lines in others)
        return box("#2f6fdb", f"<p>{'<br>'.join(first)}</p>{''.join(body)}")


def inventory(when: object, answers: object = None) -> Inventory:
    """Ask the questions of the inventory, or keep the answers to them; never raise.

    Args: when is ``"before"`` or ``"after"`` Part I; answers has a letter a to e for each of the
        15 questions, and ``-`` for one that is skipped, such as ``"b d a - c …"``. Without answers
        the questions are shown.
    Returns: an Inventory: the questions, or that answers were kept, and the second time what was
        gained and what is true. Anything else gets one message, and nothing is kept.
    """
    got = [
        repr(each)[:60] if type(each) is str else type(each).__name__ for each in (when, answers)
    ]
    if type(when) is not str or when not in WHENS:
        rule = 'inventory: the first argument says when. expected "before" or "after"'
        return Inventory((f"{rule}, got {got[0]}, fix: {EXAMPLE.format(WHENS[0])}",))
    if answers is None:
        asked = [
            "\n".join([f"{number}. {item.question.text}", *map(item.choice, LETTERS)])
            for number, item in enumerate(items(), start=1)
        ]
        return Inventory((f"Answer with {EXAMPLE.format(when)}.", *asked))
    letters = read_letters(answers)
    if letters is None:
        rule = f"inventory: nothing was kept. expected {len(items())} letters a to e, or - to skip"
        return Inventory((f"{rule}, got {got[1]}, fix: {EXAMPLE.format(when)}",))
    times = dict[str, str]()

    def keep(content: dict[str, Any]) -> None:
        """Keep these answers; those of before stay as they are once the key was shown."""
        found = content.get("inventory")
        earlier = found if isinstance(found, dict) else {}
        times.update({x: known for x in WHENS if (known := read_letters(earlier.get(x)))})
        if when == "after" or "after" not in times:
            times[when] = letters
        content["inventory"] = times

    kept = update(keep)
    text = "Your answers are kept." if kept else "Your answers are in this notebook alone."
    if when == "before" or len(times) < len(WHENS):
        return Inventory((f"{text} The second time, after lesson 7, shows what you have gained.",))
    return Inventory((text, *_compared(times["before"], times["after"])))


def _compared(before: str, after: str) -> Iterator[str]:
    """Yield what was gained, concept by concept, and what is true where something is wrong."""
    lines = [f"{share(before):.0%} were right before, {share(after):.0%} are right now."]
    now = right_answers(after)
    for concept, many in right_answers(before).items():
        lines.append(f"{concept}: {many} before, {now[concept]} now")
    yield "\n".join(lines)
    for number, (item, letter) in enumerate(zip(items(), after, strict=True), start=1):
        lines = [f"{number}. {item.question.text}", f"{item.choice(item.right)}. {item.reason()}"]
        if letter != "-":
            lines.append(f"You chose {item.choice(letter)}. It says: {item.reason(letter)}")
        if letter != item.right:
            yield "\n".join(lines)


def class_gains(both: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each concept with the shares that were right before and after, and the gain."""
    counts = [(right_answers(before), right_answers(after)) for before, after in both]
    for concept, many in Counter(item.concept for item in items()).items() if both else ():
        before, after = (
            fmean(each[concept] for each in x) / many for x in zip(*counts, strict=True)
        )
        gained = gain(before, after)
        yield concept, f"{before:.3f}", f"{after:.3f}", "" if gained is None else f"{gained:.3f}"


def summary(both: Sequence[tuple[str, str]]) -> str:
    """Say what a class has gained, and how far its learners differ."""
    shares = [(share(before), share(after)) for before, after in both]
    own = [gained for pair in shares if (gained := gain(*pair)) is not None]
    if not own:
        return "Nobody has answered the inventory before and after, with something to gain."
    before, after = map(fmean, zip(*shares, strict=True))
    return (
        f"{len(both)} answered twice: {before:.0%} right before, {after:.0%} after. The normalised "
        f"gain (Hake 1998), the share of what was missing that is right now, is "
        f"{gain(before, after):.2f}. Single learners gained from {min(own):.2f} to "
        f"{max(own):.2f}, with a standard deviation of {pstdev(own):.2f}."
    )


def survivors(both: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield what is still believed, the most frequent first."""
    chosen = Counter((at, letter) for _, after in both for at, letter in enumerate(after))
    wrong = [each for each in chosen if each[1] not in ("-", items()[each[0]].right)]
    for at, letter in sorted(wrong, key=lambda each: -chosen[each])[:LAST]:
        item = items()[at]
        earlier = sum(before[at] == letter for before, _ in both)
        counted = f"{chosen[at, letter]} of {len(both)} learners, {earlier} before"
        mark = item.mistakes.get(item.choice(letter)[3:])
        place = f" Lesson {ROWS[mark].place} answers it." if mark else ""
        yield f"{item.reason(letter)} {counted} (question {at + 1}, {letter}).{place}"
