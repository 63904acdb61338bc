"""Lesson 0, Start here."""
