"""Lesson 11, KV cache and fewer KV heads."""
