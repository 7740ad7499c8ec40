"""Errors: the one exception that a user is meant to see."""

from pitstop.core.printable import printable
from pitstop.core.secrets import masked_text


class PitstopError(Exception):
    """What happened, then what to do, in one line. Printed as ``pitstop: ...``, exit code 2.

    ``below`` are lines to quote under it, such as the last words of a script.
    """

    def __init__(self, message: str, *below: str) -> None:
        super().__init__(message, *below)

    def __str__(self) -> str:
        message, *below = (printable(masked_text(str(each))) for each in self.args)
        return "\n  ".join([message, *below])
