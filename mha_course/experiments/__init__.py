"""Measurements: one module, named after it, for each thing that lessons measure."""
