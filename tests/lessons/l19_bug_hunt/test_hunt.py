"""The hunt of lesson 19: its cases, the verdicts, and that probes are enough to solve it."""

import inspect
import itertools
import re
from functools import cache, partial

import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.experiments.faulty_attention import (
    INNOCENT,
    INNOCENTS,
    MADE,
    PAIRS,
    SINGLE,
    CausalAttention,
    methods,
)
from mha_course.lessons.l19_bug_hunt import costs, hunt
from mha_course.lessons.l19_bug_hunt.hunt import (
    SENTENCES,
    SIZES,
    Case,
    accuse,
    case,
    score,
    sentences,
    sheet,
    try_probe,
)
from mha_course.lessons.l19_bug_hunt.lab import ProbeLab
from mha_course.lessons.l19_bug_hunt.probes import CALLS, PROBES, READINGS, tokens
from mha_course.markup import escaped
from mha_course.models import seeded

SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 7, 2026)))
EVERYTHING = [(name,) for name in MADE] + list(PAIRS)


@pytest.fixture(autouse=True)
def fresh_score(monkeypatch):
    monkeypatch.setattr(hunt, "_choices", {})
    READINGS.clear()


@cache
def what_mistakes_show(sizes):
    """Return what the probes show of all mistakes and pairs: what a solver has to know."""
    return {shown_by(names, sizes): mistakes(names) for names in EVERYTHING}


def mistakes(names):
    return {name.partition("/")[0] for name in names}


@cache
def shown_by(names, sizes):
    """Return what the calls of probes give, whatever the parameters."""
    return tuple(reading.pattern for reading in hunt._readings(Case(0, 0, names, sizes)).values())


