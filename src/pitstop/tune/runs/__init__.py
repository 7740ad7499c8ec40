"""Runs: fresh processes of the script, for what cannot be switched, and for the proof."""
