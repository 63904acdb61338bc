"""Lesson 15, Language model."""
