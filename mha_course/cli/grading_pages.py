"""The page of a graded class, and feedback for each learner, without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from mha_course.colours import STATUS
from mha_course.exercises.catalogue import LESSON_OF, LESSONS, MISTAKES, NAMES, find_exercise
from mha_course.exercises.report import Report
from mha_course.exercises.spec import Mistake
from mha_course.markup import box, count, isolate_text, prose

SIGNS = {"correct": "✔", "wrong": "✘", "error": "⚠", "unattempted": "○", "": "·"}
WORDS = {"correct": "correct", "wrong": "wrong", "error": "stopped", "unattempted": "not begun"}
FREQUENT = 5
SHORT = 200  # letters of a message
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{style}</style></head><body><main>
{body}
</main></body></html>
"""

BEGINNING = PAGE.partition("{")[0]


class Row(NamedTuple):
    """The verdict on one answer; if exercise is empty, on an unreadable notebook."""

    learner: str
    exercise: str
    status: str
    mistake: str = ""
    message: str = ""
    picture: str = ""
    uses: str = ""  # the course functions it uses


def class_page(
    rows: Sequence[Row],
    strays: Sequence[Row] = (),
    late: Container[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return the page of a class: common mistakes, and a table of learners and exercises.

    Args: strays are files that belong to no learner; notes are on the folder.
    """
    answers = [row for row in rows if row.exercise]
    learners = list(dict.fromkeys(row.learner for row in rows))
    exercises = [name for name in NAMES if name in {row.exercise for row in answers}]
    begun = sum(row.status != "unattempted" for row in answers)
    right = sum(row.status == "correct" for row in answers)
    counted = count(len(learners), "learner"), count(len(exercises), "exercise")
    sections = ["<h1>The class</h1>", _chips(*counted, f"{right} of {begun} answers correct")]
    sections += [f'<p class="unreadable">{prose(isolate_text(note))}</p>' for note in notes]
    sections += [_frequent(answers, len(learners)), _stopped([*rows, *strays])]
    sections += [_map(answers, exercises), _learners(rows, exercises, late), _users(answers)]
    return _page("The class", sections)


def feedback_page(learner: str, rows: Sequence[Row]) -> str:
    """Return one learner's page: what ``check`` says about each answer, lesson by lesson."""
    answers = [row for row in rows if row.exercise]
    right = sum(row.status == "correct" for row in answers)
    chips = _chips(f"{right} of {count(len(answers), 'exercise')} correct")
    unread = [prose(isolate_text(row.message)) for row in rows if not row.exercise]
    sections = [f"<h1>{_name(learner)}</h1>", chips]
    sections += [f'<p class="unreadable">{text}</p>' for text in unread]
    for lesson in LESSONS:
        lesson_rows = [row for row in answers if LESSON_OF[row.exercise] is lesson]
        if lesson_rows:
            correct = sum(row.status == "correct" for row in lesson_rows)
            sections.append(
                f"<h2>{lesson.number} · {escape(lesson.title)} <small>{correct} of "
                f"{len(lesson_rows)}</small></h2>"
            )
        for row in lesson_rows:
            content = Report(row.exercise, row.status, row.message).content()
            sections.append(box(STATUS[row.status], content + row.picture))
    return _page(learner, sections)


def _page(title: str, sections: Sequence[str]) -> str:
    styles = [Path(__file__).with_name(f"{name}.css") for name in ("base", "grading")]
    style = "".join(path.read_text(encoding="utf-8") for path in styles)
    return PAGE.format(title=_name(title), style=style, body="\n".join(sections))


def _name(text: str) -> str:
    """Return a learner's name as HTML, whatever characters it has."""
    return escape(isolate_text(text.encode("utf-8", "replace").decode()))


def _chips(*texts: str) -> str:
    return f'<p class="chips">{"".join(f"<span>{text}</span>" for text in texts)}</p>'


def _known(name: str, exercise: str) -> Mistake | None:
    named = (mistake for mistake in MISTAKES if mistake.name == name)
    return next((x for x in named if x.applies(find_exercise(exercise))), None)


def _frequent(answers: Sequence[Row], learners: int) -> str:
    by_mistake: dict[str, list[Row]] = {}
    for row in answers:
        if row.mistake:
            by_mistake.setdefault(row.mistake, []).append(row)
    items = []
    ranked = sorted(by_mistake.items(), key=lambda item: -len({row.learner for row in item[1]}))
    for name, rows in ranked[:FREQUENT]:
        (exercise, _), *_ = Counter(row.exercise for row in rows).most_common()
        mistake = _known(name, exercise)
        lesson = LESSON_OF[exercise]
        affected = len({row.learner for row in rows})
        found_in = sorted({row.exercise for row in rows}, key=NAMES.index)
        places = ", ".join(f"`{exercise_name}`" for exercise_name in found_in)
        text = next(row.message for row in rows if row.exercise == exercise)
        text = mistake.row.text if mistake else text
        place = mistake.row.place if mistake else f"{lesson.number}, exercise `{exercise}`"
        bar = f'<i class="share" style="--share:{round(100 * affected / learners)}%"></i>'
        summary = f"<small>{bar} {affected} of {count(learners, 'learner')}</small>"
        items.append(
            f"<li><h3><code>{escape(name)}</code> {summary}</h3><p>{prose(text)}</p><p><small>In "
            f"{prose(places)}. <strong>Lesson {prose(place)}</strong> answers it.</small></p></li>"
        )
    body = f"<ol>{''.join(items)}</ol>" if items else "<p>No mistake that has a name was made.</p>"
    return f"<h2>What is misunderstood most</h2>{body}"


def _stopped(rows: Sequence[Row]) -> str:
    """List why answers stopped and files were not read, grouped by reason."""
    reasons: dict[str, list[Row]] = {}
    for row in rows:
        if row.status in ("error", "unreadable"):
            reason = row.message.partition(" In your line")[0]
            reason = reason if row.exercise else reason.rpartition(": ")[2]  # the file's name
            reason = reason if len(reason) <= SHORT else f"{reason[:SHORT]}…"
            reasons.setdefault(reason, []).append(row)
    items = []
    for reason, group in sorted(reasons.items(), key=lambda item: -len(item[1])):
        exercises = ", ".join(dict.fromkeys(f"`{row.exercise}`" for row in group if row.exercise))
        learners = ", ".join(dict.fromkeys(_name(row.learner) for row in group))
        counted = f"<small>{len(group)} ×, {prose(exercises)} {learners}</small>"
        items.append(f"<li>{prose(isolate_text(reason))} {counted}</li>")
    return f"<h2>What stopped, or was not read</h2><ul>{''.join(items)}</ul>" if items else ""


def _map(answers: Sequence[Row], exercises: Sequence[str]) -> str:
    """Draw exercises by mistakes: how many learners made each, and how the others did."""
    counts = Counter((row.exercise, row.mistake) for row in answers if row.mistake)
    statuses = Counter((row.exercise, row.status) for row in answers)
    total = Counter(row.mistake for row in answers if row.mistake)
    mistakes = [name for name, _ in total.most_common()]
    largest = max(counts.values(), default=1)
    head = _heads(*WORDS.values(), *mistakes)
    lines = []
    for name in exercises:
        came_out = [statuses[name, status] or "" for status in WORDS]
        cells = "".join(f'<td class="status">{number}</td>' for number in came_out)
        cells += "".join(_cell(counts[name, mistake], largest) for mistake in mistakes)
        lines.append(f'<tr><th scope="row"><code>{name}</code></th>{cells}</tr>')
    note = (
        "How many learners made a mistake in an exercise. The four columns on the left: how all "
        "their answers came out."
    )
    return f"<h2>Exercises and mistakes</h2>{_table(note, head, lines)}"


def _cell(number: int, largest: int) -> str:
    style = f'class="count" style="--share:{round(100 * number / largest)}%"'
    return f"<td {style}>{number}</td>" if number else "<td></td>"


def _learners(rows: Sequence[Row], exercises: Sequence[str], late: Container[str]) -> str:
    """Draw learners by exercises; each name links to that learner's feedback."""
    row_of = {(row.learner, row.exercise): row for row in rows}
    head = _heads("correct", *exercises)
    lines = []
    for learner in dict.fromkeys(row.learner for row in rows):
        answers = [row_of.get((learner, name)) for name in exercises]
        statuses = [row.status if row else "" for row in answers]
        titles = [WORDS.get(status, "not handed in") for status in statuses]
        cells = "".join(
            f'<td class="{status}" title="{title}">{SIGNS[status]}</td>'
            for status, title in zip(statuses, titles, strict=True)
        )
        link = f"feedback/{quote(learner, errors='surrogateescape')}.html"
        note = " <em>unreadable</em>" if (learner, "") in row_of else ""
        note += " <em>late</em>" if learner in late else ""
        lines.append(
            f'<tr><th scope="row"><a href="{link}">{_name(learner)}</a>{note}</th>'
            f'<td class="status">{statuses.count("correct")}</td>{cells}</tr>'
        )
    signs = ", ".join(
        f"{SIGNS[status]} {word}" for status, word in [*WORDS.items(), ("", "not handed in")]
    )
    return f"<h2>Learners</h2>{_table(signs, head, lines)}"


def _users(answers: Sequence[Row]) -> str:
    """List the answers that use the course's functions."""
    items = [
        f"<li>{_name(row.learner)}: {prose(f'`{row.exercise}`')} uses {_name(row.uses)}</li>"
        for row in answers
        if row.uses and row.status != "unattempted"
    ]
    note = "These answers call functions of the course. Whether they may is yours to say."
    title = "Answers that use the course's own functions"
    return f"<h2>{title}</h2><p>{note}</p><ul>{''.join(items)}</ul>" if items else ""


def _heads(*names: str) -> str:
    return "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in names)


def _table(note: str, head: str, lines: Sequence[str]) -> str:
    return (
        f'<p><small>{note}</small></p><div class="wide" tabindex="0"><table>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
