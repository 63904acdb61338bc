"""Lesson 19: modules that run, train and are wrong, drawn by a seed, and what is said of a choice.

``python -m mha_course.lessons.l19_bug_hunt.hunt 7`` prints the answer key of the sheet that seed 7
draws.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure

from mha_course.errors import require
from mha_course.experiments import faulty_attention
from mha_course.experiments.faulty_attention import (
    INNOCENT,
    INNOCENTS,
    PAIRS,
    REMARK,
    SINGLE,
    CausalAttention,
)
from mha_course.lessons.l19_bug_hunt import costs
from mha_course.lessons.l19_bug_hunt.pictures import small_curves
from mha_course.lessons.l19_bug_hunt.probes import NOTHING, PROBES, Reading, written
from mha_course.markup import box, columns, escaped, heading, prose, row, table
from mha_course.mistakes import ROWS
from mha_course.models import seeded
from mha_course.plots.figures import show_html
from mha_course.widgets import Panel
from mha_course.widgets.labs.panels import Panels

SIZES = ((24, 4, 2), (48, 6, 2), (32, 4, 2), (60, 6, 3))  # C, H and G
LESSON_SHEET = (
    "mask-after-softmax", "scale-by-length", "kv-repeat-interleaved-wrongly", "cache-not-emptied",
    f"{INNOCENT}/fused",
    "keys-rotated-again", "merge-without-transpose", "masked-row-nan", f"{INNOCENT}/shifted",
    "keys-detached",
)  # fmt: skip
BLACK_BOXES = 5
ROW_OF = {  # where a mistake looks different in a module
    "positions-ignored": "positions-ignored/cache",
    **{row.id: key for key, row in ROWS.items() if key.endswith("/module")},
}
SAID = {name: ROWS[ROW_OF.get(name, name)] for name in (*SINGLE, INNOCENT)}


@dataclass(frozen=True)
class Case:
    """One module of a sheet: to be called, and from case 6 on to be read."""

    number: int
    seed: int
    _made: tuple[str, ...] = field(repr=False)
    sizes: tuple[int, int, int]

    @property
    def _mistakes(self) -> set[str]:
        return {name.partition("/")[0] for name in self._made}

    @property
    def module(self) -> CausalAttention:
        """The module, new each time, in float64, not training; its parameters are drawn by the seed
        and the number.
        """
        with seeded(100 * self.seed + self.number):
            return faulty_attention.faulty(*self._made)(*self.sizes).double().eval()

    @property
    def source(self) -> str:
        """Its source. Raises: ShapeError for a black box."""
        rule = "a black box can be called, but not read"
        readable = self.number > BLACK_BOXES
        place = f"case {self.number}"
        require(readable, place, rule, expected="case 6 to 12", got="a black box")
        return faulty_attention.source(type(self.module))

    @property
    def record(self) -> costs.Record:
        """What small language models with this attention came to."""
        return costs.load()["+".join(self._made)]

    def __repr__(self) -> str:
        kind = "a black box" if self.number <= BLACK_BOXES else "with its source"
        width, heads, groups = self.sizes
        mistakes = "two mistakes" if len(self._mistakes) > 1 else "one mistake, or none"
        return (
            f"Case {self.number}, {kind}: {mistakes}. C = {width}, H = {heads}, G = {groups}; "
            f"float64."
        )


def sheet(seed: int = 0) -> tuple[Case, ...]:
    """Return twelve cases: for seed 0 those of the lesson, else drawn, one to three without a
    mistake.

    Raises: ShapeError for a seed that is no whole number from 0.
    """
    valid = type(seed) is int and seed >= 0
    require(valid, "seed", "it draws a sheet", expected="0, 1, 2, …", got=repr(seed))
    singles, pairs, sizes = list(LESSON_SHEET), list(PAIRS[:2]), [SIZES[0]] * 12
    if seed:
        dice = random.Random(seed)
        singles = dice.sample(INNOCENTS, dice.randint(1, 3))
        singles += dice.sample(list(SINGLE), 10 - len(singles))
        dice.shuffle(singles)
        pairs = dice.sample(PAIRS[2:], 2)
        sizes = dice.choices(SIZES, k=12)
    made = [(name,) for name in singles] + pairs
    return tuple(
        Case(number, seed, *drawn) for number, drawn in enumerate(zip(made, sizes, strict=True), 1)
    )


def case(number: int, seed: int = 0) -> Case:
    """Return one case of the sheet that a seed draws.

    Raises: ShapeError for a number outside 1 to 12.
    """
    require(
        type(number) is int and number in range(1, 13),
        "case",
        "there are twelve",
        expected="1 to 12",
        got=repr(number),
    )
    return sheet(seed)[number - 1]


_COLORS = {"right": "#2da44e", "near": "#d4a72c", "wrong": "#d4a72c"}
_SIGNS = {"right": "✔ Found", "near": "✔ One of two", "wrong": "✘ Not this"}


@dataclass(frozen=True)
class Verdict:
    """What is said of a choice: ``status`` is right, near (one of two) or wrong; of a case that is
    found, ``source`` has the methods that are not the right ones, with the wrong line marked.
    """

    case: Case
    status: str
    message: str
    source: str = ""

    def __repr__(self) -> str:
        sign = _SIGNS[self.status][2:]
        return f"Case {self.case.number}: {sign}. {self.message}\n\n{self.source}".rstrip()

    def _repr_html_(self) -> str:
        top = heading(_SIGNS[self.status], f"case {self.case.number}")
        text = prose(self.message).replace("\n", "<br>")
        return box(_COLORS[self.status], f"{top}<br>{text}{self.listing}")

    @property
    def listing(self) -> str:
        """The source as HTML, its marked lines in bold."""
        lines = [
            f"<strong>{escaped(line)}</strong>" if REMARK in line else escaped(line)
            for line in self.source.splitlines()
        ]
        return f"<pre>{chr(10).join(lines)}</pre>" if lines else ""


_choices: dict[tuple[int, int], list[set[str]]] = {}  # of each seed and case: what each found


def sentences() -> None:
    """Show all that can be wrong, each with the id that ``accuse`` takes."""
    rows = [(name, said.title) for name, said in SAID.items()]
    body = [row((f"<code>{name}</code>", escaped(title))) for name, title in rows]
    fold = "<details><summary>{}</summary>{}</details>"
    title = f"All {len(rows)} sentences, and their ids"
    show_html(fold.format(title, table("", ("Id", "Sentence"), body)), columns(rows))


def accuse(number: int, *mistakes: str, seed: int = 0) -> Verdict | Panel:
    """Choose from a menu what is wrong with a case, or say it with an id from ``sentences``.

    Args: of two mistakes one is enough for a beginning; ``"no-mistake"`` is also a choice.
    Returns: the menu, or with one id or two a Verdict.
    Raises: ShapeError for a number outside 1 to 12, and for an id that there is not.
    """
    suspect = case(number, seed)
    if not mistakes:
        return Menu(suspect)
    for name in mistakes:
        known, rule = name in SAID, "no sentence has this id"
        require(known, "accuse", rule, expected="an id from sentences()", got=repr(name))
    few, rule = len(mistakes) < 3, "no case has more than two mistakes"
    require(few, "accuse", rule, expected="one id or two", got=", ".join(mistakes))
    return _judge(suspect, {*mistakes})


def _judge(suspect: Case, accused: set[str]) -> Verdict:
    real = suspect._mistakes
    right, wrong = sorted(accused & real), sorted(accused - real)
    choices = _choices.setdefault((suspect.seed, suspect.number), [])
    choices.append(set() if wrong and len(real) == 1 else {*right})
    if wrong:
        acquittal = _acquittal(suspect, wrong[0])
        if right and len(real) > 1:
            one = f"“{SAID[right[0]].title[:-1]}” is one of two."
            return Verdict(suspect, "near", f"{one} {acquittal}")
        return Verdict(suspect, "wrong", acquittal)
    named = " ".join(SAID[name].text for name in right)
    if set().union(*choices) < real:
        return Verdict(suspect, "near", f"{named} And there is another mistake.")
    message = f"{named}\n{_told(suspect)}\n{cost(suspect)}"
    return Verdict(suspect, "right", message, faulty_attention.marked(*suspect._made))


@cache
def _readings(made: tuple[str, ...], sizes: tuple[int, int, int]) -> dict[str, Reading]:
    """Return what every probe finds, each of a module of its own."""
    module, found = Case(0, 0, made, sizes).module, {}
    for name, probe in PROBES.items():
        with seeded(0):
            found[name] = probe(copy.deepcopy(module))
    return found


def _telling(suspect: Case) -> dict[str, Reading]:
    """Return the readings in which a number is not 0 that should be."""
    readings = _readings(suspect._made, suspect.sizes)
    return {name: reading for name, reading in readings.items() if reading.finds}


def _acquittal(suspect: Case, name: str) -> str:
    """Say which number of a probe speaks against a choice."""
    if name == INNOCENT:
        probes = " or ".join(f"`{probe}`" for probe in list(_telling(suspect))[:2])
        return f"Something is wrong: try the probe {probes}."
    here = _readings(suspect._made, suspect.sizes)
    differing = []
    for probe, reading in _readings((name,), suspect.sizes).items():
        found = dict(here[probe].pattern)
        for label, off in reading.pattern:
            if off != found[label]:
                differing.append((label in reading.zero and off, off, probe, label))
    _, off, probe, label = max(differing, key=lambda one: one[0])  # best: 0 here, and should not be
    would, is_here = ("not be 0", "is") if off else ("be 0", "is not")
    return (
        f"If it were “{SAID[name].title[:-1]}”, the number “{label}” of the probe `{probe}` would "
        f"{would}. Here it {is_here}."
    )


def _told(suspect: Case) -> str:
    """Say which probes tell, each with its first number that is not 0."""
    parts = []
    for name, reading in _telling(suspect).items():
        label = next(label for label, off in reading.pattern if off)
        parts.append(f"`{name}` ({label}: {written(reading.zero[label])})")
    return f"What tells: {', '.join(parts)}." if parts else "No probe finds anything."


def cost(suspect: Case) -> str:
    """Say what small language models with this attention came to, and the right one."""
    best, record = costs.load()[costs.RIGHT], suspect.record
    return (
        "What it costs a small language model, in nats per word on held-out sentences, mean of "
        f"three runs and their range: read at once {_loss(record.at_once)}; word by word, padded "
        f"in front, {_loss(record.in_use)}; with the right one's parameters "
        f"{_loss(record.loaded)}. The right one has {_loss(best.at_once)} each time."
    )


def _loss(runs: costs.Losses) -> str:
    numbers = [value for value in runs if value is not None]
    if len(numbers) < len(runs):
        return "no number (NaN, or it stops)"
    return f"{fmean(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


def losses(*cases: Case) -> Figure:
    """Draw the loss in training of these cases, each beside that of the right attention."""
    best = costs.load()[costs.RIGHT].losses
    steps = range(costs.EVERY, costs.STEPS + 1, costs.EVERY)
    return small_curves({f"case {one.number}": one.record.losses for one in cases}, steps, best)


class Menu(Panel):
    """Choose what is wrong with a case, and see its loss in training and the verdict."""

    def __init__(self, suspect: Case) -> None:
        self._suspect = suspect
        self._listing = ""
        names = {said.title: name for name, said in SAID.items()}
        super().__init__(self._answered, mistake={"choose": "", **names})

    def draw(self, **values: Any) -> tuple[Panels, str]:
        """Draw the loss, and below it the source of a case that is found."""
        (panel,), text = super().draw(**values)
        return ({**panel, "html": panel["html"] + self._listing},), text

    def _answered(self, mistake: str) -> tuple[Figure, str]:
        one = self._suspect
        self._listing = ""
        if mistake:
            verdict = _judge(one, {mistake})
            self._listing = verdict.listing
            said = f"{_SIGNS[verdict.status]}. {verdict.message}".replace("`", "")
        else:
            last, best = one.record.losses[-1], costs.load()[costs.RIGHT].losses[-1]
            call = f"accuse({one.number}, …{f', seed={one.seed}' * bool(one.seed)})"
            said = (
                f"{one} Its loss ends at {last:.2f}, that of the right one at {best:.2f}. Choose "
                f"what is wrong; without a menu, {call} takes an id from sentences()."
            )
        return losses(one), said


@dataclass(frozen=True)
class Trial:
    """What a probe of the learner's finds: of right modules, and of the cases of a sheet."""

    alarm: str
    told: tuple[int, ...] = ()

    def __repr__(self) -> str:
        if self.alarm:
            return self.alarm
        cases = ", ".join(map(str, self.told)) or "none"
        return f"Right modules pass. Cases that do not: {cases}."

    def _repr_html_(self) -> str:
        return box("#d4a72c" if self.alarm else "#2da44e", prose(repr(self)))


