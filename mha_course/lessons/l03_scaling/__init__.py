"""Lesson 3, Scores and scaling."""
