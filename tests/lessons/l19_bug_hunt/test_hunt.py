"""The hunt of lesson 19: what its cases are, that probes alone solve them, and what is said of an
accusation.
"""

import inspect
import itertools
import re
from functools import cache

import pytest
import torch

from mha_course.errors import ShapeError
from mha_course.experiments import faulty_attention
from mha_course.experiments.faulty_attention import INNOCENT, PAIRS, SINGLE, CausalAttention
from mha_course.lessons.l19_bug_hunt import costs as measured
from mha_course.lessons.l19_bug_hunt import hunt as bug_hunt
from mha_course.lessons.l19_bug_hunt.accusations import explain, understood
from mha_course.lessons.l19_bug_hunt.hunt import SIZES, Case, accuse, case, score, sheet, try_probe
from mha_course.lessons.l19_bug_hunt.probes import PROBES, findings, tokens

SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 7, 2026)))
EVERYTHING = [(name,) for name in SINGLE] + list(PAIRS)


@pytest.fixture(autouse=True)
def fresh_score(monkeypatch):
    monkeypatch.setattr(bug_hunt, "_accusations", {})


@cache
def what_mistakes_show(sizes):
    """Return each mistake, and pair of mistakes, by all that the probes say of it: what a solver
    has to know.
    """
    return {tuple(shown_by(names, sizes).items()): names for names in EVERYTHING}


@cache
def shown_by(names, sizes):
    return findings(Case(5, 99, names, sizes).module)  # other parameters than any case has


def solve(suspect):
    """Name the mistakes of a case by what the probes say of its module, and by nothing else."""
    return what_mistakes_show(suspect.sizes)[tuple(findings(suspect.module).items())]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_no_two_mistakes_look_alike_to_the_probes(sizes):
    assert len(what_mistakes_show(sizes)) == len(EVERYTHING)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_probes_alone_solve_every_case(seed):
    for suspect in sheet(seed):
        assert set(solve(suspect)) == set(suspect._mistakes)
        assert accuse(suspect.number, *solve(suspect), seed=seed).status == "right"
    assert score(seed).total == "12 of 12 cases found, accusations: 12."


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sheet_is_what_was_promised(seed):
    cases = sheet(seed)
    drawn = [one._mistakes for one in cases]
    assert [len(names) for names in drawn] == [1] * 10 + [2] * 2
    assert len(set(drawn)) == 12
    assert next(one.number for one in cases if one._mistakes == (INNOCENT,)) > bug_hunt.BLACK_BOXES
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
    assert len({tuple(one._mistakes for one in sheet(seed)) for seed in range(20)}) == 20
    assert sheet(7) == sheet(7)
    assert not {one._mistakes for seed in range(20) for one in sheet(seed + 1)} & {
        *PAIRS[:2]
    }  # those of the lesson


@pytest.mark.parametrize(
    "asked", [(13,), (0,), (True,), ("1",), (1, -1), (1, "a"), (1, None), (1, True)], ids=str
)
def test_a_case_is_asked_for_by_whole_numbers(asked):
    with pytest.raises(ShapeError, match=r"there are twelve|it draws a sheet"):
        case(*asked)


def test_a_black_box_names_no_mistake_and_what_is_done_to_it_does_not_stay():
    kinds = {*faulty_attention.SINGLE.values()}
    for suspect in sheet()[:5]:
        assert not kinds & {*type(suspect.module).__mro__}
        parts = [
            getattr(suspect.module, name) for name in faulty_attention.methods(*suspect._mistakes)
        ]
        assert [part.__qualname__ for part in parts] == [
            f"Attention.{part.__name__}" for part in parts
        ]
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
    with torch.random.fork_rng():
        torch.manual_seed(1)
        got = module(x, mask)
        torch.manual_seed(1)
        assert torch.equal(got.nan_to_num(9.0), suspect.module(x, mask).nan_to_num(9.0))
    assert not re.search("#|\"\"\"|'''|Tensor", suspect.source)


@pytest.mark.parametrize("name", SINGLE)
def test_a_mistake_is_understood_by_its_id_and_its_title(name):
    title, why = explain(name)
    assert (
        understood(name)
        == understood(name.replace("-", " ").upper())
        == understood(f"“{title}”")
        == [name]
    )
    assert title.endswith(".")
    assert why


