"""Lesson 7, Multi-head attention."""
