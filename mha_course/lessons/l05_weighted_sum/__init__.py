"""Lesson 5, Weighted sum."""