OTHER_WORDS = {
    "mask-after-softmax": "masked after the softmax, not before | the mask comes too late",
    "kv-repeat-interleaved-wrongly":
        "grouped heads repeated in the wrong order | repeat instead of repeat_interleave | used "
        "repeat rather than repeat_interleave | gqa",
    "scale-missing":
        "forgot to divide by sqrt d | not divided by sqrt(D) | not scaled | no scaling | the "
        "scale is missing",
    "scale-d-model": "sqrt(d_model) | divided by the model width",
    "scale-by-length": "divides by the sequence length | sqrt(T)",
    "dropout-at-eval": "dropout in eval mode",
    "rope-on-values": "rotary applied to the values | rope on v | the values are rotated too",
    "positions-ignored": "positions start at 0 with a cache | cache offset is ignored",
    "keys-detached": "the keys get no gradient | K is detached | W_K gets no gradient | no "
                     "gradient reaches the keys",
    "mask-inverted": "padding mask inverted | True means hide | mask polarity",
    "decode-first-key-only": "only the first key when decoding | tril without offset",
    "masked-row-nan": "nan for empty rows",
    "causal-leaks-next": "sees the next token",
    "output-projection-missing": "no output projection | out_proj is not used",
    "key-value-swapped": "keys and values swapped",
    "view-without-transpose": "viw-without-transpos | no transpose",
    INNOCENT:
        "it is fine | no bug | all good | no mistake at all | nothing wrong here | i think it is "
        "fine | nothing is wrong | it is right | No mistake. | no mistakes | it has no bug | "
        "everything is fine",
    "merge-batch-mixed":
        "batch and tokens were swapped | batch and tokens are swapped | batch and tokens swapped "
        "| transposed batch and time | leaks between sentences | leak across the batch | it mixes "
        "the sentences",
    "scale-no-root": "divides by D not sqrt(D) | divided by D, not by its root",
    "softmax-over-heads": "weights sum to 1 over heads",
    "sees-itself-alone": "does not use cached keys | the new token sees only itself",
    "merge-dim-before-heads": "heads interleaved in output | concatenated in the wrong order",
    "mask-first-batch-only": "mask[0] | every sentence gets the first mask",
    "causal-missing": "no causal mask",
    "rope-on-queries-only": "the keys are not rotated | queries rotated, keys not",
    "value-through-key-projection": "values made by k_proj | values from keys",
    "softmax-over-queries": "softmax(dim=-2)",
    "causal-hides-self": "a token does not see itself",
    "masks-or-instead-of-and": "or instead of and",
    "rope-interleaved": "interleaved rotary layout",
    "masked-row-uniform": "fill of -1e9",
}  # fmt: skip
TURNED_ROUND = (
    "no rotary positions | the values are not rotated | loss too low | too few heads | the mask "
    "is fine | the scale is right | values are fine | bug in the mask | it is not a bug, it is a "
    "feature | no dropout | queries are not rotated | queries and keys swapped | not a leak | "
    "rope-not-on-values | the mask is not inverted | it is not the scale | dropout is fine | no "
    "nan | the gradient reaches the keys | the keys are rotated | all sentences are masked"
)
STRAY = (
    "banana x b was once all everything but than if does these should call two a of not no mask "
    "head heads key value values keys query softmax scores rope rows token tokens sentence batch "
    "cache k v scale"
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [(text, name) for name, texts in OTHER_WORDS.items() for text in texts.split(" | ")],
)
def test_a_mistake_is_understood_in_other_words(given, meant):
    assert understood(given) == [meant]


