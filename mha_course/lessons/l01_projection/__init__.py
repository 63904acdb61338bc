"""Lesson 1, Projection."""
