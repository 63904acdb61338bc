"""Lesson 9, Cross-attention."""
