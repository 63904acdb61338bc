"""Colours can be read (contrast of WCAG 2.2) and told apart (three kinds of blindness)."""

import itertools
import re

import numpy as np
import pytest
import seaborn  # noqa: F401  (registers vlag)
from contrast import MARK, TEXT, WORDS, XYZ, contrast, linear
from widget_cases import CASES, START

from mha_course import plots
from mha_course.cli.authoring import ROOT
from mha_course.colours import AXES, CELLS, HATCH, OTHER_AXIS, STREAMS, UNOWNED_CELL
from mha_course.widgets.labs.panels import HEAD_FILLS

# Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency" (2009),
# table of severity 1.0, for linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
WHITE, DARK = "#ffffff", "#111111"  # JupyterLab's paper in its two themes
APART = 8.0  # CIE76; 2.3 is what can just be noticed
PAIRED = {"#fff", "#000", "#1f2430"}  # text on colours of ours, tested as pairs


def seen(color, sight):
    """Return a colour in CIELAB as it is seen."""
    xyz = XYZ @ np.clip(np.array(SIGHT[sight]) @ linear(color), 0, 1) / (0.95047, 1, 1.08883)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_the_measures_are_those_that_are_published():
    assert contrast("#000", "#fff") == pytest.approx(21, abs=1e-3)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)  # as WCAG's examples have it
    assert seen("#ff0000", "normal") == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    assert all(
        np.array(matrix).sum(axis=1) == pytest.approx(1, abs=1e-5) for matrix in SIGHT.values()
    )  # grey stays


@pytest.mark.parametrize(
    "fill", [plots.ACCENT, plots.QUIET, UNOWNED_CELL, OTHER_AXIS, WHITE, *AXES.values(), *CELLS]
)
def test_ink_can_be_read_on_every_fill(fill):
    assert contrast(plots.INK, fill) >= TEXT


@pytest.mark.parametrize(
    "mark", [plots.ACCENT, plots.BAR, plots.INK, HATCH["edgecolor"], *STREAMS.values()]
)
def test_marks_of_pictures_stand_out_from_white(mark):
    assert contrast(mark, WHITE) >= MARK


@pytest.mark.parametrize(
    "path", sorted((ROOT / "mha_course/widgets").rglob("*.css")), ids=lambda path: path.name
)
def test_marks_of_widgets_stand_out_in_both_themes(path):
    text = path.read_text(encoding="utf-8")
    dark = "".join(re.findall(r'theme-light="false"[^{]*{([^}]*)}', text))
    themed = dict(
        re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", dark)
    )  # letters that have a colour for each theme
    for name, color in set(re.findall(r"(?:(--[\w-]+): )?(#[0-9a-f]{6}\b|#[0-9a-f]{3}\b)", text)):
        if themed.get(name) == color:
            assert contrast(color, DARK) >= TEXT, color
        elif name in themed:
            assert contrast(color, WHITE) >= TEXT, color
        elif color not in PAIRED:
            assert min(contrast(color, WHITE), contrast(color, DARK)) >= MARK, color


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(
    ("colors", "least"),
    [
        ([*AXES.values()], APART),
        (CELLS, APART),
        (HEAD_FILLS, APART),
        ([plots.ACCENT, plots.BAR, plots.QUIET, plots.INK], 40),
    ],
    ids=["axes", "cells", "heads", "pictures"],
)
def test_colours_with_a_meaning_stay_apart(colors, least, sight):
    for one, other in itertools.combinations(colors, 2):
        assert np.linalg.norm(seen(one, sight) - seen(other, sight)) >= least, (one, other)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_of_widgets_can_be_read(lab_page, dark):
    calls = [call for call, *_ in CASES.values()]
    page = lab_page([f"import torch, numpy as np{START}", *calls], dark=dark, height=1000)
    page.wait_for_function(
        f"document.querySelectorAll('.jp-OutputArea [class^=mha-]').length >= {len(calls)}"
    )
    page.wait_for_timeout(1500)  # until all are drawn
    found = page.evaluate(WORDS, "[class^=mha-] *")
    assert {kind.split()[0] for *_, kind in found} >= {
        "mha-tracer",
        "mha-layout",
        "mha-heads",
        "mha-lab",
    }
    assert len(found) > 200
    poor = {tuple(row) for row in found if contrast(*row[:2]) < TEXT}
    assert not poor, "\n".join(map(str, sorted(poor)))
