"""Change `fused-optimizer`."""

import inspect
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pitstop.core.evidence import Evidence
from pitstop.core.fusing import FUSABLE
from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import LITTLE

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

FUSED = (*FUSABLE, "Adagrad")
CHOICES = ("fused", "foreach", "capturable", "differentiable")


def useless(evidence: Evidence) -> str:
    """Whether all optimizers are fused as they are, or take next to nothing on host and GPU."""
    known = evidence.optimizers
    if known and all(each.fused for each in known):
        return "the optimizer is fused"
    kernels = (each for each in evidence.operations if each.phase == "optimizer")
    device_ms = sum(each.device_micros or 0.0 for each in kernels) / 1e3
    if max(device_ms, evidence.median_ms("optimizer_ms")) < LITTLE * evidence.median_ms():
        return "the optimizer takes next to nothing"
    return ""


@change("rounding", toggles=True, when=When(work="training", useless=useless, usual=0.05))
def fused_optimizer(script: "Script") -> None:
    """Update all weights in one kernel (fused), or in a few (foreach), not in some for each.

    It pays with many small tensors, on a CPU too. Adam, AdamW, SGD and Adagrad can be fused. Other
    optimizers of torch, and those of libraries that know ``foreach``, get it where it is not the
    default.
    """
    ours: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
    script.needs("optimizer that can be fused and leaves the choice open")

    def built(optimizer: Any) -> None:
        if _is_open(optimizer) and (way := _way(optimizer, script.torch)):
            ours[optimizer] = way
            script.applied()
            if script.on:
                _turn(optimizer, way, True)

    def turn(on: bool) -> None:
        for optimizer, way in ours.items():
            _turn(optimizer, way, on)

    script.on_optimizer_built(built)
    script.switch(lambda: turn(True), lambda: turn(False))


def _is_open(optimizer: Any) -> bool:
    """Whether every choice, in all groups, is what the class has by default."""
    known = inspect.signature(type(optimizer)).parameters
    return all(
        choice not in group or (choice in known and group[choice] is known[choice].default)
        for group in optimizer.param_groups
        for choice in CHOICES
    )


def _way(optimizer: Any, torch: Any) -> str:
    """``fused`` or ``foreach``, whichever this optimizer can be and is not by default."""
    step = inspect.unwrap(type(optimizer).step)
    groups = optimizer.param_groups
    if not step.__module__.startswith("torch.optim."):  # a class of a library, or of the user
        return "foreach" if any("foreach" in each for each in groups) else ""
    parameters = [each for group in groups for each in group["params"]]
    devices = {each.device.type for each in parameters}
    kind = step.__qualname__.partition(".")[0]
    fused = kind in FUSED and "fused" in groups[0] and devices <= {"cpu", "cuda"}
    if fused and ("cuda" not in devices or kind != "Adagrad"):  # on a GPU only lately
        return "fused" if all(map(torch.is_floating_point, parameters)) else ""
    return "foreach" if "foreach" in groups[0] and devices == {"cpu"} else ""


def _turn(optimizer: Any, way: str, on: bool) -> None:
    """Switch an optimizer, that may have stepped; a fused one counts its steps on the device."""
    if way == "fused":
        optimizer._step_supports_amp_scaling = on
    optimizer.defaults[way] = on or None  # of groups that are added later
    for group in optimizer.param_groups:
        group[way] = on or None
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if way == "fused" and "step" in state:
                state["step"] = state["step"].to(parameter.device if on else "cpu")
