"""Text from people as HTML and in sentences: what is not seen, what reorders, what is too long."""

import re
import sys
import unicodedata
from pathlib import Path

import pytest
from tags import Tags

from mha_course import markup

DOM = Path(markup.__file__).parent / "widgets" / "dom.js"
CONTROL_AND_FORMAT = [
    letter
    for letter in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(letter) in ("Cc", "Cf")
]


def test_browser_and_python_know_the_same_unseen_characters():
    (pattern,) = re.findall(r"const UNSEEN =\s*/(\[.*\])/g;", DOM.read_text(encoding="utf-8"))
    in_browser = re.compile(pattern)  # both languages read such a class alike
    assert len(CONTROL_AND_FORMAT) > 200
    for letter in CONTROL_AND_FORMAT:
        assert bool(in_browser.search(letter)) == bool(markup.UNSEEN.search(letter)), hex(
            ord(letter)
        )


def test_every_control_character_and_every_mark_of_direction_is_unseen():
    directions = "LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"
    marks = {
        letter
        for letter in CONTROL_AND_FORMAT
        if unicodedata.category(letter) == "Cc" or unicodedata.bidirectional(letter) in directions
    }
    assert marks | set("\u200e\u200f\u061c\ufeff") == set(
        filter(markup.UNSEEN.search, map(chr, range(sys.maxunicode + 1)))
    )


@pytest.mark.parametrize("unseen", ["\x00", "\x85", "\u200f", "\u202e", "\ufeff"])
def test_unseen_characters_are_replaced_or_spelled_out(unseen):
    text = f"a{unseen}b"
    code = f"a\\u{ord(unseen):04x}b"
    assert markup.visible(text) == ("a⏎b" if unseen == "\x85" else "a�b")
    assert markup.spell_out(text) == markup.escaped(text) == markup.isolate_text(text) == code
    assert markup.spell_out("a\n\tb") == "a\n\tb"


@pytest.mark.parametrize("letter", ["\u05d0", "\u0627", "\u0661"])  # Hebrew, Arabic, an Arabic 1
def test_letters_from_the_right_are_isolated(letter):
    assert markup.isolate_word(letter) == markup.isolate_text(letter) == f"\u2068{letter}\u2069"


def test_words_and_texts_are_cut_before_they_are_isolated():
    assert markup.isolate_word("\u05d0" * 30, 5) == "\u2068\u05d0\u05d0\u05d0\u05d0…\u2069"
    assert markup.isolate_text("x" * 301) == "x" * 299 + "…"
    assert markup.isolate_text("x" * 300) == "x" * 300


def test_what_people_write_is_no_tag():
    bad = '<script>"&</script>'
    table = markup.table(bad, [bad], [markup.row([markup.escaped(bad)])])
    assert Tags(table).names() == ["table", "caption", "thead", "tr", "th", "tbody", "tr", "td"]
    assert Tags(markup.prose(f"{bad} `{bad}`")).names() == ["code"]
    assert Tags(markup.heading(bad, bad)).names() == ["strong", "code"]
    assert Tags(markup.figure("", bad)).names() == ["figure", "figcaption"]
