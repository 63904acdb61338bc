"""The rotary lab shows what a rotation by complex numbers gives."""

import math

import pytest
from torch.testing import assert_close

from mha_course import positions
from mha_course.lessons.l10_positions.lab import BASES, FURTHEST, POSITIONS, RotaryLab


def panels(lab):
    return lab.state["panels"]


def complex_turn(pair, angle):
    """Turn (a, b) by multiplying a + ib with e to the i angle."""
    turned = complex(*pair) * complex(math.cos(angle), math.sin(angle))
    return [turned.real, turned.imag]


@pytest.mark.parametrize("base", BASES)
def test_arrows_are_turned_as_complex_numbers_are(base):
    lab = RotaryLab()
    lab.set(position=20, distance=9, base=base)
    for i, dial in enumerate(panels(lab)[:6]):
        rate = base ** (-i / 6)
        assert float(dial["note"].split()[0]) == pytest.approx(rate, rel=0.1)
        k, q = (one["at"] for one in dial["arrows"])
        starts = [path[1] for path in dial["paths"]]
        for now, place, start in zip((q, k), (29, 20), starts, strict=True):
            assert now == pytest.approx(complex_turn(start, place * rate), abs=2e-3)
            assert math.hypot(*now) < dial["reach"]


def test_the_dot_product_depends_on_the_distance_alone():
    lab = RotaryLab()
    for distance in (0, 3, FURTHEST):
        sums = set()
        for position in POSITIONS:
            lab.set(position=position, distance=distance)
            assert ", the same as at positions 0 and" in lab.text
            sums.add(lab.text.partition("q · k = ")[2].partition(",")[0])
            *dials, added, wave = panels(lab)
            pairs = [[one["at"] for one in dial["arrows"]] for dial in dials]
            total = sum(added["values"])
            assert total == pytest.approx(wave["lines"][0]["values"][distance], abs=5e-3)
            assert_close(
                total,
                sum(a * c for pair in pairs for a, c in zip(*pair, strict=True)),
                atol=9e-3,
                rtol=0,
            )
            assert all(added["low"] <= value <= added["high"] for value in added["values"])
        assert len(sums) == 1


def test_a_wrong_function_shows_itself():
    own = RotaryLab(rope=lambda x, at, base=1e4: positions.rope(x, at, base))
    assert own.text.endswith("Computed by your rope.")
    assert own.text.startswith(RotaryLab().text)
    added = RotaryLab(rope=lambda x, at, base=1e4: x + at[:, None])
    added.set(position=5)
    assert ", not the same as at positions 0 and 3" in added.text
