"""The hunt of lesson 19: what its cases are, that probes alone solve them, and what is said of an accusation."""

import inspect
import itertools
import re
from functools import cache

import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.exercises import bug_hunt
from mha_course.exercises.bug_hunt import SIZES, Case, accuse, case, explain, score, sheet, try_probe, understood
from mha_course.experiments import bug_hunt as measured
from mha_course.experiments.faulty_attention import INNOCENT, PAIRS, SINGLE, CausalAttention
from mha_course.experiments.probes import PROBES, findings, tokens

SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 7, 2026)))
EVERYTHING = [(name,) for name in SINGLE] + list(PAIRS)


@pytest.fixture(autouse=True)
def fresh_score(monkeypatch):
    monkeypatch.setattr(bug_hunt, "_named", {})
    monkeypatch.setattr(bug_hunt, "_accusations", {})


@cache
def what_mistakes_show(sizes):
    """Return each mistake, and pair of mistakes, by all that the probes say of it: what a solver has to know."""
    return {tuple(shown_by(names, sizes).items()): names for names in EVERYTHING}


@cache
def shown_by(names, sizes):
    return findings(Case(5, 99, names, sizes).module)  # other parameters than any case has


def solve(suspect):
    """Name the mistakes of a case by what the probes say of its module, and by nothing else."""
    return what_mistakes_show(suspect.sizes)[tuple(findings(suspect.module).items())]


@pytest.mark.parametrize("sizes", [SIZES[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SIZES[1:])], ids=str)
def test_no_two_mistakes_look_alike_to_the_probes(sizes):
    assert len(what_mistakes_show(sizes)) == len(EVERYTHING)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_probes_alone_solve_every_case(seed):
    for suspect in sheet(seed):
        assert set(solve(suspect)) == set(suspect.mistakes)
        assert accuse(suspect.number, *solve(suspect), seed=seed).status == "right"
    assert score(seed).total == "12 of 12 cases found, accusations: 12."


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sheet_is_what_was_promised(seed):
    cases = sheet(seed)
    drawn = [one.mistakes for one in cases]
    assert [len(names) for names in drawn] == [1] * 10 + [2] * 2
    assert len(set(drawn)) == 12
    assert next(one.number for one in cases if one.mistakes == (INNOCENT,)) > bug_hunt.BLACK_BOXES
    for one in cases:
        assert one.module(tokens(one.module)).shape == tokens(one.module).shape
        assert not one.module.training
        assert one.record.losses
        assert all(name not in f"{one}{type(one.module).__name__}" for name in SINGLE)
    for one in cases[:5]:
        with pytest.raises(ShapeError, match=f"case {one.number}: a black box can be called, but not read"):
            _ = one.source


def test_seeds_draw_other_sheets():
    assert len({tuple(one.mistakes for one in sheet(seed)) for seed in range(20)}) == 20
    assert sheet(7) == sheet(7)
    with pytest.raises(ShapeError, match="there are twelve"):
        case(13)


@pytest.mark.parametrize("names", EVERYTHING, ids="+".join)
def test_a_source_that_can_be_read_is_what_runs(names):
    suspect = Case(6, 3, names, SIZES[0])
    space = {
        name: getattr(inspect.getmodule(CausalAttention), name) for name in dir(inspect.getmodule(CausalAttention))
    }
    exec(suspect.source, space)
    module = space["Attention"]()
    vars(module).update(vars(suspect.module))
    x = tokens(suspect.module)
    mask = torch.arange(7) >= torch.tensor([[0], [2]])
    with torch.random.fork_rng():
        torch.manual_seed(1)
        got = module(x, mask)
        torch.manual_seed(1)
        assert torch.equal(got.nan_to_num(9.0), suspect.module(x, mask).nan_to_num(9.0))
    assert not re.search("#|\"\"\"|'''|Tensor", suspect.source)


