"""Lesson 13, Encoder block."""