@pytest.mark.parametrize("given", [*TURNED_ROUND.split(" | "), *STRAY.split()])
def test_what_is_said_not_to_be_so_and_a_stray_word_accuse_of_nothing(given):
    assert len(understood(given)) != 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("softmax over the wrong axis", "Say `softmax-over-queries` or `softmax-over-heads`."),
        (
            "wrong scale",
            "Say `scale-missing` or `scale-d-model` or `scale-no-root` or `scale-by-length`.",
        ),
        ("sees the future", "Say `causal-missing` or `causal-leaks-next`."),
        ("off by one", "Say `causal-leaks-next` or `causal-hides-self`."),
        ("banana", "the menu, `accuse(1)`"),
        ("", "the menu, `accuse(1)`"),
        (None, "Say it in other words, `no mistake`"),
        (3, "Say it in other words, `no mistake`"),
        (["no mistake"], "Say it in other words, `no mistake`"),
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
    """For all mistakes and all cases of the lesson: the probe that is named finds what is said, or
    nothing.
    """
    for suspect, name in itertools.product(sheet(), SINGLE):
        if name in suspect._mistakes or name == INNOCENT:
            continue
        verdict = accuse(suspect.number, name)
        got, expected = (shown_by(names, SIZES[0]) for names in (suspect._mistakes, (name,)))
        assert verdict.status == "wrong"
        would = re.search(
            r"the probe `(\w+)` would find that (.+?)\. Here it finds (nothing|something else)\.",
            verdict.message,
        )
        other = re.search(r"not that the probe `(\w+)` finds something here", verdict.message)
        if would:
            assert expected[would[1]] == would[2]
            assert (would[1] in got) == (would[3] == "something else")
            assert got.get(would[1]) != expected[would[1]]
        else:
            assert other[1] in got
            assert other[1] not in expected
    assert "try `lengths` or `padding`" in repr(accuse(2, "no mistake"))


def test_of_two_mistakes_one_is_a_beginning():
    assert accuse(11, "scale-d-model").status == "near"
    assert {name: state for name, state, _ in score().rows}["11, source"] == "one of two"
    assert "`scale-d-model` is one of two. But: With" in repr(
        accuse(11, "scale-d-model", "rope on values")
    )
    assert accuse(11, "mask-first-batch-only").status == "right"
    assert score().total == "1 of 12 cases found, accusations: 3."
    assert accuse(12, "gqa", "rope on values", "nan").status == "unclear"
    assert accuse(12, "positions-ignored", "rope on values").status == "near"
    assert accuse(12, "v_proj is unused").status == "right"
    assert accuse(3, "gqa", "rope on values").status == "wrong"
    assert score().total == "2 of 12 cases found, accusations: 6."


def test_the_menu_answers_as_the_call_does():
    menu = accuse(3)
    assert menu.text.startswith("Case 3, a black box: one mistake, or none.")
    assert "0.94, that of the right one at 0.93" in menu.text
    assert menu.png().startswith(b"\x89PNG")
    assert set(menu._controls["mistake"].options) == {"", *SINGLE}
    menu.set(mistake="key-value-swapped")
    assert menu.text.startswith("Case 3: Not this.")
    menu.set(mistake="kv-repeat-interleaved-wrongly")
    assert menu.text.startswith("Case 3: Found.")


def test_a_probe_of_the_learners_is_tried_on_right_modules_first():
    def cut_off(module):
        x = tokens(module)
        return module(x)[:, :4] - module(x[:, :4])

    assert try_probe(cut_off).told == (1, 2, 5, 7)
    assert try_probe(PROBES["gradients"]).told == (10, 12)
    assert try_probe(lambda module: bool(cut_off(module).abs().max() > 1e-9)).told == (1, 2, 5, 7)
    for unwritten in (None, ...):
        assert repr(try_probe(lambda module, result=unwritten: result)) == (
            "The probe returns nothing yet: return 0 or an empty text where all is right."
        )
    assert "A false alarm: on a right module it returns 0.5" in repr(try_probe(lambda module: 0.5))
    mixed = faulty_attention.methods(INNOCENT)
    assert "written in another way, it returns 1" in repr(
        try_probe(
            lambda module: float(
                any(getattr(type(module), m) is not getattr(CausalAttention, m) for m in mixed)
            )
        )
    )
    assert "stops on a right module: ZeroDivisionError" in repr(try_probe(lambda module: 1 / 0))


def test_what_a_mistake_costs_is_said_in_the_numbers_that_were_measured():
    best = measured.load()[measured.RIGHT]
    for suspect in sheet():
        said = bug_hunt.cost(suspect)
        assert f"the right one: {best.at_once:.2f} throughout" in said
        for value in suspect.record[1:]:
            assert (
                "no number at all (NaN, or it stops)" if value is None else f"{value:.2f}"
            ) in said


def test_the_answer_key_names_all_and_the_probes():
    lines = bug_hunt.answer_key(7).splitlines()
    for line, suspect in zip(lines, sheet(7), strict=True):
        names, told = line.split("probes: ")
        assert names.split()[1::2] == list(suspect._mistakes)
        assert told == (", ".join(findings(suspect.module)) or "none")
