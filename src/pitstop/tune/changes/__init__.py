"""Changes that can be tried on a script from outside, one per file."""
