"""Lesson 19: wrong modules that run and train, drawn from a seed, and the verdict on a choice.

``python -m mha_course.lessons.l19_bug_hunt.hunt 7`` prints the answer key of seed 7's sheet.
"""

from __future__ import annotations

import random
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure

from mha_course.colours import STATUS
from mha_course.errors import require
from mha_course.exercises import sandbox
from mha_course.experiments.faulty_attention import (
    INNOCENT,
    INNOCENTS,
    PAIRS,
    SINGLE,
    CausalAttention,
    diff,
    edits_of,
    faulty,
    listing,
    methods,
)
from mha_course.lessons.l19_bug_hunt import costs
from mha_course.lessons.l19_bug_hunt.pictures import small_curves
from mha_course.lessons.l19_bug_hunt.probes import CALLS, NOTHING, PLAIN, PROBES, READINGS, Reading
from mha_course.markup import box, columns, escaped, heading, prose, row, table
from mha_course.mistakes import ROWS
from mha_course.models import seeded
from mha_course.plots.figures import show_html
from mha_course.widgets import Panel
from mha_course.widgets.base import esm

SIZES = ((24, 4, 2), (48, 6, 2), (32, 4, 2), (60, 6, 3))  # C, H and G
LESSON_SHEET = (
    "mask-after-softmax", "scale-by-length", "kv-repeat-interleaved-wrongly", "cache-not-emptied",
    f"{INNOCENT}/fused",
    "keys-rotated-again", "merge-without-transpose", "masked-row-nan", f"{INNOCENT}/shifted",
    "keys-detached",
)  # fmt: skip
BLACK_BOXES = 5
ROW_OF = {  # mistakes that look different in a module
    "positions-ignored": "positions-ignored/cache",
    **{row.id: key for key, row in ROWS.items() if key.endswith("/module")},
}
SENTENCES = {name: ROWS[ROW_OF.get(name, name)] for name in (INNOCENT, *SINGLE)}
GROUPS = {  # of the menu, with the methods whose mistakes they list
    "Projections and heads": ("project", "split", "repeat"),
    "Positions": ("rotate",),
    "Cache": ("append",),  # and its name
    "Masks": ("past", "same_text", "hide"),
    "Scores and softmax": ("score", "attend"),
    "Merging and output": ("output",),
}


@dataclass(frozen=True)
class Case:
    """One module of a sheet, to be called, and from case 6 on also to be read."""

    number: int
    seed: int
    _names: tuple[str, ...] = field(repr=False)
    sizes: tuple[int, int, int]

    @property
    def name(self) -> str:
        """Its number, and its sheet's seed unless that is the lesson's."""
        return f"case {self.number} of sheet {self.seed}" if self.seed else f"case {self.number}"

    @property
    def _mistakes(self) -> set[str]:
        return {name.partition("/")[0] for name in self._names}

    @property
    def module(self) -> CausalAttention:
        """A new module in float64 and evaluation mode, its parameters drawn from the seed and the
        number. Probes count their readings of it.
        """
        module = self.uncounted()
        vars(module)["case"] = self.seed, self.number
        return module

    def uncounted(self) -> CausalAttention:
        """Return the module without counting readings."""
        with seeded(100 * self.seed + self.number):
            return faulty(*self._names)(*self.sizes).double().eval()

    @property
    def source(self) -> str:
        """Its source. Raises: ShapeError for a black box."""
        rule = "a black box can be called, but not read"
        readable = self.number > BLACK_BOXES
        place = f"case {self.number}"
        require(readable, place, rule, expected="case 6 to 12", got="a black box")
        return listing(CausalAttention, *edits_of(*self._names))

    @property
    def record(self) -> costs.Record:
        """The results of small language models with this attention."""
        return costs.load()["+".join(self._names)]

    def __repr__(self) -> str:
        kind = "a black box" if self.number <= BLACK_BOXES else "with its source"
        width, heads, groups = self.sizes
        mistakes = "two mistakes" if len(self._mistakes) > 1 else "one mistake, or none"
        return (
            f"Case {self.number}, {kind}: {mistakes}. C = {width}, H = {heads}, G = {groups}; "
            f"float64."
        )


