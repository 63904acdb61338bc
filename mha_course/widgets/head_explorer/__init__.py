"""All heads of a model, one of them large, recomputed while a control moves."""

from mha_course.widgets.head_explorer.widget import HeadExplorer

__all__ = ["HeadExplorer"]
