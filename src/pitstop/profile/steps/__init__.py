"""Steps: what ends one, counted while the script runs, and found again in a recording."""
