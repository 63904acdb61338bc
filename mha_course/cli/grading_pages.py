"""The page of a graded class, and feedback for each learner, without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from mha_course.colours import STATUS, page_variables
from mha_course.exercises.catalogue import LESSON_OF, MISTAKES, NAMES, find_exercise
from mha_course.exercises.report import Report
from mha_course.markup import box, count, isolate_text, prose

SIGNS = {"correct": "✔", "wrong": "✘", "error": "⚠", "unattempted": "○", "": "·"}
WORDS = {
    "correct": "correct", "wrong": "wrong", "error": "stopped", "unattempted": "not begun",
    "": "not handed in",
}  # fmt: skip
FREQUENT = 5
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{style}</style></head><body><main>
{body}
</main></body></html>
"""


class Row(NamedTuple):
    """The verdict on one answer; if exercise is empty, on an unreadable notebook."""

    learner: str
    exercise: str
    status: str
    mistake: str = ""
    message: str = ""
    uses: str = ""  # the course functions it uses


def class_page(rows: Sequence[Row], strays: Sequence[Row] = (), notes: Sequence[str] = ()) -> str:
    """Return the page of a class: common mistakes, and a table of learners and exercises.

    Args: strays are files that belong to no learner; notes are on the folder.
    """
    answers = [row for row in rows if row.exercise]
    learners = len({row.learner for row in rows})
    exercises = [name for name in NAMES if name in {row.exercise for row in answers}]
    begun = sum(row.status != "unattempted" for row in answers)
    right = sum(row.status == "correct" for row in answers)
    counted = f"{count(learners, 'learner')}, {count(len(exercises), 'exercise')}"
    unread = [
        f"{_name(row.learner)}: {prose(isolate_text(row.message))}"
        for row in (*rows, *strays)
        if not row.exercise
    ]
    using = [
        f"{_name(row.learner)}: {prose(f'`{row.exercise}`')} uses {_name(row.uses)}"
        for row in answers
        if row.uses and row.status != "unattempted"
    ]
    whether = "These answers call functions of the course. Whether they may is yours to say."
    sections = [
        f"<h1>The class</h1><p>{counted}, {right} of {begun} answers correct.</p>",
        *(f"<p><em>{prose(isolate_text(note))}</em></p>" for note in notes),
        _frequent(answers, learners),
        _list("What was not read", "", unread),
        _learners(rows, exercises),
        _list("Answers that use the course's own functions", whether, using),
    ]
    return _page("The class", sections)


def feedback_page(learner: str, rows: Sequence[Row]) -> str:
    """Return the page for one learner: what ``check`` says of each answer."""
    answers = [row for row in rows if row.exercise]
    right = sum(row.status == "correct" for row in answers)
    counted = f"{right} of {count(len(answers), 'exercise')} correct"
    sections = [f"<h1>{_name(learner)}</h1><p>{counted}</p>"]
    unread = [prose(isolate_text(row.message)) for row in rows if not row.exercise]
    sections += [f"<p><em>{text}</em></p>" for text in unread]
    for row in answers:
        content = Report(row.exercise, row.status, row.message).content()
        sections.append(box(STATUS[row.status], content))
    return _page(learner, sections)


def _page(title: str, sections: Sequence[str]) -> str:
    styles = [Path(__file__).with_name(f"{name}.css") for name in ("base", "grading")]
    style = page_variables() + "".join(path.read_text(encoding="utf-8") for path in styles)
    return PAGE.format(title=_name(title), style=style, body="\n".join(sections))


def _name(text: str) -> str:
    """Return a learner's name as HTML, whatever characters it has."""
    return escape(isolate_text(text.encode("utf-8", "replace").decode()))


def _list(title: str, note: str, items: Sequence[str]) -> str:
    lines = "".join(f"<li>{item}</li>" for item in items)
    return f"<h2>{title}</h2><p>{note}</p><ul>{lines}</ul>" if items else ""


def _frequent(answers: Sequence[Row], learners: int) -> str:
    """List the mistakes that most learners made, each with the section that answers it."""
    by_mistake: dict[str, list[Row]] = {}
    for row in answers:
        if row.mistake:
            by_mistake.setdefault(row.mistake, []).append(row)
    items = []
    ranked = sorted(by_mistake.items(), key=lambda item: -len({row.learner for row in item[1]}))
    for name, rows in ranked[:FREQUENT]:
        exercises = Counter(row.exercise for row in rows)
        (exercise, _), *_ = exercises.most_common()
        affected = len({row.learner for row in rows})
        summary = f"<small>{affected} of {count(learners, 'learner')}</small>"
        places = ", ".join(f"`{name}`" for name in NAMES if name in exercises)
        text = next(row.message for row in rows if row.exercise == exercise)
        place = f"{LESSON_OF[exercise].number}, exercise `{exercise}`"
        for mistake in MISTAKES:
            if mistake.name == name and mistake.applies(find_exercise(exercise)):
                text, place = mistake.row.text, mistake.row.place
        items.append(
            f"<li><h3><code>{escape(name)}</code> {summary}</h3><p>{prose(text)}</p><p><small>In "
            f"{prose(places)}. <strong>Lesson {prose(place)}</strong> answers it.</small></p></li>"
        )
    body = f"<ol>{''.join(items)}</ol>" if items else "<p>No named mistake was made.</p>"
    return f"<h2>The most common mistakes</h2>{body}"


def _learners(rows: Sequence[Row], exercises: Sequence[str]) -> str:
    """Draw learners by exercises; each name links to that learner's feedback."""
    status_of = {(row.learner, row.exercise): row.status for row in rows}
    lines = ""
    for learner in dict.fromkeys(row.learner for row in rows):
        statuses = [status_of.get((learner, name), "") for name in exercises]
        cells = "".join(f'<td class="{status}">{SIGNS[status]}</td>' for status in statuses)
        link = f"feedback/{quote(learner, errors='surrogateescape')}.html"
        lines += (
            f'<tr><th scope="row"><a href="{link}">{_name(learner)}</a></th>'
            f"<td>{statuses.count('correct')}</td>{cells}</tr>"
        )
    heads = "".join(f'<th scope="col"><span>{name}</span></th>' for name in ("correct", *exercises))
    signs = ", ".join(f"{sign} {WORDS[status]}" for status, sign in SIGNS.items())
    return (
        f'<h2>Learners</h2><p><small>{signs}</small></p><div class="wide" tabindex="0"><table>'
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
