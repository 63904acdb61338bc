"""Lesson 14, Vision."""
