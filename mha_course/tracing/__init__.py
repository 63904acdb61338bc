"""Trace any attention code: what every step does to shapes, axis names and memory."""

from mha_course.tracing.records import Argument, Operand, Source, Step
from mha_course.tracing.render import Comparison, Ledger, Trace
from mha_course.tracing.trace import trace

__all__ = ["Argument", "Comparison", "Ledger", "Operand", "Source", "Step", "Trace", "trace"]
