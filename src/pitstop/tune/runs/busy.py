"""Busy: whether others use the machine while we measure on it."""

import os

import psutil

from pitstop.core.machine import BUSY

LISTEN_S = 0.5


def busy() -> str:
    """A line for the user where other programs will blur what is measured; else empty.

    The load average would also tell of what has just ended, such as the installation of Pitstop.
    """
    cores = os.cpu_count() or 1
    share = psutil.cpu_percent(LISTEN_S) / 100
    if share < BUSY:
        return ""
    return (
        f"this machine is busy (others use {share * cores:.1f} of {cores} cores): all of this "
        "takes longer, and small gains may drown in noise"
    )
