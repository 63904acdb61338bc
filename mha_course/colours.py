"""The colours of the course: what plots, widgets, traces, reports and pages are drawn in.

A colour means one thing everywhere. Style sheets get them as variables, see css_variables.
"""

from __future__ import annotations

from typing import NamedTuple

ACCENT = "#d08000"  # the one thing to look at in a picture
ACCENT_ON_DARK = "#f0a030"
ACCENT_BEHIND = "#fde9bd"  # of an area behind text
BAR = "#5b7fb4"
FOCUS = "#2f7fd1"  # keyboard focus, if the page has no colour of its own for it
CHOSEN = "#1f6fc4"  # behind white text
WARNING = "#d97706"
FAULT = "#c2255c"  # text that says what went wrong
DIFFERS = "#b3261e"  # around a number that differs from the target, and of a wrong answer
RIGHT = "#116329"  # of an answer
QUESTION = "#2f6fdb"
HINT = "#8250df"
STATUS = {
    "correct": "#2da44e",
    "wrong": "#d4a72c",
    "unattempted": "#8c959f",
    "error": "#cf4a3c",
}
QUIET = "#e8eaee"
FADED = "#9aa1ad"  # past stages, and grid lines
INK = "#1f2430"
ON_COLOR = "#20242e"  # for text on the accent and on chips, the same on a dark page
STREAMS = {"q": "#4b2e83", "k": "#00828a", "v": "#d6458f"}  # distinct in greyscale


class HeadColour(NamedTuple):
    """The two colours of a head: no single colour is dark enough and distinct for all readers."""

    ink: str  # lines, and areas behind white text
    fill: str  # areas and marks, distinct with every kind of colour vision


HEAD_COLOURS = (  # of heads, repeating after the last
    HeadColour("#c2410c", "#d56b4b"),
    HeadColour("#0b7285", "#3a9d78"),
    HeadColour("#6741d9", "#b58ac9"),
    HeadColour("#2b8a3e", "#e69f00"),
    HeadColour("#c2255c", "#e8a0c4"),
    HeadColour("#1864ab", "#4c78b8"),
    HeadColour("#7f5539", "#9a7b5f"),
    HeadColour("#5c677d", "#8c9199"),
)
# Text on a coloured cell does not change with the page as paper and ink do. It must differ from
# these, since an SVG gives the colour of text, not of its background.
WHITE_ON_CELL, DARK_ON_CELL = "#fffffe", "#010101"
HATCH = {"hatch": "////", "facecolor": "#ffffff", "edgecolor": "#858c99"}

# On a dark page. Unnamed colours stay, except that greys become lighter or darker.
DARK = {
    "#ffffff": "#111111", "#000000": "#e4e7ee", INK: "#e4e7ee", QUIET: "#2f343e",
    "#4b2e83": "#b39ddb", "#00828a": "#2fb5bd", "#d6458f": "#ef7fb5",
    "#858c99": "#858c99", FADED: FADED, ON_COLOR: ON_COLOR,
}  # fmt: skip
SIGNED = ("#2369bd", "#a9bfdc", "#ffffff", "#dbaba7", "#a9373b")  # the middle is the page's own
SIGNED_ON_DARK = ("#2d70c4", "#33567f", "#262a31", "#7d4547", "#c4484d")

# Colours of axes by letter, in traces, players and diagrams.
AXES = {
    "B": "#c9ced6", "T": "#8f9fe8", "S": "#7cc0ec", "H": "#5fc4a1", "D": "#dd9cc1", "C": "#f0e9d8",
    "3": "#ee9a7a",
}  # fmt: skip
OTHER_AXIS = "#dcd3ee"
UNKNOWN_AXIS = "#ffffff"  # "?"
DARK_PAGE = ':is([data-jp-theme-light="false"], .vscode-dark, [theme="dark"], .dark)'


def axis_colour(axis: str) -> str:
    """Return the colour of an axis, or of the first letter of a product such as 3*C."""
    if axis == "?":
        return UNKNOWN_AXIS
    letters = (axis, *axis.replace("/", "*").split("*"))
    return next((AXES[letter] for letter in letters if letter in AXES), OTHER_AXIS)


def css_variables() -> str:
    """Return the colours that style sheets share, for light and dark pages."""
    variables = {
        "ink": INK, "hatch": HATCH["edgecolor"], "accent": ACCENT, "bar": BAR, "chosen": CHOSEN,
        "focus": f"var(--jp-brand-color1, {FOCUS})", "warning": WARNING,
        "fault": f"var(--jp-error-color0, {FAULT})", "question": QUESTION, "differs": DIFFERS,
        "right": RIGHT,
        **STREAMS, **{f"status-{name}": colour for name, colour in STATUS.items()},
    }  # fmt: skip
    on_dark = {"accent": ACCENT_ON_DARK, "right": "#56d364", "differs": "#ff9b93"}
    on_dark |= {name: DARK[value] for name, value in STREAMS.items()}
    shared = ":is(.mha-picture, .mha-card)"
    rules = [(f":where({shared})", variables), (f":where({DARK_PAGE} {shared})", on_dark)]
    return "".join(
        f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in colors.items())} }}\n"
        for selector, colors in rules
    )
