"""Answers are read as people type them."""

from string import ascii_lowercase

import pytest
import torch
from live_cards import LiveCard

from mha_course.exercises import QUESTIONS, predict


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_answer_gets_its_own_reason_and_one_choice_is_right(name):
    question = QUESTIONS[name]
    assert predict(name)._repr_html_().count("✔ Right") == bool(question.choices)
    for answer, reason in question.answers.items():
        assert reason
        marked = predict(name, answer)
        assert marked.correct == (answer == question.right)
        assert repr(marked) == f"{'Right' if marked.correct else 'Not quite'}. {reason}"


RIGHT = {
    "row-sum": ["1.0", "100%"],
    "linear-weight": ["18 24", "(out, in)", "out in", "OUT, IN."],
    "linear-result": [
        *("2 5 18", "2,5,18", "[2, 5, 18]", "torch.Size([2, 5, 18])"),
        *([2, 5, 18], torch.Size([2, 5, 18]), "B, S, out", "(B S out)", ("B", "S", "out")),
    ],
    "which-crashes": ["x@W", "X @ w", "1"],
    "fused-parameters": ["1 800", "1.800", 1800.0, "1,800 numbers", "1800 parameters"],
    "split-shape": ["2 4 5 6", "B H S D", "b, h, s, d"],
    "contiguous-copies": ["2"],
    "typical-score": ["8.0", "8.", torch.tensor(8.0)],
    "which-width": [8, "8.0"],
    "three-axes": [3],
    "softmax-axis": ["dim = −1"],
    "most-entropy": ["2,71", "2.708 nats", "2,708"],
    "padding-shape": [(2, 1, 1, 5), "[2,1,1,5]"],
    "causal-count": ["21 entries"],
    "slowest-pair": ["46.950", "about 47000 tokens"],
    "loss-at-best": ["0.89", "0,9"],
    "bytes-a-token": ["128 KiB", "128 kb"],
    "scores-bytes": ["16x", "16 times"],
    "norm-by-hand": ["1.6", "1,6"],
    "where-numbers-are": [3],
    "shift-shape": ["64 16", "B, S - 1"],
    "colder": ["94%", "94 %", ".94"],
    "draft-kept": ["50 %", ".5"],
}
WRONG = {
    "row-sum": ["1%", "2", "15%", "not 1"],
    "whose-heads": ["not all heads", "all heads but one", "4"],
    "linear-result": ["2, 5, 1, 8", "2, 5"],
    "split-shape": ["B, S, H, D"],
    "shuffle": ["the same results", "same", "the same result"],
    "softmax-axis": ["not dim=-1", "dim=-2, not dim=-1", "1", "dim=-2 or dim=-1"],
    "which-width": ["3", "64", "-8"],
    "typical-score": ["8.1", "7.9", "8 or 64", "-8", "9**9", "(" * 500, "9" * 5000, "9,9,9"],
    "most-entropy": ["2.72", "2.70", "2.71 bits", "ln 16"],
    "padding-shape": ["(2, 1, 1, 5) or (2, 5)", "2, 1, 1", "2, 1, 1, 5, 1"],
    "own-width": ["number", "any number but 6", "3"],
    "always-zero": ["attention", "d"],
    "causal-corner": ["100%", "1 or 7"],
    "word-appended": ["3"],
    "bytes-a-token": ["128 bytes", "128 MiB", "0.128"],
    "slowest-pair": ["3", "47"],
    "colder": ["0.95", "0.9", "94"],
    "draft-kept": ["0.3", "2", "0.18"],
    "norm-by-hand": ["1.61", "1.59", "2"],
    "linear-weight": ["432", "18.24", "18, 24, 1", "in out", "18, not 24"],
}


@pytest.mark.parametrize("name", RIGHT | WRONG)
def test_what_means_the_right_answer_is_right_and_what_only_looks_like_it_is_wrong(name):
    assert [given for given in RIGHT.get(name, ()) if not predict(name, given).correct] == []
    assert [given for given in WRONG.get(name, ()) if predict(name, given).correct] == []


def test_buttons_and_fields_mark_as_the_call_does():
    for name, question in QUESTIONS.items():
        card = LiveCard(predict(name))
        typed = [*RIGHT.get(name, ()), *WRONG.get(name, ()), *question.answers]
        shown = card.shown.get("choices", ())
        choices = {choice["text"]: (choice["right"], choice["reason"]) for choice in shown}
        assert list(choices) == question.choices
        for given in choices or typed:
            right, reason = choices[given] if choices else card.press("answer", str(given))
            called = predict(name, str(given))
            assert right == called.correct
            assert reason in called._repr_html_()


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_may_be_written_in_any_way(name):
    question = QUESTIONS[name]
    for answer in question.answers:
        typed = [f" {answer.upper()} ", f"{answer}.", f"“{answer}”", answer.replace("-", "−")]
        if question.choices:
            letter = ascii_lowercase[question.choices.index(answer)]
            typed += [letter, f"({letter})", f"{letter.upper()})"]
        if answer == question.right:
            typed += question.also
        for text in typed:
            assert repr(predict(name, text)) == repr(predict(name, answer)), text


DENIALS = "not, never, nearly, all but, neither, twice, half of, less than, except"


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_wrong_answer_is_taken_for_right(name):
    question = QUESTIONS[name]
    right = question.right
    twisted = [f"{word} {right}" for word in DENIALS.split(", ")]
    for wrong in set(question.answers) - {right}:
        twisted += [wrong, f"{right} or {wrong}", f"{right} and {wrong}", f"{wrong} {right}"]
        twisted.append(f"{wrong}, not {right}")
    twisted += [f"{right} not", f"{right} twice", f"{right}?? no", question.text]
    twisted += ["?", "", "what", "-", "()"]
    for text in twisted:
        assert not predict(name, text).correct, text


@pytest.mark.parametrize("name", [name for name in QUESTIONS if not QUESTIONS[name].choices])
def test_numbers_and_shapes_that_are_a_little_off_are_wrong(name):
    sizes = [float(size) for size in QUESTIONS[name].right.split(",")]
    for at in range(len(sizes)):
        for off in (-1, 1, 0.5, 0.011 if len(sizes) == 1 else 2):
            near = ", ".join(f"{size + off * (place == at):g}" for place, size in enumerate(sizes))
            assert not predict(name, near).correct, near
            assert abs(off) != 1 or predict(name, near).correct is False, near
        assert not predict(name, ", ".join(f"{size:g}" for size in sizes[:at])).correct
    assert not predict(name, ", ".join(f"{size:g}" for size in [*sizes, 1])).correct
    if len(set(sizes)) > 1:
        assert not predict(name, ", ".join(f"{size:g}" for size in sizes[::-1])).correct


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("given", ["gibberish", "key 0", "it is right, and not wrong"])
def test_what_cannot_be_read_is_neither_right_nor_wrong(name, given):
    question, asked = QUESTIONS[name], predict(name, given)
    assert asked.correct is None
    assert "✘" not in asked._repr_html_()
    if question.choices:
        assert repr(asked).startswith("Which of the choices do you mean? (a) ")
        assert all(choice in repr(asked) for choice in question.choices)
    else:
        wanted = "shape" if "," in question.right else "number"
        assert ("axis" in repr(asked)) <= (wanted == "shape")
        assert repr(asked) == f"Which {wanted} do you mean? {question.nudge}"
        assert LiveCard(predict(name)).press("answer", given)[0] is None
