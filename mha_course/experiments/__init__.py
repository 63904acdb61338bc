"""Measurements: one module for each thing that a lesson measures, named by it."""
