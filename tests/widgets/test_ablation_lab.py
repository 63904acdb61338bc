"""AblationLab guesses what the ablated model guesses."""

import pytest

from mha_course import example
from mha_course.datasets.grammar import vocabulary
from mha_course.errors import ShapeError
from mha_course.experiments import head_analysis
from mha_course.widgets import AblationLab
from mha_course.widgets.labs.ablation import LEAST, SENTENCES


@pytest.mark.parametrize(
    ("layer", "off", "label"),
    [
        (None, [], "all heads on"),
        (None, [(0, 3), (1, 1)], "without 2 heads"),
        (1, [(1, 1)], "without head 1"),
    ],
)
def test_the_lab_says_what_the_ablated_model_guesses(layer, off, label):
    model, lab = example.trained_model(), AblationLab(layer=layer)
    verb = "ablate L1 H1" if layer is None else "switch off head 1"
    assert verb in {control["label"] for control in lab.options["controls"]}
    lab.set(**{f"l{at}_h{head}": True for at, head in off})
    (panel,) = lab.state["panels"]
    assert label in panel["title"]
    changed = 0
    for sentence, row in zip(SENTENCES, panel["rows"], strict=True):
        full = guesses(model, sentence)
        chances = guesses(head_analysis.ablate_heads(model, off), sentence)
        best, now = (max(words, key=words.get) for words in (full, chances))
        shown = {part["name"].strip("“”"): part["value"] for part in row["parts"]}
        assert next(iter(shown)) == best
        assert shown.pop("others") == pytest.approx(1 - sum(shown.values()), abs=1e-2)
        assert shown == pytest.approx({word: chances[word] for word in shown}, abs=1e-3)
        assert {word for word, chance in chances.items() if chance >= LEAST} <= shown.keys()
        assert row["mark"] == pytest.approx(full[best], abs=1e-3)
        assert f"“{now}” {chances[now]:.2f}" in lab.text
        changed += now != best
    assert not off or lab.text.endswith(f"; {changed} of {len(SENTENCES)} guesses change.")


def guesses(model, sentence):
    """Return the probability of every word at the mask, from the model's own forward."""
    ids, _ = example.encode([sentence.split()])
    probabilities = model(ids)[0, sentence.split().index("<mask>")].softmax(-1)
    return dict(zip(vocabulary(), probabilities.tolist(), strict=True))


REFUSED = {
    "there is no such layer. expected 0 to 1, got 2": lambda: AblationLab(layer=2),
    "must be hidden. expected one <mask>, got 0 in 'the cat'": lambda: AblationLab(("the cat",)),
    "must be hidden. expected one <mask>, got 2": lambda: AblationLab(("the <mask> <mask>",)),
    "ablated must name heads. expected L0 H0, ": lambda: AblationLab(ablated=["L2 H0"]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused(message):
    with pytest.raises(ShapeError, match=message):
        REFUSED[message]()
