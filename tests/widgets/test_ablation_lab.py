"""AblationLab guesses what the ablated model guesses."""

import re

import pytest

from mha_course import example
from mha_course.datasets.grammar import vocabulary
from mha_course.errors import ShapeError
from mha_course.experiments import head_analysis
from mha_course.widgets import AblationLab
from mha_course.widgets.labs.ablation import LEAST, SENTENCES


@pytest.mark.parametrize("layer", [None, 1])
def test_the_lab_says_what_the_ablated_model_guesses(layer):
    model = example.trained_model()
    lab, who = AblationLab(layer=layer), "L1 H1" if layer is None else "head 1"
    label = "ablate L1 H1" if layer is None else "switch off head 1"
    assert label in {control["label"] for control in lab.options["controls"]}
    models = {"all heads on": model, f"without {who}": head_analysis.ablate_heads(model, [(1, 1)])}
    first = [
        max(found, key=found.get)
        for found in (dict(example_guess(model, one)) for one in SENTENCES)
    ]
    for ablated, (title, its) in zip((False, True), models.items(), strict=True):
        lab.set(l1_h1=ablated)
        (panel,) = lab.state["panels"]
        assert title in panel["title"]
        changed = 0
        for sentence, best, row in zip(SENTENCES, first, panel["rows"], strict=True):
            chances = dict(example_guess(its, sentence))
            now, (*words, rest) = max(chances, key=chances.get), row["parts"]
            assert words[0]["name"] == f"“{best}”"
            assert [part["value"] for part in words] == pytest.approx(
                [chances[w["name"][1:-1]] for w in words], abs=1e-3
            )
            assert {word for word, chance in chances.items() if chance >= LEAST} <= {
                word["name"][1:-1] for word in words
            }
            assert sum(part["value"] for part in row["parts"]) == pytest.approx(1, abs=1e-3)
            assert rest["name"] == "others"
            assert row["mark"] == pytest.approx(
                dict(example_guess(model, sentence))[best], abs=1e-3
            )
            assert f"“{now}” {chances[now]:.2f}" in lab.text
            changed += now != best
        assert not ablated or lab.text.endswith(f"; {changed} of {len(SENTENCES)} guesses change.")


def test_head_1_alone_knows_who_was_hungry():
    """As in lesson 0: without it the model follows the verb, with it alone the meaning."""
    chased, because = (
        "the {} that chased the {} were hungry , so <mask> ate greedily",
        "the {} {} the {} because <mask> were hungry",
    )
    cat, dogs = "grey cat", "loud dogs"
    texts = [chased.format(cat, dogs), chased.format(dogs, cat)]
    texts += [because.format(cat, verb, dogs) for verb in ("begged", "pitied")]
    lab = AblationLab(texts, layer=1)
    assert re.findall("“(.+?)”", lab.text) == ["it", "they", "it", "they"]
    for head in (0, 2, 3):
        lab.set(l1_h1=False, **{f"l1_h{head}": True})
        assert lab.text.endswith("; 0 of 4 guesses change.")
        lab.set(**{f"l1_h{head}": False})
    lab.set(l1_h1=True)
    assert re.findall("“(.+?)”", lab.text) == ["they"] * 4
    lab.set(l1_h0=True, l1_h1=False, l1_h2=True, l1_h3=True)
    assert re.findall("“(.+?)”", lab.text) == ["it", "they", "it", "they"]
    with pytest.raises(ShapeError, match=r"there is no such layer. expected 0 to 1, got 2"):
        AblationLab(layer=2)


def example_guess(model, sentence):
    """Return every word with its probability, computed with the model's own forward."""
    ids, _ = example.encode([sentence.split()])
    place = sentence.split().index("<mask>")
    probabilities = model(ids)[0, place].softmax(-1).tolist()
    return zip(vocabulary(), probabilities, strict=True)


def test_the_lab_starts_with_the_heads_ablated_that_it_is_told():
    first, moved = AblationLab(ablated=["L1 H1"]), AblationLab()
    assert first.text != moved.text
    moved.set(l1_h1=True)
    assert first.text == moved.text
    for sentence, count in (("the cat", 0), ("the <mask> <mask>", 2)):
        with pytest.raises(
            ShapeError, match=f"must be hidden. expected one <mask>, got {count} in '{sentence}'"
        ):
            AblationLab((sentence,))
    with pytest.raises(
        ShapeError, match=r"ablated must name heads. expected L0 H0, .* got \['L2 H0'\]"
    ):
        AblationLab(ablated=["L2 H0"])
