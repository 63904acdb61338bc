"""Lesson 16, Why many heads."""