def solve(suspect):
    """Name the mistakes of a case by what the probes say of its module, and by nothing else."""
    found = []
    for probe in CALLS.values():
        with seeded(0):  # dropout
            found.append(probe(suspect.module).pattern)
    return what_mistakes_show(suspect.sizes)[tuple(found)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_no_two_mistakes_look_alike_to_the_probes(sizes):
    assert len(what_mistakes_show(sizes)) == len(EVERYTHING) - len(INNOCENTS) + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_probes_alone_solve_every_case(seed):
    for suspect in sheet(seed):
        assert solve(suspect) == suspect._mistakes
        assert accuse(suspect.number, *solve(suspect), seed=seed).status == "right"
    assert score(seed).total == "12 of 12 cases found, choices: 12."


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sheet_is_what_was_promised(seed):
    cases = sheet(seed)
    drawn = [one._names for one in cases]
    assert [len(names) for names in drawn] == [1] * 10 + [2] * 2
    assert len(set(drawn)) == 12
    assert 1 <= sum(one._mistakes == {INNOCENT} for one in cases) <= 3
    for one in cases:
        assert one.module(tokens(one.module)).shape == tokens(one.module).shape
        assert not one.module.training
        assert one.record.losses
        assert all(name not in f"{one}{type(one.module).__name__}" for name in SINGLE)
    for one in cases[:5]:
        with pytest.raises(
            ShapeError, match=f"case {one.number}: a black box can be called, but not read"
        ):
            _ = one.source


def test_seeds_draw_other_sheets():
    drawn = [sheet(seed) for seed in range(1, 31)]
    assert len({tuple(one._names for one in cases) for cases in drawn}) == 30
    assert sheet(7) == sheet(7)
    assert not {one._names for cases in drawn for one in cases} & {*PAIRS[:2]}  # the lesson's
    right = {one.number for cases in drawn for one in cases if one._mistakes == {INNOCENT}}
    assert right == {*range(1, 11)}
    made = [one._names for cases in drawn for one in cases]
    assert not {f"{INNOCENT}/fused", f"{INNOCENT}/shifted"} & {*itertools.chain(*made)}
    assert {names for names in made if len(names) > 1} == {*PAIRS[2:]}
    for cases in drawn:
        assert sum(one._mistakes == {INNOCENT} for one in cases[:5]) <= 1
        names = [*itertools.chain(*(one._names for one in cases))]
        assert len(names) == len({*names}) == 14


@pytest.mark.parametrize(
    "asked", [(13,), (0,), (True,), ("1",), (1, -1), (1, "a"), (1, None), (1, True)], ids=str
)
def test_a_case_is_asked_for_by_whole_numbers(asked):
    with pytest.raises(ShapeError, match=r"there are twelve|it draws a sheet"):
        case(*asked)


def test_a_black_box_names_no_mistake_and_what_is_done_to_it_does_not_stay():
    for suspect in sheet()[:5]:
        assert not [name for name in dir(suspect) if "mistake" in name and name[0] != "_"]
    case(2).module.q_proj.weight.data.zero_()
    assert case(2).module.q_proj.weight.any()


@pytest.mark.parametrize("names", EVERYTHING, ids="+".join)
def test_a_source_that_can_be_read_is_what_runs(names):
    suspect = Case(6, 3, names, SIZES[0])
    space = {
        name: getattr(inspect.getmodule(CausalAttention), name)
        for name in dir(inspect.getmodule(CausalAttention))
    }
    exec(suspect.source, space)
    module = space["Attention"]()
    vars(module).update(vars(suspect.module))
    x = tokens(suspect.module)
    mask = torch.arange(7) >= torch.tensor([[0], [2]])
    texts = torch.tensor([1, 1, 1, 2, 2, 2, 2]).expand(2, 7)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        got = module(x, mask, None, texts)
        torch.manual_seed(1)
        assert torch.equal(
            got.nan_to_num(9.0), suspect.module(x, mask, None, texts).nan_to_num(9.0)
        )
    assert not re.search("#|\"\"\"|'''|Tensor", suspect.source)


def test_a_choice_is_one_of_the_sentences(capsys):
    sentences()
    listed = capsys.readouterr().out
    assert len({said.title for said in SENTENCES.values()}) == len(SENTENCES) == len(SINGLE) + 1
    for name, said in SENTENCES.items():
        assert name in listed
        assert said.title in listed
        assert len(said.title) <= 80  # what a menu shows
        assert said.why
    unknown = ("banana", "", 3, None, f"{INNOCENT}/fused", SENTENCES[INNOCENT].title)
    for number, choice, message in (
        *((1, [asked], "no sentence has this id") for asked in unknown),
        (1, list(SINGLE)[:3], "this case has at most one"),
        (11, list(SINGLE)[:3], "this case has at most two"),
        (11, [INNOCENT, "scale-d-model"], "this case has at most two"),
    ):
        with pytest.raises(ShapeError, match=message):
            accuse(number, *choice)
    assert score().total == "0 of 12 cases found, choices: 0."
    assert repr(accuse(3, INNOCENT)).startswith("Case 3: ")
    assert repr(accuse(3, INNOCENT, seed=7)).startswith("Case 3 of sheet 7: ")


def refuted(suspect, name):
    """Return the call that contradicts a wrong choice, and the numbers quoted for it: with this
    mistake, or what it would not give, and here.
    """
    verdict = hunt._judge(suspect, {name})
    assert verdict.status == "wrong"
    found = re.search(
        r"`(.+)` would (not )?give (.+?)\. Here it (does|gives (.+))\.$", verdict.message
    )
    if found is None:
        return None
    call, unlike, number, does, here = found.groups()
    assert (does == "does") == (unlike is not None)
    return call, unlike, number, here or number


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.weekly)])
def test_a_wrong_choice_is_answered_by_a_number_that_speaks_against_it(step):
    """Every seventh pair of a case and a further mistake; every week, all pairs."""
    for suspect, name in [*itertools.product(sheet()[:10], SINGLE)][::step]:
        if name in suspect._mistakes:
            continue
        call, unlike, number, here = refuted(suspect, name)
        there = hunt._read(Case(suspect.number, 0, (name,), suspect.sizes), call)
        assert hunt._read(suspect, call).written == here != there.written
        assert there.finds if unlike else there.written == number


@pytest.mark.parametrize(
    ("names", "step"),
    [(PAIRS[0], 5), *(pytest.param(names, 1, marks=pytest.mark.weekly) for names in PAIRS)],
)
def test_of_two_mistakes_a_number_speaks_against_a_third_whatever_the_other_is(names, step):
    suspect = Case(11, 0, names, SIZES[0])
    assert [hunt._against(suspect, name) for name in names] == [None, None]
    wrong = [name for name in [*SINGLE][::step] if name not in names]
    found = {name: refuted(suspect, name) for name in wrong}
    assert len(list(filter(None, found.values()))) > len(wrong) / 2
    for name, quoted in found.items():
        if quoted is None:
            assert hunt._judge(suspect, {name}).message == "It is not one of the two."
            continue
        call, unlike, _, here = quoted
        assert unlike
        assert hunt._read(suspect, call).written == here
        assert not hunt._read(suspect, call).finds
        own = set(methods(name))
        for other in SINGLE:
            if own.isdisjoint(methods(other)):
                assert read((name, other), call).finds


