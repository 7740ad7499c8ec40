"""Change `fused-optimizer`."""

import inspect
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pitstop.core.evidence import Evidence
from pitstop.tune.change import When, change
from pitstop.tune.seen import LITTLE

if TYPE_CHECKING:
    from pitstop.tune.script import Script

FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
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

    It pays with many small tensors, on a CPU too. Adam, AdamW, SGD and Adagrad can be fused; other
    optimizers of torch get ``foreach`` where it is not the default.
    """
    ours: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
    script.needs("optimizer of torch.optim that leaves the choice open")

    def edit(arguments: dict[str, Any], optimizer: Any) -> None:
        arguments["params"] = groups = [_listed(each) for each in arguments["params"]]
        if any(arguments.get(choice) is not None for choice in CHOICES):
            return
        if way := _way(optimizer, groups, script.torch):
            arguments[way] = True if script.on else None
            ours[optimizer] = way
            script.applied()

    def turn(on: bool) -> None:
        for optimizer, way in ours.items():
            _turn(optimizer, way, on)

    script.on_optimizer(edit)
    script.switch(lambda: turn(True), lambda: turn(False))


def _listed(group: Any) -> Any:
    """A parameter or a group of them, with what can be read only once made into a list."""
    if isinstance(group, dict) and not hasattr(group["params"], "shape"):
        return {**group, "params": list(group["params"])}
    return group


def _way(optimizer: Any, groups: list[Any], torch: Any) -> str:
    """``fused`` or ``foreach``, whichever this optimizer can be and is not by default."""
    kind = next(each for each in type(optimizer).__mro__ if each.__module__.startswith("torch."))
    known = inspect.signature(kind).parameters
    devices = {each.device.type for each in _parameters(groups)}
    fused = kind.__name__ in FUSED and "fused" in known and devices <= {"cpu", "cuda"}
    if fused and ("cuda" not in devices or kind.__name__ != "Adagrad"):  # on a GPU only lately
        return "fused" if all(torch.is_floating_point(p) for p in _parameters(groups)) else ""
    return "foreach" if "foreach" in known and devices == {"cpu"} else ""


def _parameters(groups: list[Any]) -> list[Any]:
    found: list[Any] = []
    for group in groups:
        if isinstance(group, dict):
            inner = group["params"]
            found += _parameters([inner] if hasattr(inner, "shape") else inner)
        else:
            found.append(group[1] if isinstance(group, tuple) else group)  # (name, parameter)
    return found


def _turn(optimizer: Any, way: str, on: bool) -> None:
    """Switch an optimizer that has stepped; a fused one counts its steps on the device."""
    if way == "fused":
        optimizer._step_supports_amp_scaling = on
    for group in optimizer.param_groups:
        group[way] = True if on else None
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if way == "fused" and "step" in state:
                state["step"] = state["step"].to(parameter.device if on else "cpu")
