"""What lesson 19 says of single cases."""

from mha_course.experiments import faulty_attention
from mha_course.experiments.leakage import find_leaks
from mha_course.lessons.l19_bug_hunt import costs, pictures, probes
from mha_course.lessons.l19_bug_hunt.hunt import case, sheet
from mha_course.tracing import trace


def test_case_1_takes_weights_away_after_the_softmax():
    best, found = costs.load()["right"], case(1).record
    assert max(found.at_once) < max(best.at_once) / 2
    assert min(found.in_use) > 2 * max(best.in_use)
    suspect = case(1).module
    tokens = probes.tokens(suspect)
    assert find_leaks(suspect, tokens).triu(1).sum() == 21
    same = tokens[:, :1].expand_as(tokens)
    assert (suspect(same)[:, -1] - suspect(same[:, :1])[:, 0]).abs().max() < 1e-9
    for name, differ in (
        ("mask-after-softmax", 6),
        ("causal-missing", 0),
        ("softmax-over-queries", 7),
    ):
        other = faulty_attention.faulty(name)(*case(1).sizes).double().eval()
        assert probes.alike(other).value == differ


def test_the_tracer_warns_of_case_7():
    module = case(7).module
    found = trace(module, probes.tokens(module), axes="B S C", sizes={"H": 4, "G": 2})
    assert any(step.warning for step in found.steps)


def test_what_the_cases_cost(monkeypatch):
    shown = []
    monkeypatch.setattr(pictures, "show", lambda picture, caption: shown.append(caption))
    records = {f"case {one.number}": one.record for one in sheet()}
    best = costs.load()["right"]
    pictures.show_costs({"right": best} | records)
    in_use, loaded = shown[0].split("word by word ")[1].split("; with the right parameters ")
    assert "case 4 and case 8 give no number" in in_use
    assert {"case 6", "case 11"} < set(in_use.split(", of which")[0].split(", ")) - set(
        loaded.rstrip(".").split(", ")
    )
    assert "case 3" in loaded
    assert "case 3" not in in_use
    assert 1.02 < max(best.at_once) / min(best.at_once) < 1.04
    for number in (1, 7):
        assert max(records[f"case {number}"].at_once) < 0.55 * min(best.at_once)
    assert (costs.STEPS, costs.PREFIX, len(costs.fresh()), len(costs.SEEDS)) == (300, 5, 500, 3)
    assert len(probes.PROBES) == 18
