"""Lesson 18, Real models."""
