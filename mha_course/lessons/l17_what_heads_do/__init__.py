"""Lesson 17, What heads do."""
