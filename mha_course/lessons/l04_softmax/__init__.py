"""Lesson 4, Softmax."""
