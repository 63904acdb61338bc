"""Review questions come when they are due, a few a week, and no answer to them is lost."""

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from live_cards import LiveCard

from mha_course.cli import launch
from mha_course.errors import ShapeError
from mha_course.exercises import predict, progress, progress_store, review
from mha_course.exercises.catalogue import LESSONS
from mha_course.exercises.progress_store import remember
from mha_course.questions import IN_A_WEEK, RUN, all_questions, due_line, review_questions

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(progress_store.FILE)
START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(progress_store.SWITCH, raising=False)
    monkeypatch.setattr(progress_store, "session", progress_store.Session())


def finish(*numbers):
    for number in numbers:
        lesson = LESSONS[number]
        for name in lesson.questions if not lesson.exercises else ():
            predict(name, lesson.questions[name].right)
        for exercise in lesson.exercises:
            remember(exercise.name, "correct")


def wrong(name):
    asked = review_questions()[name]
    return next(choice for choice in asked.choices if choice != asked.right)


def test_questions_come_with_the_lessons_that_are_done():
    assert review(START).due == []
    assert "Nothing to review now." in review()._repr_html_()
    assert not FILE.exists(), "looking keeps nothing"
    finish(0)
    assert set(review(START).due) == set(all_questions()[0].review)
    remember("project", "correct")
    remember("self_attention", "wrong")
    assert len(review(START).due) == 5
    remember("self_attention", "correct")
    assert len(review(START).due) == 8


def test_a_lesson_without_exercises_is_done_when_its_predictions_are_answered():
    *some, last = LESSONS[19].questions
    assert not LiveCard(predict("row-sum")).shown["sends"]
    for name in some:
        assert LiveCard(predict(name)).shown["sends"]
        choice = LiveCard(predict(name)).shown["choices"][-1]["text"]
        LiveCard(predict(name)).press("answer", choice)  # right or wrong
    assert review(START).due == []
    assert predict(last, "gibberish").correct is None
    assert review(START).due == []
    finish(19)
    assert len(review(START).due) == 3


def test_intervals_grow_and_a_wrong_answer_begins_again():
    finish(0)
    (name, *_), now = review(START).due, START
    for days in (1, 3, 8, 21, 60, 60):
        assert review(now).answer(name, review_questions()[name].right) is True
        assert name not in review(now + (days - 0.01) * DAY).due
        now += days * DAY
        assert name in review(now).due
    assert review(now).answer(name, wrong(name)) is False
    for days in (1, 3):
        assert name not in review(now + (days - 0.01) * DAY).due
        now += days * DAY
        assert name in review(now).due
        assert review(now).answer(name, review_questions()[name].right)
    assert name not in review(now + 7 * DAY).due