def sheet(seed: int = 0) -> tuple[Case, ...]:
    """Return twelve cases: the lesson's for seed 0, else random; one to three have no mistake, at
    most one of those a black box.

    Raises: ShapeError for a seed that is not a whole number from 0.
    """
    valid = type(seed) is int and seed >= 0
    require(valid, "seed", "it draws a sheet", expected="0, 1, 2, …", got=repr(seed))
    singles, pairs, sizes = list(LESSON_SHEET), list(PAIRS[:2]), [SIZES[0]] * 12
    if seed:
        dice = random.Random(seed)
        unseen = [name for name in INNOCENTS if name not in LESSON_SHEET]
        pairs = dice.sample(PAIRS[2:], 2)
        while len({*pairs[0], *pairs[1]}) < 4:
            pairs = dice.sample(PAIRS[2:], 2)
        remaining = [name for name in SINGLE if name not in pairs[0] + pairs[1]]
        singles = dice.sample(unseen, dice.randint(1, 3))
        singles += dice.sample(remaining, 10 - len(singles))
        dice.shuffle(singles)
        while len({*singles[:BLACK_BOXES]} & {*INNOCENTS}) > 1:
            dice.shuffle(singles)
        sizes = dice.choices(SIZES, k=12)
    sets = [(name,) for name in singles] + pairs
    return tuple(
        Case(number, seed, *drawn) for number, drawn in enumerate(zip(sets, sizes, strict=True), 1)
    )


def case(number: int, seed: int = 0) -> Case:
    """Return one case of a seed's sheet.

    Raises: ShapeError for a number outside 1 to 12.
    """
    valid = type(number) is int and number in range(1, 13)
    require(valid, "case", "there are twelve", expected="1 to 12", got=repr(number))
    return sheet(seed)[number - 1]


_SIGNS = {"right": "✔ Found", "near": "✔ One of two", "wrong": "✘ Not this"}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a choice: ``status`` is right, near (one of two) or wrong; for a solved case,
    ``diff`` compares its wrong methods with the right ones.
    """

    case: Case
    status: str
    title: str
    message: str
    diff: str = ""

    def __repr__(self) -> str:
        lines = [
            f"{self.case.name.capitalize()}: {_SIGNS[self.status][2:]}. {self.title}",
            self.message,
        ]
        lines = [line for text in lines for line in textwrap.wrap(text, 80)]
        if self.diff:
            caption, heads, rows = cost(self.case)
            wrapper = textwrap.TextWrapper(100, initial_indent="  ", subsequent_indent="    ")
            lines += [
                "Found by:",
                *(piece for line in _probes_that_find(self.case) for piece in wrapper.wrap(line)),
                "",
            ]
            lines += [*textwrap.wrap(caption, 80), columns([heads, *rows]), "", self.diff]
        return "\n".join(lines).rstrip()

    def _repr_html_(self) -> str:
        top = heading(f"{_SIGNS[self.status]}. {self.title}", self.case.name)
        sections = [f"{top}<br>{prose(self.message)}"]
        code = ""
        if self.diff:
            caption, heads, rows = cost(self.case)
            probes = "".join(f"<li>{prose(line)}</li>" for line in _probes_that_find(self.case))
            sections += [f"<br>Found by:<ul>{probes}</ul>", table(caption, heads, map(row, rows))]
            code = "\n".join(
                f"<strong>{escaped(line)}</strong>" if line.startswith("+ ") else escaped(line)
                for line in self.diff.splitlines()
            )
        words = f'<div style="max-width:44em;overflow-x:auto">{"".join(sections)}</div>'
        code = code and f'<pre style="overflow-x:auto">{code}</pre>'
        return box(STATUS["correct" if self.status == "right" else "wrong"], words + code)


_choices: dict[tuple[int, int], list[set[str]]] = {}  # of each seed and case: what each found


def sentences() -> None:
    """Show everything that can be wrong, each with its id for ``accuse``."""
    rows = [(name, SENTENCES[name].title) for names in _groups().values() for name in names]
    body = [row((f"<code>{name}</code>", escaped(title))) for name, title in rows]
    fold = "<details><summary>{}</summary>{}</details>"
    title = f"All {len(rows)} sentences, and their ids"
    show_html(fold.format(title, table("", ("Id", "Sentence"), body)), columns(rows))


def accuse(number: int, *mistakes: str, seed: int = 0) -> Verdict | Panel:
    """Choose from a menu what is wrong with a case, or give an id from ``sentences``.

    Args: if there are two mistakes, you may begin with one; ``"no-mistake"`` is also a choice.
    Returns: the menu, or, given one or two ids, a Verdict.
    Raises: ShapeError for a number outside 1 to 12, and for an unknown id.
    """
    suspect = case(number, seed)
    if not mistakes:
        return Menu(suspect)
    for name in mistakes:
        known, rule = name in SENTENCES, "no sentence has this id"
        require(known, "accuse", rule, expected="an id from sentences()", got=repr(name))
    limit = len(suspect._mistakes)
    rule = f"this case has at most {'one' if limit == 1 else 'two'}"
    few, got = len(mistakes) <= (1 if INNOCENT in mistakes else limit), ", ".join(mistakes)
    require(few, "accuse", rule, expected="an id for each", got=got)
    verdict = _judge(suspect, {*mistakes})
    counted = f"Readings of this case so far: {READINGS[seed, number]}."
    return replace(verdict, message=f"{verdict.message} {counted}")


def _groups() -> dict[str, list[str]]:
    """Return all sentences' ids by group, the ungrouped one first."""
    groups: dict[str, list[str]] = {"": [INNOCENT], **{group: [] for group in GROUPS}}
    for name in SINGLE:
        (method,) = methods(name)
        about = next(group for group, methods in GROUPS.items() if method in methods)
        groups["Cache" if "cache" in SENTENCES[name].title else about].append(name)
    return groups


