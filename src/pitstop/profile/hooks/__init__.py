"""Hooks: what is put around torch while a script is recorded, and taken away again."""
