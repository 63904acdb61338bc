"""Pictures that answer to controls, each with a static twin that needs no kernel."""

from mha_course.widgets.panel import Panel

__all__ = ["Panel"]
