"""Words from people, in one line: what cannot be seen is shown, and what turns the direction of
text is taken away.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SIGNS = str.maketrans(dict.fromkeys("\n\r\u0085\u2028\u2029", "⏎") | {"\t": "⇥"})
# Control characters, and marks that turn the direction of what follows them, even of words that are
# not theirs.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return a text in one line, without marks that turn its direction.

    >>> visible("a\\nb\\tc\\u202ed")
    'a⏎b⇥c�d'
    """
    return _UNSEEN.sub("�", text.replace("\r\n", "\n").translate(_SIGNS))


def shorten(text: str, most: int = 14) -> str:
    """Bring a word to one short line.

    >>> [shorten(word) for word in ("cat", "", " ", "a\\nb", "Donaudampfschifffahrt")]
    ['cat', '(empty)', '␣', 'a⏎b', 'Donaudampfsch…']
    """
    line = visible(text[:400]).strip() or ("␣" if text else "(empty)")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def apart(text: str, most: int = 24) -> str:
    """Shorten a word, and keep one that is read from the right from turning the words and numbers
    around it.

    >>> apart("cat"), len(apart("\u05d0"))
    ('cat', 3)
    """
    word = shorten(text, most)
    from_right = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in word)
    return f"\u2068{word}\u2069" if from_right else word


def numbered(names: Sequence[str]) -> list[str]:
    """Tell apart the words that a sentence has several times, by their order in it.

    >>> numbered(["the", "cat", "chased", "the", "dogs"])
    ['the₁', 'cat', 'chased', 'the₂', 'dogs']
    """
    counts = Counter(names)
    seen = Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        repeated = counts[name] > 1 and name.isalpha()
        found.append(name + str(seen[name]).translate(_BELOW) if repeated else name)
    return found