def is_found(number: int, seed: int = 0) -> bool:
    """Return whether all of a case's mistakes were named in this session."""
    return set().union(*_choices.get((seed, number), [])) == case(number, seed)._mistakes


def _judge(suspect: Case, accused: set[str]) -> Verdict:
    real = suspect._mistakes
    right, wrong = sorted(accused & real), sorted(accused - real)
    choices = _choices.setdefault((suspect.seed, suspect.number), [])
    repeated = set() in choices  # not the first wrong one
    known = set().union(*choices)
    if known != real and (wrong or not {*right} <= known):
        choices.append({*right})
    named = " ".join(SENTENCES[name].title for name in right)
    if wrong:
        against = _acquittal(suspect, wrong[0], repeated)
        against += "".join(f" Nor is it “{SENTENCES[name].title[:-1]}”." for name in wrong[1:])
        title = SENTENCES[wrong[0]].title
        if right:
            return Verdict(suspect, "near", named, f"But not “{title[:-1]}”. {against}")
        return Verdict(suspect, "wrong", f"“{title}”", against)
    why = " ".join(SENTENCES[name].why for name in right)
    if set().union(*choices) < real:
        return Verdict(suspect, "near", named, f"{why} And there is another mistake.")
    return Verdict(suspect, "right", named, why, diff(CausalAttention, *edits_of(*suspect._names)))


@cache
def _readings(suspect: Case) -> dict[str, Reading]:
    """Return the result of every call of a probe, each on a new module."""
    return {call: _read(suspect, call) for call in CALLS}


def _read(suspect: Case, call: str) -> Reading:
    with seeded(0):
        return CALLS[call](suspect.uncounted())


def telling(suspect: Case) -> dict[str, Reading]:
    """Return the probe results that no right module gives."""
    readings = _readings(suspect)
    found_by = {name: readings[f"{name}(module)"] for name in PROBES}
    return {name: reading for name, reading in found_by.items() if reading.finds}


def _acquittal(suspect: Case, name: str, repeated: bool) -> str:
    """Say which probe's number contradicts a choice."""
    if name == INNOCENT:
        probe = next(iter(telling(suspect)))
        advice = f": try the probe `{probe}`." if repeated else ". Which probes have you not tried?"
        return f"Something is wrong{advice}"
    contradiction = _against(suspect, name)
    if contradiction is None:
        return "It is not one of the two."
    call, would = contradiction
    subject = "one of the two" if len(suspect._mistakes) > 1 else "this"
    reading = _readings(suspect)[call]
    outcome = f"gives {reading.written}" if reading.finds else "does"
    return f"If it were {subject}, `{call}` would {would}. Here it {outcome}."