@pytest.mark.parametrize("name", SINGLE)
def test_a_mistake_is_understood_by_its_id_and_its_title(name):
    title, why = explain(name)
    assert understood(name) == understood(name.replace("-", " ").upper()) == understood(f"“{title}”") == [name]
    assert title.endswith(".")
    assert why


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("masked after the softmax, not before", "mask-after-softmax"),
        ("grouped heads repeated in the wrong order", "kv-repeat-interleaved-wrongly"),
        ("repeat instead of repeat_interleave", "kv-repeat-interleaved-wrongly"),
        ("forgot to divide by sqrt d", "scale-missing"),
        ("sqrt(d_model)", "scale-d-model"),
        ("divides by the sequence length", "scale-by-length"),
        ("dropout in eval mode", "dropout-at-eval"),
        ("rotary applied to the values", "rope-on-values"),
        ("positions start at 0 with a cache", "positions-ignored"),
        ("the keys get no gradient", "keys-detached"),
        ("padding mask inverted", "mask-inverted"),
        ("only the first key when decoding", "decode-first-key-only"),
        ("nan for empty rows", "masked-row-nan"),
        ("sees the next token", "causal-leaks-next"),
        ("no output projection", "output-projection-missing"),
        ("keys and values swapped", "key-value-swapped"),
        ("viw-without-transpos", "view-without-transpose"),
        ("it is fine", INNOCENT),
        ("no bug", INNOCENT),
    ],
)
def test_a_mistake_is_understood_in_other_words(given, meant):
    assert understood(given) == [meant]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("softmax over the wrong axis", "`softmax-over-queries` or `softmax-over-heads`"),
        ("banana", "the menu, `accuse(1)`"),
        ("", "the menu, `accuse(1)`"),
        ("<i>banana", "“<i>banana”"),
    ],
)
def test_what_is_not_clear_is_asked_for_and_costs_nothing(given, said):
    verdict = accuse(1, given)
    assert verdict.status == "unclear"
    assert said in repr(verdict)
    assert "<i>" not in verdict._repr_html_()
    assert score().total == "0 of 12 cases found, accusations: 0."


def test_a_wrong_accusation_is_answered_by_a_probe_that_speaks_against_it():
    """For all mistakes and all cases of the lesson: the probe that is named finds what is said, or nothing."""
    for suspect, name in itertools.product(sheet(), SINGLE):
        if name in suspect.mistakes or name == INNOCENT:
            continue
        verdict = accuse(suspect.number, name)
        got, expected = (shown_by(names, SIZES[0]) for names in (suspect.mistakes, (name,)))
        assert verdict.status == "wrong"
        would = re.search(r"probe `(\w+)` would find that (.+?)\. Here it finds (nothing|that .+)\.", verdict.message)
        other = re.search(r"not what the probe `(\w+)` finds here: (.+)\.", verdict.message)
        if would:
            assert expected[would[1]] == would[2]
            assert got.get(would[1], "nothing") == would[3].removeprefix("that ")
            assert got.get(would[1]) != expected[would[1]]
        else:
            assert got[other[1]] == other[2]
            assert other[1] not in expected
    assert "try `lengths` or `padding`" in repr(accuse(2, "no mistake"))


def test_of_two_mistakes_one_is_a_beginning():
    assert accuse(11, "scale-d-model").status == "near"
    assert {name: state for name, state, _ in score().rows}["11, source"] == "one of two"
    assert accuse(11, "scale-d-model", "rope on values").status == "wrong"
    assert accuse(11, "mask-first-batch-only").status == "right"
    assert score().total == "1 of 12 cases found, accusations: 3."


def test_the_menu_answers_as_the_call_does():
    menu = accuse(3)
    assert menu.text.startswith("Case 3, a black box: one mistake, or none.")
    assert "0.94, that of the right one at 0.93" in menu.text
    assert menu.png().startswith(b"\x89PNG")
    (control,) = menu.children[0].children
    assert {value for _, value in control.options} == {"", *SINGLE}
    control.value = "key-value-swapped"
    assert menu.text.startswith("Case 3: Not this.")
    control.value = "kv-repeat-interleaved-wrongly"
    assert menu.text.startswith("Case 3: Found.")


def test_a_probe_of_the_learners_is_tried_on_right_modules_first():
    def cut_off(module):
        x = tokens(module)
        return module(x)[:, :4] - module(x[:, :4])

    assert try_probe(cut_off).told == (1, 2, 5, 7)
    assert try_probe(PROBES["gradients"]).told == (10, 12)
    assert try_probe(lambda module: bool(cut_off(module).abs().max() > 1e-9)).told == (1, 2, 5, 7)
    for unwritten in (None, ...):
        assert repr(try_probe(lambda module, result=unwritten: result)) == "The probe returns nothing yet."
    assert "A false alarm: on a right module it returns 0.5" in repr(try_probe(lambda module: 0.5))
    assert "stops on a right module: ZeroDivisionError" in repr(try_probe(lambda module: 1 / 0))


def test_what_a_mistake_costs_is_said_in_the_numbers_that_were_measured():
    best = measured.load()[measured.RIGHT]
    for suspect in sheet():
        said = bug_hunt.cost(suspect)
        assert f"the right one: {best.at_once:.2f} throughout" in said
        for value in suspect.record[1:]:
            assert ("no number at all" if value is None else f"{value:.2f}") in said


def test_the_answer_key_names_all_and_the_probes():
    lines = bug_hunt.answer_key(7).splitlines()
    for line, suspect in zip(lines, sheet(7), strict=True):
        names, told = line.split("probes: ")
        assert names.split()[1::2] == list(suspect.mistakes)
        assert told == (", ".join(findings(suspect.module)) or "none")
