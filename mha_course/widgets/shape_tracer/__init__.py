"""Step through a trace: shapes, names of axes, memory."""
