"""Torn: how a log says that it is damaged or not finished, after all that could be read."""


class TornError(Exception):
    """What is wrong, and where; the points before it are good."""
