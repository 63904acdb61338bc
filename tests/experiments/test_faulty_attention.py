"""The attention of the bug hunt and the broken modules of lesson 7: what an edit replaces."""

import ast
import inspect
import textwrap

import pytest

from mha_course.experiments.faulty_attention import (
    MADE,
    PAIRS,
    CausalAttention,
    compiled,
    diff,
    edits_of,
    methods,
)
from mha_course.lessons.l07_multi_head_attention.broken import CASES

EDITS = [
    *((CausalAttention, edit) for edits in MADE.values() for edit in edits),
    *((case.reference, case.edit) for case in CASES.values()),
]


@pytest.mark.parametrize(("reference", "edit"), EDITS, ids=str)
def test_what_an_edit_replaces_occurs_once_in_its_method_and_the_module_compiles(reference, edit):
    source, edited = edit.of(reference)
    assert source.count(edit.right.replace("\n", "\n        ")) == 1
    assert ast.dump(ast.parse(textwrap.dedent(source))) != ast.dump(
        ast.parse(textwrap.dedent(edited))
    )
    broken = compiled(reference, edit)
    code = getattr(broken, edit.method).__code__
    assert (broken.__name__, code.co_qualname) == ("Attention", f"Attention.{edit.method}")
    assert inspect.getsource(code) == edited


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_two_mistakes_replace_two_methods(names):
    assert len({*methods(*names)}) == 2


def test_a_diff_has_the_right_line_and_the_wrong_one():
    assert diff(CausalAttention, *edits_of("scale-no-root", "dropout-at-eval")) == (
        "  def score(self, q: Tensor, k: Tensor) -> Tensor:\n"
        "-     return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, S)\n"
        "+     return q @ k.transpose(-2, -1) / q.size(-1)  # (B, H, T, S)\n"
        "  def attend(self, scores: Tensor, visible: Tensor) -> Tensor:\n"
        "      weights = masked_softmax(scores, visible)  # (B, H, T, S)\n"
        "-     return F.dropout(weights, 0.1, self.training)\n"
        "+     return F.dropout(weights, 0.1)"
    )
