"""The makers of the figures that ship: each has its keys, and one can be made again."""

import pytest

from mha_course.cli import makers
from mha_course.experiments import precomputed

# A figure of each, and how far its numbers may be from those that ship: processors round otherwise.
MADE_AGAIN = {
    "translation": (11, 0.05),
    "short": (101, 0.1),
    "vision": (3, 0.05),
    "language": (201, 0.1),
    "difference": (4, 0.05),
    "two_layers": ("pair", 0.05),
    "thin": (8, 0.05),
    "one_layer": (0, 0.05),
    "bug_hunt": ("mask-after-softmax", 0.2),
}


def test_a_maker_for_everything_that_ships():
    assert {name: [*part] for name, part in precomputed.load()._asdict().items()} == {
        name: [*maker.keys] for name, maker in makers.MAKERS.items()
    }


def test_one_figure_is_made_again_and_the_others_stay(monkeypatch, tmp_path):
    before = precomputed.load()
    monkeypatch.setattr(precomputed, "PATH", tmp_path / "figures.json")
    precomputed.save(before)
    assert precomputed.load() == before
    made = lambda seed: {"seed": seed, "runs": [0.123456, "red"]}  # noqa: E731
    monkeypatch.setitem(makers.MAKERS, "vision", makers.MAKERS["vision"]._replace(make=made))
    assert makers.main(["vision", "3"]) == 0
    after = precomputed.load()
    assert after.vision.pop(3) == {"seed": 3, "runs": [0.1235, "red"]}
    del before.vision[3]
    assert after == before


def flat(figure):
    """Return the values of a figure, whatever lists and dicts they are in."""
    if isinstance(figure, dict):
        figure = list(figure.values())
    if isinstance(figure, list | tuple):
        return [item for part in figure for item in flat(part)]
    return [figure]


@pytest.mark.weekly
@pytest.mark.parametrize("name", MADE_AGAIN)
def test_what_ships_comes_out_again(name):
    """Except for a few of its numbers: on another processor, training may end differently."""
    key, within = MADE_AGAIN[name]
    made, shipped = makers.MAKERS[name].make(key), getattr(precomputed.load(), name)[key]
    pairs = list(zip(flat(made), flat(shipped), strict=True))
    near = [pair for pair in pairs if pair[0] == pytest.approx(pair[1], abs=within)]
    assert len(near) >= 0.8 * len(pairs)
