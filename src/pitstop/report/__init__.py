"""Renderers: one file per output format, each ``render(report) -> str``; they only format."""
