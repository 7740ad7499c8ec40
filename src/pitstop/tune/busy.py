"""Busy: whether others use the machine while we measure on it."""

import os

import psutil

LOAD = 0.5  # of the cores: what waits or runs beside us then takes turns with our own threads


def busy() -> str:
    """A line for the user where other programs will blur what is measured; else empty."""
    cores = os.cpu_count() or 1
    load = psutil.getloadavg()[0]
    if load < LOAD * cores:
        return ""
    return (
        f"this machine is busy (load {load:.1f}, cores {cores}): all of this takes longer, and "
        "small gains may drown in noise"
    )