def try_probe(probe: Callable[[CausalAttention], Any], seed: int = 0) -> Trial:
    """Try a probe on right modules, which it must let pass, and on the twelve cases of a sheet.

    Args: probe takes a module and returns what it finds: a number that should be 0, True or a text
        where something is wrong.
    """
    right = [((), sizes) for sizes in SIZES] + [((name,), SIZES[0]) for name in INNOCENTS]
    for made, sizes in right:
        try:
            found = probe(Case(0, 0, made, sizes).module)
        except Exception as error:  # the learner's own
            return Trial(f"The probe stops on a right module: {type(error).__name__}: {error}")
        if found is None or found is ...:
            return Trial(
                "The probe returns nothing yet: return 0 or an empty text where all is right."
            )
        if _accuses(found):
            kind = "a right module, written in another way," if made else "a right module"
            return Trial(f"A false alarm: on {kind} it returns {found}. What need not hold there?")
    return Trial(
        "", tuple(one.number for one in sheet(seed) if _stops_or_accuses(probe, one.module))
    )


def _accuses(found: Any) -> bool:
    """Return whether a number is not 0 but for rounding, or whether anything else is true."""
    if isinstance(found, Reading):
        return found.finds
    if isinstance(found, torch.Tensor):
        return not bool((found.detach().double().abs() <= NOTHING).all())
    return not abs(found) <= NOTHING if isinstance(found, float) else bool(found)


