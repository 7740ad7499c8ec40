"""The operating system's side of a machine: CPU, memory, shared memory, start method.

Every reader answers on Linux, Windows and macOS, inside a container or not, and gives
"unknown" (empty, zero or None) rather than an exception.
"""

import math
import multiprocessing
import os
import platform
import shutil
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 where Linux keeps it, not a temporary file of ours
CGROUPS = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 2**60  # cgroup v1 writes "no limit" as a number near 2**63


def cpu_name() -> str:
    """The processor's marketing name where the system tells it, else its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores this process may use: its affinity, cut down to the container's CPU quota."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    quotas = [quota for folder in cgroup_folders(CGROUPS) if (quota := cpu_quota(folder))]
    return min([cores, *(max(1, math.ceil(quota)) for quota in quotas)])


def cpu_quota(cgroups: Path) -> float | None:
    """CPUs' worth of time the container grants, from cgroup v2 or v1; None for no limit."""
    match read_words(cgroups / "cpu.max"):
        case [quota, period] if quota != "max":
            return _ratio(quota, period)
    match (
        read_words(cgroups / "cpu/cpu.cfs_quota_us"),
        read_words(cgroups / "cpu/cpu.cfs_period_us"),
    ):
        case ([quota], [period]):
            return _ratio(quota, period)
    return None


def usable_memory() -> int:
    """Bytes of memory this process may use: the machine's, cut down to the container's limit."""
    total = int(psutil.virtual_memory().total)
    limits = [limit for folder in cgroup_folders(CGROUPS) if (limit := memory_limit(folder))]
    return min([total, *limits])


def cgroup_folders(cgroups: Path) -> list[Path]:
    """The control group of this process and those around it: a batch system limits an outer one."""
    folders = [cgroups]
    for line in read_words(Path("/proc/self/cgroup")):
        if line.startswith("0::/"):
            for part in Path(line[4:]).parts:
                folders.append(folders[-1] / part)
    return folders


def memory_limit(cgroups: Path) -> int | None:
    """The container's memory limit in bytes, from cgroup v2 or v1; None for no limit."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        words = read_words(cgroups / name)
        if words and words[0].isdigit() and 0 < int(words[0]) < UNLIMITED_BYTES:
            return int(words[0])
    return None


def shared_memory() -> tuple[int | None, int | None]:
    """Size and free bytes of /dev/shm; None where the system has no such folder."""
    if platform.system() != "Linux":
        return None, None
    try:
        usage = shutil.disk_usage(SHARED_MEMORY)
    except OSError:
        return None, None
    return usage.total, usage.free


def start_method() -> str:
    """How this Python starts worker processes unless told otherwise."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or multiprocessing.get_all_start_methods()[0]  # the first is the default


def in_container() -> bool:
    """Whether Docker, Podman or Kubernetes started us."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"))
    return any(mark.exists() for mark in marks) or "KUBERNETES_SERVICE_HOST" in os.environ


def read_words(path: Path) -> list[str]:
    """The words of a small file; none where it cannot be read."""
    try:
        return path.read_text().split()
    except (OSError, UnicodeDecodeError):
        return []


def _ratio(quota: str, period: str) -> float | None:
    try:
        return int(quota) / int(period) if int(quota) > 0 else None
    except (ValueError, ZeroDivisionError):
        return None