def _against(suspect: Case, name: str) -> tuple[str, str] | None:
    """Return a probe call that would give another number with this mistake, and that number.
    With two mistakes, either may explain a wrong number, so what counts is a number that this
    mistake never gives, whatever the other one is.
    """
    with_mistake, observed = _readings(replace(suspect, _names=(name,))), _readings(suspect)
    calls = [call for call in CALLS if with_mistake[call].pattern != observed[call].pattern]
    # The best is a plain call that finds this mistake and nothing here, then one that finds less.
    calls.sort(key=lambda call: (call not in PLAIN, observed[call].finds, with_mistake[call].finds))
    two = len(suspect._mistakes) > 1
    for call in calls:
        if not observed[call].finds:
            would = f"not give {observed[call].expected}"
        elif two:
            continue
        else:
            would = f"give {with_mistake[call].written}"
        if not two or _stays(name, call, suspect.sizes):
            return call, would
    return None


@cache
def _stays(name: str, call: str, sizes: tuple[int, int, int]) -> bool:
    """Return whether a probe finds this mistake alongside any other."""
    replaced = {*methods(name)}
    partners = [partner for partner in SINGLE if replaced.isdisjoint(methods(partner))]
    return all(_read(Case(0, 0, (name, partner), sizes), call).finds for partner in partners)


def _probes_that_find(suspect: Case) -> list[str]:
    """Say which probes find it, the first three with their numbers."""
    readings = telling(suspect)
    lines = [f"`{name}`, {x.label}: {x.written}" for name, x in [*readings.items()][:3]]
    if further := [f"`{name}`" for name in readings][3:]:
        lines.append(f"and {', '.join(further)}")
    return lines or ["no probe: nothing is wrong"]


def cost(suspect: Case) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
    """Return small language models' results with this attention and the right one: a table's text,
    headings and rows.
    """
    records = {"this case": suspect.record, "the right one": costs.load()[costs.RIGHT]}
    return (
        "What it costs a small language model, in nats per word on held-out sentences: the mean of "
        "three runs, and their range. Word by word means padded in front, with a cache. The right "
        "parameters are those that the right module learned.",
        ("", "read at once", "word by word", "right parameters"),
        [(name, *map(_loss, record[1:])) for name, record in records.items()],
    )


def _loss(values: costs.Losses) -> str:
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return "NaN or an error"
    return f"{fmean(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


def losses(*cases: Case) -> Figure:
    """Draw these cases' training losses, each next to the right attention's."""
    best = costs.load()[costs.RIGHT].losses
    steps = range(costs.EVERY, costs.STEPS + 1, costs.EVERY)
    return small_curves({f"case {x.number}": x.record.losses for x in cases}, steps, best)


class Menu(Panel):
    """Choose what is wrong with a case, and see its training loss and the verdict."""

    _esm = esm("menu.js", folder=Path(__file__).parent)
    _css = f"""{Panel._css}
.mha-hunt .sides {{ display: flex; flex-wrap: wrap; gap: 4px 24px; margin-top: 8px; }}
.mha-hunt .sides > * {{ flex: 1 1 560px; min-width: 0; }}
.mha-hunt .sides > .picture {{ flex: 0 1 360px; }}
.mha-hunt .answer {{ font-size: 14px; margin-top: 8px; }}
"""

    def __init__(self, suspect: Case) -> None:
        self._suspect, self._verdict = suspect, {"accused": "", "answer": ""}
        super().__init__(lambda: (losses(suspect), self._about()))
        groups = [
            (group, [(name, SENTENCES[name].title) for name in names])
            for group, names in _groups().items()
        ]
        self.options = {**self.options, "groups": groups}

    def without_kernel(self) -> None:
        """Return None: a verdict needs to probe the case."""

    def _about(self) -> str:
        suspect = self._suspect
        last, best = suspect.record.losses[-1], costs.load()[costs.RIGHT].losses[-1]
        loss = f"Its loss in training ends at {last:.2f}, that of the right one at {best:.2f}."
        seed = f", seed={suspect.seed}" if suspect.seed else ""
        call = f"accuse({suspect.number}, …{seed})"
        return f"{suspect} {loss} Without a menu, {call} takes an id from sentences()."

    def _receive(self, event: Mapping[str, Any]) -> None:
        if "accused" in event:
            verdict = accuse(self._suspect.number, event["accused"], seed=self._suspect.seed)
            self._verdict = {"accused": event["accused"], "answer": verdict._repr_html_()}
        else:
            super()._receive(event)

    def _drawn(self) -> dict[str, Any]:
        return {**super()._drawn(), **self._verdict}


