"""Is B better than A? Better, worse, same or inconclusive, and a gate for CI.

``record`` runs a command once, out of sight. ``pairs`` runs two of anything in adjacent pairs and
decides when enough is known. ``quantities`` are what is read off each run, ``drift`` is how far
the losses part, ``differences`` are what else is not equal. ``judge`` puts these together,
``gates`` holds limits against the result, ``summary`` says it as a Report.
"""
