"""Told: a diagnosed recording as a Report, with its tables, places and lines of source."""
