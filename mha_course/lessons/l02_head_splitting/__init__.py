"""Lesson 2, Head splitting."""
