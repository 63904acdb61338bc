"""Step through a trace: shapes, names of axes, memory."""

from mha_course.widgets.shape_tracer.widget import ShapeTracer

__all__ = ["ShapeTracer"]
