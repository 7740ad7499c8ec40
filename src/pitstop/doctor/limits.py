"""Limits: the measured ceilings of this machine, kept in the user's cache folder.

Measured once per CPU, GPU, driver and torch build, in a child process with a time limit.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import psutil

from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.folders import cache_folder
from pitstop.core.machine import Limits, Machine
from pitstop.core.progress import working

MEASURE_SECONDS = 120.0  # a few are enough, but a cold torch on a network disk loads slowly
BUSY_SHARE = 0.5  # of the cores in use by others; what is measured beside them is too low
BUSY = "limits not kept: other programs use the CPU, so they may be low; --remeasure when idle"
MARK = "pitstop-limits:"


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of measuring: the limits, and in one line why some are missing or in doubt."""

    limits: tuple[Limits, ...] = ()
    doubt: str = ""


def with_limits(machine: Machine, remeasure: bool = False) -> tuple[Machine, tuple[str, ...]]:
    """The machine with its measured limits, and what to doubt about them."""
    with working("measuring what this machine can do"):
        measured = limits_of(machine, remeasure)
    doubts = (measured.doubt,) if measured.doubt else ()
    return replace(machine, limits=measured.limits), doubts


def limits_of(
    machine: Machine,
    remeasure: bool = False,
    measure: Callable[[], Measured] | None = None,
) -> Measured:
    """The machine's limits, from the cache where they were measured before."""
    torch = machine.package("torch")
    if torch is None:
        return Measured(doubt="limits: torch is not installed, so nothing was measured")
    if torch.error:
        return Measured(doubt="limits: torch cannot be imported, so nothing was measured")
    path = cache_path(machine)
    if not remeasure and (kept := _kept(path)):
        return Measured(kept)
    busy = others_busy(machine.cores)
    found = (measure or measure_in_child)()
    if busy and found.limits:
        return Measured(found.limits, found.doubt or BUSY)
    if found.limits and not found.doubt:
        keep(path, found.limits)
    return found


def cache_path(machine: Machine) -> Path:
    """Where the limits of this combination of devices, driver and torch build are kept."""
    torch = machine.package("torch")
    parts = [machine.cpu, str(machine.cores), torch.version if torch else "", store.SCHEMA]
    parts += [f"{gpu.name} {gpu.driver} {gpu.power_limit_watts}" for gpu in machine.gpus]
    parts.append(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    first = machine.gpus[0].name if machine.gpus else machine.cpu
    readable = re.sub(r"[^A-Za-z0-9]+", "-", first).strip("-")[:40] or "cpu"
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]
    return cache_folder() / "limits" / f"{readable}-{digest}.json"


def measure_in_child(limit_seconds: float = MEASURE_SECONDS) -> Measured:
    """Run ``pitstop.doctor.measure`` in a process of its own."""
    command = [sys.executable, "-P", "-m", "pitstop.doctor.measure"]
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            timeout=limit_seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Measured(doubt=f"limits: measuring did not finish in {limit_seconds:g} s")
    except OSError as error:
        return Measured(doubt=f"limits: could not start {sys.executable}: {error}")
    for line in reversed(child.stdout.decode(errors="replace").splitlines()):
        if line.startswith(MARK):
            return msgspec.json.decode(line.removeprefix(MARK), type=Measured)
    last = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
    why = last[0] if last else f"exit code {child.returncode}"
    return Measured(doubt=f"limits: measuring failed: {why}")


def others_busy(cores: int) -> bool:
    """Whether other programs use so much of the CPU that a measurement would mislead."""
    share_of_all = psutil.cpu_percent(interval=0.1) / 100
    return share_of_all * (os.cpu_count() or 1) > BUSY_SHARE * max(1, cores)


def _kept(path: Path) -> tuple[Limits, ...]:
    try:
        return store.load(path, Machine).limits if path.exists() else ()
    except PitstopError:  # cut short or not ours: measure again
        return ()


def keep(path: Path, limits: tuple[Limits, ...]) -> None:
    """Remember limits for the next time."""
    try:
        store.save(path, Machine(limits=limits))
    except PitstopError:
        return  # a cache that cannot be written only costs the next run a few seconds
