"""Checks: one line per item of a machine, with what the findings say about it. Pure."""

from collections.abc import Iterator, Sequence

from pitstop.core.finding import Finding, Severity
from pitstop.core.machine import Gpu, Limits, Machine, Package
from pitstop.core.report import Check, Status
from pitstop.core.units import binary_bytes, rate
from pitstop.doctor.builds import arch_of, arch_span

STATUS: dict[Severity, Status] = {"error": "FAIL", "warning": "warn", "note": "ok"}
UNTESTED = "untested by Pitstop"

Item = tuple[Status, str, str]


def check_machine(machine: Machine, findings: Sequence[Finding]) -> tuple[Check, ...]:
    """A line for each item; an item with several findings has a line for each of them."""
    items = [*_system(machine), *_packages(machine), *_gpus(machine), *_limits(machine)]
    known = {item for _, item, _ in items}
    items += [
        ("ok", item, "") for item in dict.fromkeys(f.item for f in findings) if item not in known
    ]
    return tuple(check for item in items for check in _judged(item, findings))


def _judged(item: Item, findings: Sequence[Finding]) -> Iterator[Check]:
    status, name, value = item
    mine = [finding for finding in findings if finding.item == name]
    if not mine:
        yield Check(status, name, value)
    for finding in mine:
        message = finding.message.removeprefix(f"{name} ")
        yield Check(STATUS[finding.severity], name, message, finding.cure, finding.code)


def _system(machine: Machine) -> Iterator[Item]:
    words = [machine.system, machine.release, machine.architecture]
    container = ", in a container" if machine.container else ""
    yield "ok", "system", " ".join(word for word in words if word) + container
    cores = f"{machine.cores} usable cores" if machine.cores else ""
    yield "ok", "cpu", ", ".join(word for word in (machine.cpu, cores) if word) or "unknown"
    if machine.memory_bytes:
        yield "ok", "memory", binary_bytes(machine.memory_bytes)
    if machine.shared_memory_bytes is not None:
        yield "ok", "shared memory", _shared_memory(machine)
    yield "ok", "python", machine.python or "unknown"
    asked = "" if machine.workers is None else f", {machine.workers} asked for"
    yield "ok", "workers", f"start by {machine.start_method}{asked}"


def _shared_memory(machine: Machine) -> str:
    size = binary_bytes(machine.shared_memory_bytes or 0)
    if machine.shared_memory_free_bytes is None:
        return size
    return f"{size}, {binary_bytes(machine.shared_memory_free_bytes)} free"


def _packages(machine: Machine) -> Iterator[Item]:
    if machine.package("torch") is None:
        yield "n/a", "torch", "not installed"
    for package in machine.packages:
        status: Status = "n/a" if package.hip else "ok"
        yield status, package.name, describe(package)


def describe(package: Package) -> str:
    """Version and build of a package in one phrase."""
    parts = [package.version] if package.version else []
    if package.hip:
        parts.append(f"built for ROCm {package.hip}: {UNTESTED}")
    elif package.cuda:
        parts.append(f"CUDA {package.cuda}")
    elif package.name == "torch" and not package.error:
        parts.append("built for the CPU")
    if package.cudnn:
        parts.append(f"cuDNN {package.cudnn}")
    if archs := package.jit_archs or package.archs:
        parts.append(arch_span(archs))
    return ", ".join(parts) or "version unknown"


def _gpus(machine: Machine) -> Iterator[Item]:
    for index, gpu in enumerate(machine.gpus):
        yield "ok", f"gpu {index}", _gpu(gpu)
    if machine.gpus:
        return
    if machine.system == "Darwin" and machine.architecture == "arm64":
        yield "n/a", "gpu", f"Apple GPU (MPS): {UNTESTED}"
    else:
        yield (
            "n/a",
            "gpu",
            f"none found ({machine.gpu_error})" if machine.gpu_error else "none found",
        )


def _gpu(gpu: Gpu) -> str:
    name = f"{gpu.name or 'unknown'} ({arch_of(gpu.capability)})" if gpu.capability else gpu.name
    parts = [name]
    if gpu.memory_bytes:
        parts.append(binary_bytes(gpu.memory_bytes))
    if gpu.driver:
        parts.append(f"driver {gpu.driver}")
    if gpu.pcie_width and gpu.max_pcie_generation:
        parts.append(f"PCIe {gpu.max_pcie_generation}.0 x{gpu.pcie_width}")
    return ", ".join(parts)


def _limits(machine: Machine) -> Iterator[Item]:
    for limits in machine.limits:
        for name, value in _numbers(limits):
            yield "ok" if value else "n/a", f"{limits.device} {name}", value or "n/a"
    if machine.limits and not any(limits.device.startswith("cuda") for limits in machine.limits):
        for name, _ in _numbers(Limits("cuda")):
            yield "n/a", f"cuda {name}", "n/a"


def _numbers(limits: Limits) -> list[tuple[str, str]]:
    """Name and text of each limit that this kind of device can have; empty where unmeasured."""
    rows = [
        ("copy", _rate(limits.copy_bytes_per_s, "B/s")),
        ("fp32", _rate(limits.fp32_flops, "FLOP/s")),
        ("bf16", _rate(limits.bf16_flops, "FLOP/s")),
        ("fp16", _rate(limits.fp16_flops, "FLOP/s")),
        ("launch", "" if limits.launch_us is None else f"{limits.launch_us:.1f} µs"),
    ]
    if limits.device != "cpu":
        rows.insert(2, ("tf32", _rate(limits.tf32_flops, "FLOP/s")))
        rows.append(("from pinned memory", _rate(limits.pinned_bytes_per_s, "B/s")))
        rows.append(("from pageable memory", _rate(limits.pageable_bytes_per_s, "B/s")))
    return rows


def _rate(value: float | None, unit: str) -> str:
    return "" if value is None else rate(value, unit)
