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
DIFFERS_ON_DARK = "#ff9b93"
RIGHT = "#116329"  # of an answer
RIGHT_ON_DARK = "#56d364"
QUESTION = "#2f6fdb"
HINT = "#8250df"
STATUS = {
    "correct": "#2da44e",
    "wrong": "#d4a72c",
    "unattempted": "#8c959f",
    "error": "#cf4a3c",
}
PAPER = "#ffffff"
QUIET = "#e8eaee"
EDGE = "#d5d8de"  # between cells where empty ones are white
FADED = "#9aa1ad"  # past stages, and grid lines
OTHER = "#aab1bd"  # bars beside the one to look at
NOT_A_NUMBER = "#b8bcc4"  # behind text
CHIP_EDGE = "#8a8f99"
NOTE = "#5b606b"  # text below a table
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
HATCH = {"hatch": "////", "facecolor": PAPER, "edgecolor": "#858c99"}

# On a dark page. Unnamed colours stay, except that greys become lighter or darker.
DARK = {
    PAPER: "#111111", "#000000": "#e4e7ee", INK: "#e4e7ee", QUIET: "#2f343e",
    "#4b2e83": "#b39ddb", "#00828a": "#2fb5bd", "#d6458f": "#ef7fb5",
    "#858c99": "#858c99", FADED: FADED, ON_COLOR: ON_COLOR, ACCENT_BEHIND: "#4a3a18",
    NOTE: "#a3adb8",
}  # fmt: skip
SIGNED = ("#2369bd", "#a9bfdc", "#ffffff", "#dbaba7", "#a9373b")  # the middle is the page's own
SIGNED_ON_DARK = ("#2d70c4", "#33567f", "#262a31", "#7d4547", "#c4484d")

# Colours of axes by letter, in traces, players and diagrams.
AXES = {
    "B": "#c9ced6", "T": "#8f9fe8", "S": "#7cc0ec", "H": "#5fc4a1", "D": "#dd9cc1", "C": "#f0e9d8",
    "3": "#ee9a7a",
}  # fmt: skip
OTHER_AXIS = "#dcd3ee"
UNKNOWN_AXIS = PAPER  # "?"
# Of numbers in LayoutPlayer, by head or token. Head colours are too dark for the text in a cell,
# and too close to the axis colours next to it.
CELLS = ("#a393f5", "#ecca45", "#3fbf9f", "#f4856f", "#8fb8ea", "#d1efb3", "#e59ad0", "#b99646")
UNOWNED_CELL = "#e4e0ee"

SCENE = {**STREAMS, "ink": INK, "muted": "#667085", "line": "#c6cad2", "accent": ACCENT}
# Of pages: on a light and on a dark one.
PAGE = {
    "ink": ("#1b1f24", "#e6edf3"), "paper": (PAPER, DARK[PAPER]), "soft": ("#57606a", "#a3adb8"),
    "line": ("#d0d7de", "#3d444d"), "card": ("#f6f8fa", "#1b1f25"), "blue": ("#0b57a4", "#7cb7ff"),
    "hint": (HINT, "#c297ff"), "right": (RIGHT, RIGHT_ON_DARK), "wrong": ("#8a6100", "#e3b341"),
    "differs": (DIFFERS, DIFFERS_ON_DARK), "jp-error-color0": (FAULT, "#ff8095"),
}  # fmt: skip
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
    on_dark = {"accent": ACCENT_ON_DARK, "right": RIGHT_ON_DARK, "differs": DIFFERS_ON_DARK}
    on_dark |= {name: DARK[value] for name, value in STREAMS.items()}
    shared = ":is(.mha-picture, .mha-card)"
    rules = [(f":where({shared})", variables), (f":where({DARK_PAGE} {shared})", on_dark)]
    return "".join(
        f"{selector} {{ {' '.join(f'--{name}: {value};' for name, value in colors.items())} }}\n"
        for selector, colors in rules
    )


def page_variables() -> str:
    """Return the colours of a page of its own, outside JupyterLab."""
    colours = [f"--{name}: light-dark({', '.join(pair)});" for name, pair in PAGE.items()]
    return f":root {{ color-scheme: light dark; {' '.join(colours)} }}\n"