def study(chance, seed, card=lambda shown: shown.due):
    """Do a lesson every second day and a card each day, for two months, with random answers."""
    dice, seen, weeks = random.Random(seed), Counter(), Counter()
    for day in range(61):
        if day % 2 == 0 and day // 2 < len(LESSONS):
            finish(day // 2)
        shown = review(START + day * DAY)
        assert len(shown.due) <= 8
        for name in shown.due:
            right = dice.random() < chance
            shown.answer(name, review_questions()[name].right if right else wrong(name))
            seen[name] += 1
            weeks.update(range(day, day + 7))  # the weeks that end on these days
    return seen, weeks


@pytest.mark.parametrize(("chance", "seed"), [(1.0, 0), (0.8, 1), (0.5, 2)])
def test_two_months_take_ten_minutes_a_week_and_show_each_question_three_times(chance, seed):
    seen, weeks = study(chance, seed)
    assert set(seen) == set(review_questions())
    assert min(seen.values()) >= 3
    assert max(weeks.values()) * 15 <= 600 == IN_A_WEEK * 15  # seconds, a quarter of a minute each


def test_two_notebooks_with_one_card_count_one_answer():
    finish(0)
    one, other = review(START), review(START)
    name = one.due[0]
    assert one.answer(name, wrong(name)) is False
    assert other.answer(name, review_questions()[name].right) is True
    assert name not in one.due
    assert name not in other.due
    assert json.loads(FILE.read_text())["review"] == {name: [[START.timestamp(), False]]}


def test_a_broken_file_is_laid_aside_and_odd_entries_are_asked_again():
    finish(0)
    first = review(START).due[0]
    review(START).answer(first, "a")
    content = json.loads(FILE.read_text())
    content["review"] |= {"odd": 3, "of another course": [[1.0, True]], "strange": [["x", 2]]}
    FILE.write_text(json.dumps(content))
    second = review(START).due[0]
    review(START).answer(second, "a")
    kept = json.loads(FILE.read_text())
    assert set(kept["review"]) == {first, second, "odd", "of another course", "strange"}
    FILE.write_text("{" + FILE.read_text())
    broken = FILE.read_bytes()
    assert (review(START).due, FILE.read_bytes()) == ([], broken)
    remember("attend", "correct")
    assert Path(f"{FILE}.broken").read_bytes() == broken
    assert "starts afresh" in progress().note
    assert len(review(START).due) == 5
    for kept in ("[]", '{"exercises": {"attend": 3}, "review": [], "predicted": 3}'):
        FILE.write_text(kept)
        assert review(START).due == []


def test_another_clock_asks_again_and_no_later():
    finish(0)
    name = review(START).due[0]
    review(START + 3000 * DAY).answer(name, "a")  # a clock that was years ahead
    assert name in review(START).due
    review(START).answer(name, "a")
    assert name not in review(START).due
    # without a zone: local
    assert name in review(START.astimezone().replace(tzinfo=None) + 3 * DAY).due


def test_where_nothing_can_be_kept_a_card_still_ends(monkeypatch):
    finish(0)
    monkeypatch.setattr(progress_store, "FileLock", None)
    monkeypatch.setenv(progress_store.SWITCH, "off")
    shown = review(START)
    while shown.due:
        shown.answer(shown.due[0], "b")
    assert "review" not in json.loads(FILE.read_text())


def test_bad_input_gets_one_message():
    finish(0)
    shown = review(START)
    for call, message in (
        (lambda: shown.answer("row-sum", "a"), "no review question has this id"),
        (lambda: shown.answer([], "a"), "no review question has this id"),
        (lambda: review("today"), "review: now must be a time"),
        (lambda: shown.answer(shown.due[0], "z"), "has no such choice"),
    ):
        with pytest.raises(ShapeError, match=message):
            call()
    assert len(shown.due) == 5


def test_the_card_asks_one_after_the_other_and_counts_first_clicks():
    finish(0)
    shown = review(START)
    names = [*shown.due]
    card = LiveCard(shown)
    for at, name in enumerate(names):
        asked = review_questions()[name]
        assert f"Review {at + 1} of 5." in card.shown["html"]
        assert [choice["text"] for choice in card.shown["choices"]] == asked.choices
        assert sum(choice["right"] for choice in card.shown["choices"]) == 1
        card.press("answer", asked.right if at else wrong(name))
        card.press("answer", asked.right)
        if card.widgets:
            (following,) = card.widgets
            card.card, card.face = following, following.children[0]
    assert "4 of 5 are right" in card.shown["parts"][0]
    answers = json.loads(FILE.read_text())["review"]
    assert [len(answers[name]) for name in names] == [1] * 5
    assert not answers[names[0]][0][1]


def test_the_course_says_at_its_start_that_questions_are_due(monkeypatch, capsys):
    lesson = Path("00_start_here.ipynb").absolute()
    monkeypatch.setattr(launch, "copy_lessons", lambda: lesson)
    monkeypatch.setattr(launch, "_in_venv", lambda *_: 0)
    launch.open_lab(Path("python"), [])
    assert capsys.readouterr().out == ""
    finish(0)
    launch.open_lab(Path("python"), [])
    assert capsys.readouterr().out == f"5 review questions are due. In a lesson: {RUN}\n"
    for name in [*review().due][1:]:
        review().answer(name, "a")
    assert due_line(FILE, datetime.now(UTC).timestamp()).startswith("1 review question is due")
    for broken in ("", "[]", "{}", '{"exercises": 3}'):
        FILE.write_text(broken)
        assert due_line(FILE, 0.0) == ""
