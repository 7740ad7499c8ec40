"""Last row: one line at the bottom of a terminal that another program prints to meanwhile.

The terminal itself keeps the row free: it scrolls only the rows above (DECSTBM, as ``apt`` does for
its progress). Whatever prints there, progress bars too, keeps its cursor, and notices nothing. Each
change is one write, which no other program's write can come into.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

FEWEST_ROWS = 5  # of a terminal; where there are fewer, all of them are the program's
SAVE, RESTORE = "\x1b7", "\x1b8"  # the cursor, with its colours
MAKE_ROOM = "\x1bD\x1b[1A"  # one row down, which scrolls where it must, and back up
ALL_ROWS, CLEAR, DIM, PLAIN = "\x1b[r", "\x1b[2K", "\x1b[2m", "\x1b[0m"
STOP = getattr(signal, "SIGTSTP", None)  # Ctrl-Z; not on Windows


class LastRow:
    """Shows itself at the first ``show``; where stderr is no terminal, nothing is shown."""

    def __init__(self) -> None:
        self._file = _terminal()
        self._size: os.terminal_size | None = None  # that the row was made for

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal for it."""
        return self._file >= 0

    def __enter__(self) -> "LastRow":
        if self.is_there and STOP is not None and signal.getsignal(STOP) is signal.SIG_DFL:
            signal.signal(STOP, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self.is_there and STOP is not None and signal.getsignal(STOP) == self._stop:
            signal.signal(STOP, signal.SIG_DFL)

    def show(self, text: str) -> None:
        """Write the row anew; in the background, where the terminal is another's, nothing."""
        with suppress(OSError):
            if not self.is_there or os.tcgetpgrp(self._file) != os.getpgrp():
                return
            size = os.get_terminal_size(self._file)
            if size.lines < FEWEST_ROWS:
                return
            begin = "" if size == self._size else _kept_free(size.lines)
            self._size = size
            row = f"\x1b[{size.lines};1H{CLEAR}{DIM}{text[: size.columns - 1]}{PLAIN}"
            self._write(begin + SAVE + row + RESTORE)

    def close(self) -> None:
        """Give the row back."""
        if self._size is not None:
            with suppress(OSError):
                row = f"\x1b[{self._size.lines};1H{CLEAR}"
                self._write(SAVE + ALL_ROWS + row + RESTORE)
            self._size = None

    def _write(self, text: str) -> None:
        os.write(self._file, text.encode(sys.stderr.encoding, "replace"))

    def _stop(self, number: int, _: FrameType | None) -> None:
        """Ctrl-Z: the shell gets the whole terminal; the row comes back with the next ``show``."""
        self.close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._stop)


def _kept_free(rows: int) -> str:
    """Let the terminal scroll all rows but the last, and keep the cursor where it is."""
    return f"{MAKE_ROOM}{SAVE}\x1b[1;{rows - 1}r{RESTORE}"


def _terminal() -> int:
    """The file of stderr, where that is a terminal that knows the sequences; else -1."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return -1
    with suppress(OSError, ValueError):
        return sys.stderr.fileno() if sys.stderr.isatty() else -1
    return -1
