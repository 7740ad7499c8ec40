"""Rules about a recorded run, one per file."""
