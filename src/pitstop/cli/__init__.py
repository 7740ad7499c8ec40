"""The command line: one file per command; arguments in, exit code out; no thinking here."""
