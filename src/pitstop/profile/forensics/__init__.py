"""Forensics: where the first number that is not finite came from."""
