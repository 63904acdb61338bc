"""What the kernel is asked to allow, for every version of Landlock."""

import os
import struct

import pytest

from mha_course.cli import confine


@pytest.mark.parametrize("version", range(1, 8))
def test_no_rule_allows_what_the_kernel_does_not_know(version, tmp_path, monkeypatch):
    handled, rules = [], []

    def call(what, function, number, *arguments):
        if number == confine.LANDLOCK_CREATE_RULESET:
            if arguments[0] is None:
                return version
            handled.append(struct.unpack_from("Q", arguments[0])[0])
            return os.open(tmp_path, os.O_RDONLY)  # which is closed in the end
        if number == confine.LANDLOCK_ADD_RULE:
            rules.append(struct.unpack("=Qi", arguments[2])[0])
        return 0

    monkeypatch.setattr(confine, "_call", call)
    confine._restrict_files(tmp_path)
    assert len(rules) > 3
    assert handled[0].bit_length() == {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    assert not any(rule & ~handled[0] for rule in rules)  # EINVAL otherwise
    assert any(rule & confine.TRUNCATE for rule in rules) == (version >= 3)
