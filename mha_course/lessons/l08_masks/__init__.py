"""Lesson 8, Masks."""
