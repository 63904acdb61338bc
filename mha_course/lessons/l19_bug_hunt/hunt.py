"""Lesson 19: modules that run, train and are wrong, drawn by a seed, and what is said of an
accusation.

``python -m mha_course.lessons.l19_bug_hunt.hunt 7`` prints the answer key of the sheet that seed 7
draws.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from matplotlib.figure import Figure

from mha_course.errors import require
from mha_course.experiments import faulty_attention
from mha_course.experiments.faulty_attention import INNOCENT, PAIRS, SINGLE, CausalAttention
from mha_course.lessons.l19_bug_hunt import costs as bug_hunt
from mha_course.lessons.l19_bug_hunt.accusations import explain, understood
from mha_course.lessons.l19_bug_hunt.pictures import small_curves
from mha_course.lessons.l19_bug_hunt.probes import NOTHING, findings
from mha_course.markup import box, heading, isolate_text, prose, row, table
from mha_course.models import seeded
from mha_course.widgets import Panel

SIZES = ((24, 4, 2), (48, 6, 2), (32, 4, 2), (60, 6, 3))  # C, H and G
LESSON_SHEET = (
    "mask-after-softmax", "scale-by-length", "kv-repeat-interleaved-wrongly", "rope-on-values",
    "merge-batch-mixed",
    "positions-ignored", "view-without-transpose", "masked-row-nan", INNOCENT, "keys-detached",
)  # fmt: skip
BLACK_BOXES, SINGLES = 5, 10


@dataclass(frozen=True)
class Case:
    """One module of a sheet: to be called, and from case 6 on to be read."""

    number: int
    seed: int
    _mistakes: tuple[str, ...] = field(repr=False)
    sizes: tuple[int, int, int]

    @property
    def module(self) -> CausalAttention:
        """The module, new each time, in float64, not training; its parameters are drawn by the seed
        and the number.
        """
        with seeded(100 * self.seed + self.number):
            return faulty_attention.faulty(*self._mistakes)(*self.sizes).double().eval()

    @property
    def source(self) -> str:
        """Its source. Raises: ShapeError for a black box."""
        rule = "a black box can be called, but not read"
        require(
            self.number > BLACK_BOXES,
            f"case {self.number}",
            rule,
            expected="case 6 to 12",
            got="a black box",
        )
        return faulty_attention.source(type(self.module))

    @property
    def record(self) -> bug_hunt.Record:
        """What a small language model with this attention came to."""
        return bug_hunt.load()["+".join(self._mistakes)]

    def __repr__(self) -> str:
        kind = "a black box" if self.number <= BLACK_BOXES else "with its source"
        width, heads, groups = self.sizes
        mistakes = "two mistakes" if len(self._mistakes) > 1 else "one mistake, or none"
        return (
            f"Case {self.number}, {kind}: {mistakes}. C = {width}, H = {heads}, G = {groups}; "
            f"float64."
        )


def sheet(seed: int = 0) -> tuple[Case, ...]:
    """Return twelve cases: for seed 0 those of the lesson, else drawn; one of them is always
    without a mistake.

    Raises: ShapeError for a seed that is no whole number from 0.
    """
    require(
        type(seed) is int and seed >= 0,
        "seed",
        "it draws a sheet",
        expected="0, 1, 2, …",
        got=repr(seed),
    )
    dice = random.Random(seed)
    singles = list(LESSON_SHEET)
    pairs = list(PAIRS[:2])
    sizes = [SIZES[0]] * 12
    if seed:
        singles = dice.sample([name for name in SINGLE if name != INNOCENT], SINGLES - 1)
        singles.insert(dice.randrange(BLACK_BOXES, SINGLES), INNOCENT)
        pairs = dice.sample(PAIRS[2:], 2)
        sizes = dice.choices(SIZES, k=12)
    mistakes = [(name,) for name in singles] + pairs
    return tuple(
        Case(number, seed, *drawn)
        for number, drawn in enumerate(zip(mistakes, sizes, strict=True), 1)
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


_COLORS = {"right": "#2da44e", "near": "#d4a72c", "wrong": "#d4a72c", "unclear": "#8c959f"}
_SIGNS = {
    "right": "✔ Found",
    "near": "✔ One of two",
    "wrong": "✘ Not this",
    "unclear": "○ Not clear",
}


@dataclass(frozen=True)
class Verdict:
    """What is said of an accusation: ``status`` is right, near (one of two), wrong or unclear."""

    case: Case
    status: str
    message: str

    def __repr__(self) -> str:
        return (
            f"Case {self.case.number}: {_SIGNS[self.status][2:]}. {' '.join(self.message.split())}"
        )

    def _repr_html_(self) -> str:
        name = f"case {self.case.number}"
        lines = prose(self.message).replace("\n", "<br>")
        return box(_COLORS[self.status], f"{heading(_SIGNS[self.status], name)}<br>{lines}")


_accusations: dict[
    tuple[int, int], list[set[str]]
] = {}  # of each seed and case, and what each of them found


def accuse(number: int, *mistakes: str, seed: int = 0) -> Verdict | Panel:
    """Name the mistake of a case, in words or by its id; without one, choose it from a menu.

    Args: of two mistakes one is enough for a beginning, and ``"no mistake"`` is an accusation as
        well.
    Returns: a Verdict, or the menu.
    Raises: ShapeError for a number outside 1 to 12.
    """
    suspect = case(number, seed)
    return _judge(suspect, mistakes) if mistakes else _menu(suspect)


def _judge(suspect: Case, texts: Sequence[str]) -> Verdict:
    accused: set[str] = set()
    for text in texts:
        meant = understood(text) if isinstance(text, str) else []
        if len(meant) != 1:
            choice = " or ".join(f"`{name}`" for name in meant)
            choice = (
                choice
                or f"it in other words, `no mistake`, or one of the menu, "
                f"`accuse({suspect.number})`"
            )
            return Verdict(
                suspect, "unclear", f"What is meant by “{isolate_text(str(text))}”? Say {choice}."
            )
        accused |= {*meant}
    if len(accused) > 2:
        return Verdict(suspect, "unclear", "No case has more than two mistakes: name one or two.")
    real = set(suspect._mistakes)
    right = sorted(accused & real)
    wrong = sorted(accused - real)
    accusations = _accusations.setdefault((suspect.seed, suspect.number), [])
    accusations.append(set() if wrong and len(real) == 1 else {*right})
    if wrong and right and len(real) > 1:
        return Verdict(
            suspect, "near", f"`{right[0]}` is one of two. But: {_acquittal(suspect, wrong[0])}"
        )
    if wrong:
        return Verdict(suspect, "wrong", _acquittal(suspect, wrong[0]))
    named = " ".join(" ".join(explain(name)) for name in right)
    if set().union(*accusations) < real:
        return Verdict(suspect, "near", f"{named} And there is another mistake.")
    return Verdict(suspect, "right", f"{named}\n{_told(suspect)}\n{cost(suspect)}")


def _acquittal(suspect: Case, name: str) -> str:
    """Say which probe speaks against an accusation, but not what it finds here."""
    got = _findings(suspect._mistakes, suspect.sizes)
    if name == INNOCENT:
        return (
            f"A probe finds something: try {' or '.join(f'`{probe}`' for probe in list(got)[:2])}."
        )
    expected = _findings((name,), suspect.sizes)
    telling = [probe for probe, found in expected.items() if got.get(probe) != found]
    if not telling:
        other = next(probe for probe in got if probe not in expected)
        return (
            f"`{name}` would explain some of it, but not that the probe `{other}` finds something "
            f"here."
        )
    probe = min(telling, key=lambda probe: probe in got)  # first of those that find nothing here
    here = "something else" if probe in got else "nothing"
    return (
        f"With `{name}` the probe `{probe}` would find that {expected[probe]}. Here it finds "
        f"{here}."
    )


@cache
def _findings(mistakes: tuple[str, ...], sizes: tuple[int, int, int]) -> dict[str, str]:
    return findings(Case(0, 0, mistakes, sizes).module)


def _told(suspect: Case) -> str:
    """Say which probes tell."""
    found = _findings(suspect._mistakes, suspect.sizes)
    if not found:
        return "No probe finds anything."
    return (
        "What tells: " + "; ".join(f"`{name}`, {finding}" for name, finding in found.items()) + "."
    )


def cost(suspect: Case) -> str:
    """Say what a small language model with this attention came to, beside the right one."""
    best = bug_hunt.load()[bug_hunt.RIGHT]
    record = suspect.record
    return (
        f"What it costs a small language model, in nats a word on fresh sentences (the right one: "
        f"{best.at_once:.2f} throughout): read at once {_loss(record.at_once)}; word by word, "
        f"padded in front, {_loss(record.in_use)}; with the right one's parameters "
        f"{_loss(record.loaded)}."
    )


def _loss(value: float | None) -> str:
    return "no number at all (NaN, or it stops)" if value is None else f"{value:.2f}"


def losses(*cases: Case) -> Figure:
    """Draw the loss in training of these cases, each beside that of the right attention."""
    best = bug_hunt.load()[bug_hunt.RIGHT].losses
    steps = range(bug_hunt.EVERY, bug_hunt.STEPS + 1, bug_hunt.EVERY)
    return small_curves({f"case {one.number}": one.record.losses for one in cases}, steps, best)


def _menu(suspect: Case) -> Panel:
    """Return a menu of all mistakes, and the loss beside it."""
    best = bug_hunt.load()[bug_hunt.RIGHT].losses[-1]
    last = suspect.record.losses[-1]
    asking = (
        f"{suspect} Its loss ends at {last:.2f}, that of the right one at {best:.2f}. Name the "
        f"mistake."
    )

    def draw(mistake: str) -> tuple[Figure, str]:
        return losses(suspect), repr(_judge(suspect, [mistake])).replace(
            "`", ""
        ) if mistake else asking

    return Panel(
        draw, mistake={"choose": "", **dict(sorted((explain(name)[0], name) for name in SINGLE))}
    )


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
    for mistakes, sizes in *(((), sizes) for sizes in SIZES), ((INNOCENT,), SIZES[0]):
        try:
            found = probe(Case(0, 0, mistakes, sizes).module)
        except Exception as error:  # the learner's own
            return Trial(f"The probe stops on a right module: {type(error).__name__}: {error}")
        if found is None or found is ...:
            return Trial(
                "The probe returns nothing yet: return 0 or an empty text where all is right."
            )
        if _accuses(found):
            kind = "a right module, written in another way," if mistakes else "a right module"
            return Trial(f"A false alarm: on {kind} it returns {found}. What need not hold there?")
    return Trial(
        "", tuple(one.number for one in sheet(seed) if _stops_or_accuses(probe, one.module))
    )


def _accuses(found: Any) -> bool:
    """Return whether a number is not 0 but for rounding, or whether anything else is true."""
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
    """Which cases of a sheet are found, in how many accusations."""

    rows: tuple[tuple[str, str, int], ...]

    @property
    def total(self) -> str:
        """The table in a sentence."""
        done = sum(state == "found" for _, state, _ in self.rows)
        tries = sum(count for *_, count in self.rows)
        return f"{done} of {len(self.rows)} cases found, accusations: {tries}."

    def __repr__(self) -> str:
        return "\n".join(
            [
                *(f"{name}: {state}, accusations: {count}" for name, state, count in self.rows),
                self.total,
            ]
        )

    def _repr_html_(self) -> str:
        body = [row((name, state, str(count))) for name, state, count in self.rows]
        return table(self.total, ("Case", "State", "Accusations"), body)


def score(seed: int = 0) -> Score:
    """Show what was found in this session."""
    rows = []
    for one in sheet(seed):
        accusations = _accusations.get((seed, one.number), [])
        named = set().union(*accusations)
        state = "found" if named == set(one._mistakes) else "one of two" if named else "open"
        kind = "black box" if one.number <= BLACK_BOXES else "source"
        rows.append((f"{one.number}, {kind}", state, len(accusations)))
    return Score(tuple(rows))


def answer_key(seed: int) -> str:
    """Return, a line for each case of a sheet, its mistakes and the probes that tell."""
    lines = []
    for one in sheet(seed):
        telling = ", ".join(_findings(one._mistakes, one.sizes)) or "none"
        lines.append(f"{one.number:2}  {' + '.join(one._mistakes):60}  probes: {telling}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(answer_key(int(sys.argv[1])))
