"""Lesson 6, Concatenation."""
