"""Attention as people write it: RIGHT and WRONG, each a list of Case (see attention_corpus_base).

The tracer is judged against it: ``Case.expect`` names the axes of variables, ``Case.storage`` what
the last call of a line does, ``Case.outcome`` the warnings. A right case must be free of warnings
at all SIZES.
"""

from __future__ import annotations

# Each enters its cases into RIGHT.
import attention_corpus_layouts  # noqa: F401
import attention_corpus_scores  # noqa: F401
from attention_corpus_base import SIZES, Case
from attention_corpus_right import RIGHT
from attention_corpus_wrong import WRONG

__all__ = ["RIGHT", "SIZES", "WRONG", "Case"]