def _stops_or_accuses(probe: Callable[[CausalAttention], Any], module: CausalAttention) -> bool:
    try:
        return _accuses(probe(module))
    except Exception:  # a right module did not stop it
        return True


@dataclass(frozen=True)
class Score:
    """Which cases of a sheet are found, with how many choices."""

    rows: tuple[tuple[str, str, int], ...]

    @property
    def total(self) -> str:
        """The table in a sentence."""
        done = sum(state == "found" for _, state, _ in self.rows)
        tries = sum(count for *_, count in self.rows)
        return f"{done} of {len(self.rows)} cases found, choices: {tries}."

    def __repr__(self) -> str:
        return "\n".join(
            [
                *(f"{name}: {state}, choices: {count}" for name, state, count in self.rows),
                self.total,
            ]
        )

    def _repr_html_(self) -> str:
        body = [row((name, state, str(count))) for name, state, count in self.rows]
        return table(self.total, ("Case", "State", "Choices"), body)


def score(seed: int = 0) -> Score:
    """Show what was found in this session."""
    rows = []
    for one in sheet(seed):
        choices = _choices.get((seed, one.number), [])
        named = set().union(*choices)
        state = "found" if named == one._mistakes else "one of two" if named else "open"
        kind = "black box" if one.number <= BLACK_BOXES else "source"
        rows.append((f"{one.number}, {kind}", state, len(choices)))
    return Score(tuple(rows))


def answer_key(seed: int) -> str:
    """Return, a line for each case of a sheet, its mistakes and the probes that tell."""
    lines = []
    for one in sheet(seed):
        telling = ", ".join(_telling(one)) or "none"
        lines.append(f"{one.number:2}  {' + '.join(one._made):60}  probes: {telling}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(answer_key(int(sys.argv[1])))
