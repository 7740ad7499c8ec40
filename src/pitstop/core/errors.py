"""Errors: the one exception that a user is meant to see."""


class PitstopError(Exception):
    """What happened, then what to do, in one line. Printed as ``pitstop: ...``, exit code 2."""
