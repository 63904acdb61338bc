"""The makers of the figures that ship: each has its keys, and one can be made again."""

import pytest

from mha_course.cli import makers
from mha_course.experiments import precomputed


def test_a_maker_for_everything_that_ships():
    shipped = precomputed.load()._asdict()
    assert {name: [*part] for name, part in shipped.items()} == {
        name: [*maker.keys] for name, maker in makers.MAKERS.items()
    }


def test_one_figure_is_made_again_and_the_others_stay(monkeypatch, tmp_path):
    before = precomputed.load()
    monkeypatch.setattr(precomputed, "PATH", tmp_path / "figures.json")
    precomputed.save(before)
    assert precomputed.load() == before
    made = lambda seed: {"seed": seed, "runs": [0.12345, "red"]}  # noqa: E731
    monkeypatch.setitem(makers.MAKERS, "vision", makers.MAKERS["vision"]._replace(make=made))
    assert makers.main(["vision", "3"]) == 0
    after = precomputed.load()
    assert after.vision.pop(3) == {"seed": 3, "runs": [0.123, "red"]}
    del before.vision[3]
    assert after == before


def test_a_key_that_there_is_not_is_refused(capsys):
    with pytest.raises(SystemExit):
        makers.main(["short", "7"])
    assert "short has no key 7: it has 101, 102, 103" in capsys.readouterr().err


def test_the_table_has_a_line_for_each(capsys):
    makers.main([])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["name", *makers.MAKERS]
