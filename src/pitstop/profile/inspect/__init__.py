"""Inspect: every operation of a few steps, who called it, and what depends on it."""
