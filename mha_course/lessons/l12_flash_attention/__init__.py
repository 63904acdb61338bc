"""Lesson 12, FlashAttention."""
