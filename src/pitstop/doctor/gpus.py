"""The NVIDIA GPUs of this machine, asked of the driver through NVML: no torch, no CUDA context."""

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml

from pitstop.core.machine import Gpu

Answer = TypeVar("Answer")

# NVML's bits for why the clocks are lower than they could be; "idle" is left out: it is normal.
THROTTLE_BITS = {
    0x2: "applications-clocks-setting",
    0x4: "sw-power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal-slowdown",
    0x40: "hw-thermal-slowdown",
    0x80: "hw-power-brake-slowdown",
    0x100: "display-clock-setting",
}


def read_gpus() -> tuple[tuple[Gpu, ...], str]:
    """Every GPU, and why there are none where a driver is installed but does not answer."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        absent = getattr(error, "value", None) == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        return (), "" if absent else str(error)
    try:
        count = pynvml.nvmlDeviceGetCount()
        return tuple(_read_gpu(index) for index in range(count)), ""
    except pynvml.NVMLError as error:
        return (), str(error)
    finally:
        pynvml.nvmlShutdown()


def _read_gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return Gpu(
        name=_text(_ask(pynvml.nvmlDeviceGetName, handle)),
        capability=f"{capability[0]}.{capability[1]}" if capability else "",
        memory_bytes=int(memory.total) if memory else 0,
        driver=_text(_ask(pynvml.nvmlSystemGetDriverVersion)),
        driver_cuda=_cuda_version(_ask(pynvml.nvmlSystemGetCudaDriverVersion)),
        sm_clock_mhz=_ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        max_sm_clock_mhz=_ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        power_watts=_watts(_ask(pynvml.nvmlDeviceGetPowerUsage, handle)),
        power_limit_watts=_watts(_ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle)),
        default_power_limit_watts=_watts(
            _ask(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
        ),
        temperature_celsius=_ask(
            pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU
        ),
        throttle_reasons=throttle_reasons(
            _ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
        ),
        pcie_generation=_ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        max_pcie_generation=_ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        pcie_width=_ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        max_pcie_width=_ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
    )


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """NVML's bit mask as words, without the bit that says the GPU is idle."""
    return tuple(word for bit, word in THROTTLE_BITS.items() if bits & bit)


def _ask(question: Callable[..., Answer], *arguments: Any) -> Answer | None:
    """The driver's answer; None where this GPU or driver does not support the question."""
    try:
        return question(*arguments)
    except (pynvml.NVMLError, AttributeError):  # an old driver lacks the symbol
        return None


def _text(answer: str | bytes | None) -> str:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer or ""


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _cuda_version(number: int | None) -> str:
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""
