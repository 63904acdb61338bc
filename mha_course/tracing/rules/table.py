"""The rule for each torch function by name, from the tables at the ends of these files."""

from __future__ import annotations

from mha_course.tracing.rules.contraction import CONTRACTIONS
from mha_course.tracing.rules.copies import COPIES
from mha_course.tracing.rules.creation import CREATION
from mha_course.tracing.rules.elementwise import ELEMENTWISE
from mha_course.tracing.rules.indexing import INDEXING, WRITES
from mha_course.tracing.rules.joins import JOINS
from mha_course.tracing.rules.kernels import KERNELS
from mha_course.tracing.rules.linear import LINEAR
from mha_course.tracing.rules.reductions import REDUCTIONS
from mha_course.tracing.rules.reshape import RESHAPES
from mha_course.tracing.rules.views import VIEWS

PRODUCTS = LINEAR | CONTRACTIONS | KERNELS
SHAPE_ONLY = RESHAPES | VIEWS | COPIES | INDEXING | JOINS
RULES = PRODUCTS | SHAPE_ONLY | ELEMENTWISE | REDUCTIONS | WRITES | CREATION
