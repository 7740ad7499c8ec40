"""PIT008 gpu-throttled."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Gpu, Machine
from pitstop.core.rule import rule

TOO_HOT = ("hw-thermal-slowdown", "sw-thermal-slowdown")
TOO_LITTLE_POWER = ("hw-power-brake-slowdown", "hw-slowdown")
CLOCK_SETTING = "applications-clocks-setting"  # some data-centre GPUs are delivered so: a note
LOWERED = 0.98  # of the default power limit; drivers round the limit by a watt or two


@rule("PIT008")
def gpu_throttled(machine: Machine) -> Iterator[Finding]:
    """The GPU runs below what it can do: heat, power, locked clocks or a narrow PCIe link.

    A hot or underpowered GPU lowers its clocks, and every measurement made on it drifts. A
    link of 8 lanes where 16 fit halves the rate of copies from the host. The PCIe generation
    is not judged: an idle GPU lowers it to save power.

    Bad:
        Machine(gpus=(Gpu("RTX 3090", "8.6", pcie_width=4, max_pcie_width=16),))

    Good:
        Machine(gpus=(Gpu("RTX 3090", "8.6", pcie_width=16, max_pcie_width=16),))
    """
    for index, gpu in enumerate(machine.gpus):
        yield from _causes(f"gpu {index}", index, gpu)


def _causes(item: str, index: int, gpu: Gpu) -> Iterator[Finding]:
    reasons, nvidia_smi = set(gpu.throttle_reasons), f"sudo nvidia-smi -i {index}"
    limit, default = gpu.power_limit_watts, gpu.default_power_limit_watts
    if reasons.intersection(TOO_HOT):
        at = "" if gpu.temperature_celsius is None else f" at {gpu.temperature_celsius} °C"
        cure = "clean the fans, free the airflow"
        yield Finding(f"clocks are lowered by heat{at}", item=item, cure=cure)
    elif reasons.intersection(TOO_LITTLE_POWER):
        cure = "check the power cables and supply"
        yield Finding("clocks are lowered by the power supply", item=item, cure=cure)
    if limit and default and limit < LOWERED * default:
        message = f"power limit is {limit:.0f} W, its default {default:.0f} W"
        yield Finding(message, item=item, cure=f"{nvidia_smi} -pl {default:.0f}")
    if CLOCK_SETTING in reasons:
        cure = f"{nvidia_smi} -rac && {nvidia_smi} -rgc"
        yield Finding("a setting caps its clocks", item=item, cure=cure, severity="note")
    if gpu.pcie_width and gpu.max_pcie_width and gpu.pcie_width < gpu.max_pcie_width:
        message = f"PCIe link has {gpu.pcie_width} of {gpu.max_pcie_width} lanes"
        cure = "reseat the card, or move it to a full x16 slot"
        yield Finding(message, item=item, cure=cure)
