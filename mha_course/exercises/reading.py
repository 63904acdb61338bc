"""Read what people type: numbers and small sums, shapes, and choices by a label or a few of their
words.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import string
import warnings
from collections.abc import Callable, Sequence
from itertools import product

LONGEST = 120  # characters of an answer that is read
_SIGNS = str.maketrans({
    "−": "-", "–": "-", "—": "-", "‑": "-", "×": "*", "·": "*", "⋅": "*", "÷": "/", "^": "**",
    "²": "**2",
    "√": " sqrt ",    "½": "(1/2)", "⅓": "(1/3)", "⅔": "(2/3)", "¼": "(1/4)", "¾": "(3/4)",
    "\N{NO-BREAK SPACE}": " ",
    **dict.fromkeys("“”„‟\"‘’‚‛'`´", ""),
})  # fmt: skip
_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS = {"sqrt": math.sqrt, "ln": math.log, "log": math.log, "exp": math.exp}
_ONES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_NUMBERS = {word: number for number, word in enumerate(_ONES)}
_PARTS = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4}
_SAID_BEFORE = {
    "about", "approximately", "approx", "roughly", "around", "ca", "circa", "exactly", "only",
    "just", "it", "is", "a",
}  # fmt: skip
_FILLERS = {
    "the",
    "a",
    "an",
    "it",
    "its",
    "is",
    "are",
    "be",
    "of",
    "to",
    "they",
    "them",
    "and",
    "i",
    "think",
    "by",
}
_TURNS = {  # words that turn a sentence round
    "no", "not", "never", "none", "nothing", "neither", "nor", "without", "but", "except", "or",
    "twice",
}  # fmt: skip
_LIGHT = {
    "all",
    "any",
    "as",
    "at",
    "each",
    "every",
    "for",
    "from",
    "in",
    "one",
    "only",
    "with",
}  # say little alone
_SYNONYMS = {"alone": "only", "average": "mean"} | dict.fromkeys(("y", "yep", "true"), "yes")
_SYNONYMS |= dict.fromkeys(("n", "nope", "false"), "no")


def tidy(text: str) -> str:
    """Write signs as Python does, and leave out quotes, case, and what ends a sentence."""
    return text.translate(_SIGNS).casefold().strip().rstrip(".!? ")


def number(text: str, units: str = "") -> float | None:
    """Read a number, or a sum such as ``sqrt(64)``, ``ln 15`` or ``two thirds``; None for anything
    else.

    Args: units are words that may stand beside it; with ``%`` among them it may be given in
        percent.
    """
    units = units.casefold()
    text = re.sub(
        r"(?<=\d)[, ](?=\d{3}(?!\d))", "", tidy(text)[:LONGEST].replace("#", "?")
    )  # 1,800 and 1 800
    text = re.sub(r"(?<=\d),(?=\d)", ".", text)  # 2,71
    text = re.sub(r"(?<=\d)\s*x\s*(?=\d)", "*", text)
    if "%" in units:
        text = re.sub(r"([\d.]+)\s*(?:%|percent|per cent)", r"(\1/100)", text)
    known = _SAID_BEFORE | set(units.split())
    text = re.sub(
        r"\b(?:math|np|numpy|torch)\.", "", re.sub(r"(?:the )?(?:square )?root of", "sqrt", text)
    )
    text = re.sub(r"[a-z]+(?:-[a-z]+)?", lambda word: _digits(word[0], known), text)
    text = re.sub(r"(\d+)\s*÷(\d)", r"\1/\2", text).replace("÷", "1/")  # two thirds, a third
    text = re.sub(r"(sqrt|ln|log|exp)\s*(\d+(?:\.\d+)?)", r"\1(\2)", text)
    *sides, last = [_evaluate(side) for side in re.split("[=≈~]", text) if not _is_name(side)] or [
        None
    ]
    alike = last is not None and all(
        side is not None and math.isclose(side, last, rel_tol=0.01) for side in sides
    )
    return last if alike else None


def _digits(word: str, known: set[str]) -> str:
    """Write a word as a number; ``÷3`` stands for thirds."""
    if "-" in word:
        return " ".join(_digits(part, known) for part in word.split("-"))
    if word in known:
        return ""
    return f"÷{_PARTS[word]}" if word in _PARTS else str(_NUMBERS.get(word, word))


def _is_name(text: str) -> bool:
    """Return True for what stands before an equals sign without a number of its own: nothing,
    ``s``, ``sqrt d_k``.
    """
    return re.fullmatch(r"\s*(?:sqrt\b)?[\s(]*(?:[a-z]|[a-z]+_[a-z]+)?[\s)]*", text) is not None


def _evaluate(text: str) -> float | None:
    """Work out a sum of numbers, roots and logarithms; nothing else is run."""
    try:
        with warnings.catch_warnings(action="ignore"):
            result = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError):
        return None
    return result if isinstance(result, float) and math.isfinite(result) else None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
    raise ValueError


def elements(text: str) -> list[str]:
    """Cut a shape, or a few numbers, at commas, at ``x`` or at spaces."""
    text = re.sub(r"torch\.size|\bshape\b|[()\[\]{}=:]", " ", tidy(text).replace("(1/2)", "1/2"))
    text = re.sub(r"\b(?:and|or)\b|;", ",", text)
    for separator in (",", r"\s+(?:x|by|\*)\s+|(?<=\d)(?:x|\*)(?=\d)", r"\s+"):
        parts = [part.strip() for part in re.split(separator, text) if part.strip()]
        if len(parts) > 1:
            break
    return parts


def is_shape(text: str, sizes: str, letters: str = "") -> bool:
    """Compare a shape: each place its size, or the letter of its axis."""
    got, want = elements(text), elements(sizes)
    names = elements(letters) or [""] * len(want)
    if len(got) == 1 and set(map(len, names)) == {1}:
        got = list(got[0]) if not got[0].isdigit() else got  # BHSD
    if len(got) != len(want):
        return False
    pairs = zip(got, want, names, strict=True)
    return all(
        one.replace(" ", "") == name.replace(" ", "") or number(one) == float(size)
        for one, size, name in pairs
    )


def words(text: str) -> list[str]:
    """Return what a text is made of, without what may be left out: words without a plural, numbers,
    operators.
    """
    found = re.findall(r"[a-z_]+|(?<!\w)-\d+(?:\.\d+)?|\d+(?:\.\d+)?|[@<>+/%]|(?<!\w)-", tidy(text))
    plain = [_SYNONYMS.get(word, word) for word in found if word not in _FILLERS]
    return [word[:-1] if len(word) > 3 and re.search("[^s]s$", word) else word for word in plain]


def choose(
    given: str, choices: Sequence[str], question: str, units: str = "", tolerance: float = 0.0
) -> str | None:
    """Return the one choice that is meant: as it is written, by its number, by a label, or by some
    of its words.
    """
    given = given[:LONGEST]
    read = _readings(given, units)
    # What the question says, and no choice: “they sum to 1” is “1”.
    repeated = set(words(question)) - set(words(" ".join(choices))) - _TURNS
    own = [word for word in words(given) if word not in repeated or _is_number(word)]
    ways: list[Callable[[str], bool]] = [
        lambda choice: tidy(choice) == tidy(given),
        lambda choice: bool(words(given)) and words(choice) == words(given),
        lambda choice: any(
            _near(*pair, tolerance) for pair in product(read, _readings(choice, units)[:1])
        ),
        lambda choice: choices.index(choice) == _label(given, choices, question),
        lambda choice: _short_form(words(given), words(choice), words(question)),
        lambda choice: _short_form(own, words(choice), words(question)),
    ]
    for means in ways:
        found = [choice for choice in choices if means(choice)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _readings(text: str, units: str) -> list[list[float]]:
    """Read a text as one number, and as several: a comma may be either."""
    single = number(text, units)
    several = [number(part, units) for part in elements(text)]
    found = [[single]] if single is not None else []
    return found + (
        [[one for one in several if one is not None]] if several and None not in several else []
    )


def _near(got: Sequence[float], want: Sequence[float], tolerance: float) -> bool:
    pairs = zip(got, want, strict=False)
    return len(got) == len(want) and all(
        abs(one - other) <= tolerance + 1e-9 for one, other in pairs
    )


def _label(given: str, choices: Sequence[str], question: str) -> int | None:
    """Read ``b``, ``(b)``, ``2`` or ``option 2``: a place among the choices, where that is no
    answer itself.

    A bare letter is a label also where the question has it for a token or an axis, since what is
    asked for is a choice. Only where it stands in one choice alone, and the label is that of
    another, is it not clear what is meant.
    """
    found = re.fullmatch(r"(option|choice)? *(\(?)([a-h]|\d)(\)?)", tidy(given))
    if not found:
        return None
    word, *brackets, mark = found.group(1, 2, 4, 3)
    explicit = word or (any(brackets) and not mark.isdigit())
    at = int(mark) - 1 if mark.isdigit() else string.ascii_lowercase.index(mark)
    counted = "how many" in question.casefold() or any(
        _is_number(word) for choice in choices for word in words(choice)
    )
    with_it = [place for place, choice in enumerate(choices) if mark in words(choice)]
    if not explicit and (counted if mark.isdigit() else len(with_it) == 1 and with_it != [at]):
        return None
    return at if 0 <= at < len(choices) else None


def _short_form(given: list[str], choice: list[str], question: list[str]) -> bool:
    """Return True where a choice has these words side by side, and nothing that turns them round is
    left out.
    """
    new = [word for word in given if word not in question and re.search(r"\w", word)]
    telling = new and (set(given) - _LIGHT or choice[: len(given)] == given)
    only_numbers = all(map(_is_number, given)) and sum(map(_is_number, choice)) > 1
    return (
        bool(telling)
        and not only_numbers
        and _contains(choice, given)
        and _TURNS & set(choice) <= set(given)
    )


def _is_number(word: str) -> bool:
    return word.lstrip("-")[:1].isdigit() or word in _NUMBERS or word in _PARTS


def _contains(whole: list[str], part: list[str]) -> bool:
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))