@cache
def read(names, call):
    with seeded(0):
        return CALLS[call](Case(0, 0, names, SIZES[0]).module)


@pytest.mark.parametrize("name", PROBES)
def test_one_call_leaves_several_sentences(name):
    readings = [read((one,), f"{name}(module)") for one in SINGLE]
    assert 3 <= sum(reading.finds for reading in readings) < len(SINGLE)


def test_that_something_is_wrong_names_no_probe_at_first():
    said = "Something is wrong. Which probes have you not tried?"
    assert hunt._judge(case(2), {INNOCENT}).message == said
    accuse(4, "scale-missing")
    for number, name in ((2, "lengths"), (4, "second_text")):
        said = f"Something is wrong: try the probe `{name}`. Readings of this case so far: 0."
        assert accuse(number, INNOCENT).message == said


@pytest.mark.parametrize("names", EVERYTHING, ids="+".join)
def test_a_right_choice_is_right_and_shows_the_line(names):
    verdict = hunt._judge(Case(12, 3, names, SIZES[0]), mistakes(names))
    assert verdict.status == "right"
    wrong = [line for line in verdict.diff.splitlines() if line.startswith("+ ")]
    assert wrong
    assert ("# the same: " in verdict.diff) == (INNOCENT in mistakes(names))
    assert re.findall("<strong>(.*)</strong>", verdict._repr_html_())[1:] == [
        escaped(line) for line in wrong
    ]
    assert max(map(len, repr(verdict).partition("What it costs")[0].splitlines())) <= 110


def test_a_verdict_quotes_what_the_probes_say_of_the_case():
    for number, name in ((2, "scale-by-length"), (7, "merge-without-transpose")):
        told = repr(accuse(number, name, seed=0)).partition("Found by:")[2].partition("\n\n")[0]
        told = told.replace("\n    ", " ")
        found = [name for name, probe in PROBES.items() if probe(case(number).module).finds]
        assert re.findall(r"`(\w+)`", told) == found
        quoted = re.findall(r"^  `(\w+)`, (.*): (.+)$", told, re.MULTILINE)
        assert [probe for probe, *_ in quoted] == found[:3]
        for probe, label, value in quoted:
            assert f"{value:>8}  {label}" == repr(PROBES[probe](case(number).module))


def counted(number, name, seed=0):
    html = accuse(number, name, seed=seed)._repr_html_()
    return int(re.search(r"Readings of this case so far: (\d+)\.", html)[1])


def test_a_verdict_says_how_many_readings_were_taken():
    suspect = case(2).module
    PROBES["leaks"](suspect)
    CALLS["divisor(module, 1)"](suspect)
    assert counted(2, "scale-missing") == 2  # a verdict's own are not counted
    lab = ProbeLab()
    lab.without_kernel()
    assert counted(1, INNOCENT) == 0
    lab.set(case=2)
    try_probe(PROBES["lengths"])
    assert counted(2, "scale-by-length") == 4
    assert counted(3, INNOCENT) == 1
    assert counted(3, INNOCENT, seed=7) == 0


def test_of_two_mistakes_one_is_a_beginning():
    assert accuse(11, "scale-d-model").status == "near"
    assert accuse(11, "scale-d-model").status == "near"  # said again, it does not count
    assert {name: state for name, state, _ in score().rows}["11, source"] == "one of two"
    both = accuse(11, "scale-d-model", "rope-on-values")
    assert both.title == SENTENCES["scale-d-model"].title
    assert both.message.startswith("But not “The values are also rotated by their positions”.")
    assert accuse(11, "mask-first-batch-only").status == "right"
    assert score().total == "1 of 12 cases found, choices: 3."
    neither = accuse(12, "scale-missing", "rope-on-values")
    assert neither.status == "wrong"
    for name in ("scale-missing", "rope-on-values"):
        assert SENTENCES[name].title[:-1] in repr(neither).replace("\n", " ")
    accuse(12, "positions-ignored", "rope-on-values")
    assert accuse(12, "value-through-key-projection").status == "right"
    assert score().total == "2 of 12 cases found, choices: 6."


def test_what_is_chosen_once_a_case_is_found_does_not_count():
    accuse(3, "rope-on-values")
    assert not hunt.is_found(3)
    for name in ("kv-repeat-interleaved-wrongly", "rope-on-values", INNOCENT):
        accuse(3, name)
        assert hunt.is_found(3)
    assert score().total == "1 of 12 cases found, choices: 2."