@dataclass(frozen=True)
class Trial:
    """What a learner's probe finds on right modules and on a sheet's cases."""

    alarm: str
    cases: tuple[int, ...] = ()

    def __repr__(self) -> str:
        if self.alarm:
            return self.alarm
        cases = ", ".join(map(str, self.cases)) or "none"
        return f"Right modules pass. Cases that do not: {cases}."

    def _repr_html_(self) -> str:
        return box(STATUS["wrong" if self.alarm else "correct"], prose(repr(self)))


def try_probe(probe: Callable[[CausalAttention], Any], seed: int = 0) -> Trial:
    """Try a probe on right modules, which must pass, and on a sheet's twelve cases.

    Args: probe takes a module and returns a number that should be 0, or True or a string if
        something is wrong.
    """
    right = [((), sizes) for sizes in SIZES] + [((name,), SIZES[0]) for name in INNOCENTS]
    for names, sizes in right:
        try:
            result = probe(Case(0, 0, names, sizes).uncounted())
        except Exception as error:  # the learner's own
            reason = sandbox.explain(error, ())
            if "same dtype" in reason:
                reason += " The modules compute in float64, and tokens(module) is of their dtype."
            return Trial(f"The probe stops on a right module: {reason}")
        if result is None or result is ...:
            return Trial(
                "The probe returns nothing yet: return 0 or an empty text where all is right."
            )
        if isinstance(result, tuple | list | dict):
            kind = type(result).__name__
            return Trial(f"The probe returns a {kind}: return a number, True or a string.")
        if _accuses(result):
            kind = "a right module, written in another way," if names else "a right module"
            meaning = ", which means that something is wrong" if result is True else ""
            return Trial(
                f"A false alarm: on {kind} it returns {result}{meaning}. What need not hold there?"
            )
    caught = tuple(suspect.number for suspect in sheet(seed) if _stops_or_accuses(probe, suspect))
    READINGS.update((seed, suspect.number) for suspect in sheet(seed))
    mistaken = [Case(0, 0, (name,), SIZES[0]) for name in SINGLE]
    if caught or any(_stops_or_accuses(probe, suspect) for suspect in mistaken):
        return Trial("", caught)
    return Trial(
        f"This probe cannot fail: it lets right modules pass, and also each of the {len(SINGLE)} "
        "mistakes. Does it compare something with itself, or change nothing that counts?"
    )


def _accuses(result: Any) -> bool:
    """Return whether a number is nonzero beyond rounding, or another value is true."""
    if isinstance(result, Reading):
        return result.finds
    if isinstance(result, torch.Tensor):
        return not bool((result.detach().double().abs() <= NOTHING).all())
    return not abs(result) <= NOTHING if isinstance(result, float) else bool(result)


def _stops_or_accuses(probe: Callable[[CausalAttention], Any], suspect: Case) -> bool:
    try:
        return _accuses(probe(suspect.uncounted()))
    except Exception:  # right modules passed
        return True


SCORE = ("Case", "State", "Choices")


@dataclass(frozen=True)
class Score:
    """Which cases of a sheet are solved, and with how many choices."""

    rows: tuple[tuple[str, str, str], ...]
    total: str

    def __repr__(self) -> str:
        return f"{columns([SCORE, *self.rows])}\n{self.total}"

    def _repr_html_(self) -> str:
        return table(self.total, SCORE, map(row, self.rows))


def score(seed: int = 0) -> Score:
    """Show what was solved in this session."""
    rows = []
    for suspect in sheet(seed):
        choices = _choices.get((seed, suspect.number), [])
        begun = "one of two" if any(choices) else "open"
        state = "found" if is_found(suspect.number, seed) else begun
        kind = "black box" if suspect.number <= BLACK_BOXES else "source"
        rows.append((f"{suspect.number}, {kind}", state, str(len(choices))))
    solved = sum(state == "found" for _, state, _ in rows)
    num_choices = sum(int(count) for *_, count in rows)
    return Score(tuple(rows), f"{solved} of {len(rows)} cases found, choices: {num_choices}.")


def answer_key(seed: int) -> str:
    """Return a line for each case of a sheet: its mistakes and the probes that find them."""
    lines = []
    for suspect in sheet(seed):
        names = ", ".join(telling(suspect)) or "none"
        lines.append(f"{suspect.number:2}  {' + '.join(suspect._names):60}  probes: {names}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(answer_key(int(sys.argv[1])))
