"""Trace any attention code: what every step does to shapes, to the names of axes and to memory."""

from mha_course.tracing.compare import Comparison, Ledger
from mha_course.tracing.records import Argument, Operand, Source, Step
from mha_course.tracing.trace import Trace, trace

__all__ = ["Argument", "Comparison", "Ledger", "Operand", "Source", "Step", "Trace", "trace"]
