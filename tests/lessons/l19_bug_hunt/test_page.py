"""What lesson 19 says of single cases."""

from mha_course.lessons.l19_bug_hunt import probes
from mha_course.lessons.l19_bug_hunt.hunt import case
from mha_course.tracing import trace


def test_the_tracer_warns_of_case_7():
    module = case(7).module
    found = trace(module, probes.tokens(module), axes="B S C", sizes={"H": 4, "G": 2})
    assert any(step.warning for step in found.steps)
