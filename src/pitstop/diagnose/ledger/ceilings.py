"""Ceilings: what was measured on the machine, where it contradicts what torch says of it."""

from dataclasses import replace

from pitstop.core.evidence import Evidence
from pitstop.core.machine import Machine

FASTER = 1.1  # bfloat16 over float32; less is lost in conversions


def by_the_ceilings(evidence: Evidence, machine: Machine) -> Evidence:
    """The evidence of a run on a device that has bfloat16 only where that was measured faster."""
    settings = evidence.settings
    limits = next((each for each in machine.limits if each.device == "cpu"), None)
    if settings is None or settings.device != "cpu" or limits is None:
        return evidence
    if not limits.bf16_flops or not limits.fp32_flops:
        return evidence
    native = limits.bf16_flops >= FASTER * limits.fp32_flops
    return replace(evidence, settings=replace(settings, bfloat16=native))
