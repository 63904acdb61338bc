"""What the lessons say in numbers. A number in a paragraph is also in an output of its lesson, and
nbval compares outputs; what no output shows is computed here.
"""

import base64
import re

import pytest
from lessons import LESSONS, code_cells, prose, read

from mha_course import example
from mha_course.datasets.grammar import noun_pairs, sentences
from mha_course.experiments import head_analysis, precomputed
from mha_course.lessons.l01_projection.pictures import exchanged_guesses
from mha_course.lessons.l06_concatenation.pictures import rows_without_heads
from mha_course.lessons.l17_what_heads_do import head_tables, induction

NUMBER = re.compile(r"(?<![\d.])\d+\.\d\d+(?![\d.])")
CITED = r"(?:arXiv|PyTorch|transformers)[: ]+[\d.]+"
NOT_MEASURED = re.compile(rf"(?s)```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|{CITED}")
# Numbers that are chosen, or measured elsewhere.
GIVEN = {"01": {"23.74"}, "17": {"0.001"}}


def seen(notebook):
    """Return all that the outputs of a lesson show, with the words in its pictures."""
    parts = []
    for cell in code_cells(notebook):
        for output in cell.outputs:
            data = output.get("data", {})
            page = data.get("text/html", "")
            parts += [output.get("text", ""), data.get("text/plain", "")]
            parts += re.findall(r">([^<>]+)<", page)
            for picture in re.findall(r'svg\+xml;base64,([^"]*)', page):
                parts += re.findall(">([^<>]+)</text>", base64.b64decode(picture).decode())
    return "\n".join(parts)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_numbers_in_paragraphs_are_shown(path):
    stated = set(NUMBER.findall(NOT_MEASURED.sub("", prose(read(path)))))
    assert stated - set(NUMBER.findall(seen(read(path)))) == GIVEN.get(path.name[:2], set())


def test_17_counts_sentences_and_measures_what_ships():
    known, texts = set(noun_pairs("train")), sentences(1000, "test", seed=16)
    assert not known & set(noun_pairs("test"))
    assert any((second, first) in known for first, second in noun_pairs("test"))
    with_pronoun = [text for text in texts if "pronoun" in text.pairs]
    assert len(with_pronoun) == 797
    assert {text.pairs["pronoun"][0][1] for text in with_pronoun} == {2, 6}
    masked = head_tables.hide_first_word(texts, "pronoun")
    weights = head_analysis.relation_table(example.trained_model(), masked, ["pronoun"])[0]
    assert round(weights[5].item(), 2) == 0.94
    models = induction.AttentionOnly(2, 1), induction.AttentionOnly(1, 2, 90)
    assert [sum(w.numel() for w in model.parameters()) for model in models] == [37_408, 38_552]
    for run in precomputed.load().one_layer.values():
        assert run["repeated"] > 0.5
        assert run["pieces"] < 0.3


def test_00_needs_head_1_and_finds_negative_products():
    model, sentence = example.trained_model(), "the {} that chased the {} {} hungry , so <mask> ate"
    pairs = ("grey cat", "loud dogs"), ("loud dogs", "grey cat")
    four = [sentence.format(*pair, verb) for pair in pairs for verb in ("was", "were")]

    def guesses(off):
        ablated = head_analysis.ablate_heads(model, [(1, head) for head in off])
        return [example.guess(text, model=ablated)[0][0] for text in four]

    right = ["it", "it", "they", "they"]
    assert all(guesses(off) == right for off in ((), (0,), (2,), (3,), (0, 2, 3)))
    assert guesses((1,))[1::2] == ["they", "they"]
    assert set(guesses(range(4))) == {"it"}
    found = example.load()
    it = found.tokens.index("it")
    plain, score = found.x[0] @ found.x[0, it], found.mha.steps(found.x).scores[0, 1, it]
    assert found.tokens[plain.argmin()] == found.tokens[score.argmax()] == "cat"


def test_01_compares_two_scores_and_exchanges_values():
    found = example.load()
    hungry, greedily = (found.tokens.index(word) for word in ("hungry", "greedily"))
    assert round(found.mha.steps(found.x).scores[0, 1, hungry, greedily].item(), 2) == 23.74
    (was, *guesses), (were, *others) = exchanged_guesses()
    assert (was, were) == ("was", "were")
    assert [guess.split()[0] for guess in (*guesses, *others)] == ["it", "they", "it", "they"]
    assert float(guesses[1].split()[1]) < 0.6
    assert float(others[1].split()[1]) > 0.9


def test_06_needs_head_1_alone():
    for _, _, *heads in rows_without_heads():
        chances = [float(cell.split()[-1]) for cell in heads]
        assert [chance < 0.9 for chance in chances] == [False, True, False, False]


def test_14_finds_other_colours_with_every_seed():
    runs = precomputed.load().vision.values()
    assert len({tuple(run["colours"]) for run in runs}) == len(runs)
    assert min(len(set(run["colours"])) for run in runs) == 1
    assert min(run["accuracy"] for run in runs) > 0.9
