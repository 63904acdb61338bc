"""Wrong relatives of every reference: none passes."""

import random

import pytest
import solutions
import torch
from relatives import FAMILIES, all_relatives

from mha_course.exercises import NAMES, check, recognise
from mha_course.exercises.catalogue import EXERCISES

# Relatives that no legal input tells from right, and why.
EQUAL = """
no size of three widths is 1
    project_qkv one in place of 72; split_fused_qkv one in place of 72
    fused_mha one in place of 72; gpt2_qkv one in place of 72
a width that is cut in pairs is even
    rope one in place of 6; rope parity 1 of 6
    to_half_split one in place of 24; to_half_split parity 1 of 24
images have three channels
    patchify at most 3; patchify only 3; patchify one in place of 3; patchify parity 0 of 3
one token has nothing before or behind it
    combine_masks 2 axes, False; next_token_targets one in place of 7
no tensor goes in, or none with a gradient
    build_subtractor results; build_subtractor no_grad; build_subtractor numpy
    additive_mask results; additive_mask no_grad; additive_mask numpy
    sinusoidal_encoding results; sinusoidal_encoding no_grad; sinusoidal_encoding numpy
the number of heads plays no part
    parameter_count argument 1
longer values have the same null space
    other_weights data 1
there are more tokens than numbers in a value
    other_weights one in place of 11
"""
EQUALS = {
    relative
    for line in EQUAL.splitlines()
    if line.startswith(" ")
    for relative in line.strip().split("; ")
}


@pytest.fixture(autouse=True)
def one_mistake_at_a_time(monkeypatch):
    """Try no pairs of mistakes: that takes longer than to find an answer wrong."""
    monkeypatch.setattr(recognise, "MAX_PAIRS", 0)


def verdict(name, family, label, answer):
    """Return what is wrong with the verdict on a relative."""
    report = check(name, answer, record=False)
    right = (report.status == "correct") == (f"{name} {label}" in EQUALS)
    by_gradient = family in ("detached", "parameters") and report.status != "correct"
    if right and (report.mistake == "no-gradient" or not by_gradient):
        return ""
    return f"{family}, {label}: {report}"


@pytest.mark.parametrize("name", NAMES)
def test_one_relative_of_each_family_is_refused(name):
    picks = random.Random(name)
    for family in FAMILIES:
        relatives = [*all_relatives(EXERCISES[name], [family])]
        if relatives:
            assert not verdict(name, *picks.choice(relatives))


@pytest.mark.weekly
@pytest.mark.parametrize("name", NAMES)
def test_every_relative_is_refused(name):
    found = [verdict(name, *relative) for relative in all_relatives(EXERCISES[name])]
    assert not list(filter(None, found))


class Unfriendly:
    def __getattribute__(self, name):
        raise ValueError(name)


class UnfriendlyInt(int):
    def __repr__(self):
        raise ValueError

    __str__ = __repr__


HOSTILE = {
    "meta": lambda: torch.ones(7, 7, device="meta"),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(7, 7), 0.1, 0, torch.quint8),
    "float8": lambda: torch.ones(7, 7).to(torch.float8_e4m3fn),
    "object": Unfriendly,
    "int": lambda: UnfriendlyInt(3),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", ["attend", "parameter_count", "causal_mask"])
@pytest.mark.filterwarnings("ignore")  # torch warns of what it will drop
def test_no_result_makes_check_raise(name, kind):
    result = HOSTILE[kind]()
    report = check(name, lambda *_: result, record=False)
    assert report.status in ("wrong", "error")
    assert report.message
    assert check("attend", solutions.attend, record=False).status == "correct"


def test_no_answer_makes_check_raise():
    for answer in (Unfriendly(), [Unfriendly()]):
        assert check("attend", answer, record=False).status in ("wrong", "error")
