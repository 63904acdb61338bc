"""Step through a trace: shapes, axis names, memory."""
