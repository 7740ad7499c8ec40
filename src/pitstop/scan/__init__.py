"""Scan: read a project's source, run static rules over it, and fix what can be fixed."""
