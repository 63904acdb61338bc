"""Lesson 19, Bug hunt."""