def test_the_menu_answers_as_the_call_does():
    menu = accuse(3)
    assert menu.text.startswith("Case 3, a black box: one mistake, or none.")
    assert "0.94, that of the right one at 0.93" in menu.text
    assert "accuse(3, …) takes an id" in menu.text
    assert "accuse(3, …, seed=7) takes an id" in accuse(3, seed=7).text
    assert menu.svg().startswith(b"<svg")
    about, picture = menu.text, menu.state["panels"]
    for serial, name in enumerate(("key-value-swapped", "kv-repeat-interleaved-wrongly"), 1):
        menu.event = {"serial": serial, "accused": name}
        assert menu.state["answer"] == accuse(3, name)._repr_html_()
        assert (menu.state["accused"], menu.state["serial"]) == (name, serial)
        assert (menu.text, menu.state["panels"]) == (about, picture)
    assert "<strong>+     return x.repeat(" in menu.state["answer"]
    menu.event = {"serial": 3, "accused": "banana"}
    assert "no sentence has this id" in menu.state["trouble"]


def test_the_sentences_stand_in_groups_and_the_innocent_one_first():
    (none, first), *groups = accuse(3).options["groups"]
    assert (none, [name for name, _ in first]) == ("", [INNOCENT])
    assert sorted(name for _, choices in groups for name, _ in choices) == sorted(SINGLE)
    where = {name: group for group, choices in groups for name, _ in choices}
    for name, group in where.items():
        assert SENTENCES[name].title.startswith("With a cache, ") == (group == "Cache")
    assert where["merge-batch-mixed"] == "Merging and output"


def reads_tokens_of_its_own(module, dtype):
    width = module.q_proj.in_features if dtype == torch.float32 else 5
    return module(torch.ones(2, 7, width, dtype=dtype))


def test_a_probe_of_the_learners_is_tried_on_right_modules_first():
    def cut_off(module):
        x = tokens(module)
        return module(x)[:, :4] - module(x[:, :4])

    assert try_probe(cut_off).cases == (1, 2, 7)
    assert try_probe(PROBES["gradients"]).cases == (8, 10, 12)
    assert try_probe(lambda module: bool(cut_off(module).abs().max() > 1e-9)).cases == (1, 2, 7)


UNWRITTEN = r"^The probe returns nothing yet: return 0 or an empty text where all is right\.$"
IDLE = "^This probe cannot fail: it lets right modules"
TOLD = [  # of a probe
    (lambda module: None, UNWRITTEN),
    (lambda module: ..., UNWRITTEN),
    (lambda module: 0.5, r"A false alarm: on a right module it returns 0\.5"),
    (lambda module: 0.0, IDLE),
    (lambda module: module(tokens(module)).isinf().any(), IDLE),
    # of the list of cases, one would not
    (lambda module: "rope_interleaved" in module.rotate.__code__.co_names,
     r"Cases that do not: none\.$"),
    (lambda module: float("sqrt" not in module.score.__code__.co_names),
     "written in another way, it returns 1"),
    (lambda module: 1 / 0, "stops on a right module: ZeroDivisionError"),
    (lambda module: (1e-16, "length"), "returns a tuple: return a number"),
    (lambda module: True, r"True, which means that something is wrong\."),
    (partial(reads_tokens_of_its_own, dtype=torch.float32), "in float64"),
    (partial(reads_tokens_of_its_own, dtype=torch.float64), r"x is \(2, 7, 5\)"),
]  # fmt: skip


@pytest.mark.parametrize(("probe", "told"), TOLD)
def test_what_is_told_of_a_probe_of_the_learners(probe, told):
    assert re.search(told, repr(try_probe(probe)))


def test_what_a_mistake_costs_is_said_in_the_numbers_that_were_measured():
    for suspect in sheet():
        _, heads, rows = hunt.cost(suspect)
        measured = (suspect.record, costs.load()[costs.RIGHT])
        for record, (_, *cells) in zip(measured, rows, strict=True):
            assert len(cells) == len(heads) - 1
            for runs, cell in zip(record[1:], cells, strict=True):
                if None in runs:
                    assert cell == "NaN or an error"
                else:
                    assert cell == f"{sum(runs) / 3:.2f} ({min(runs):.2f} to {max(runs):.2f})"


def test_the_answer_key_names_all_and_the_probes():
    for line, suspect in zip(hunt.answer_key(7).splitlines(), sheet(7), strict=True):
        names, told = line.split("probes: ")
        assert names.split()[1::2] == list(suspect._names)
        finds = [name for name, probe in PROBES.items() if probe(suspect.module).finds]
        assert told == (", ".join(finds) or "none")
