"""Lesson 10, Positions."""
