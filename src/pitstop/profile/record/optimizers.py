"""Optimizers: those of the run, where they were built and what they are set to."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from pitstop import internals
from pitstop.profile.hooks.made import Places, built
from pitstop.profile.source.lines import NOWHERE


class Optimizers:
    """All optimizers that were built or have stepped. Keeps none of them alive."""

    def __init__(self) -> None:
        self._places = Places()

    def built(self, optimizer: Any) -> None:
        """An optimizer is being built."""
        self._places.put(optimizer, built(optimizer)[0])

    def living(self) -> list[Any]:
        """Those that exist now."""
        return self._places.living()

    def described(self, optimizer: Any) -> dict[str, Any]:
        """The line for the recording; asked when it has stepped, and all its groups are there."""
        made = self._places.of(optimizer)
        if made is None:  # it was not built but unpickled or copied
            made = NOWHERE
            self._places.put(optimizer, made)
        groups = optimizer.param_groups
        with internals.without_function_modes():  # the script's modes must not see us
            sizes = [each.numel() for group in groups for each in group["params"]]
        foreach = [group.get("foreach") for group in groups]
        settings = {
            "name": type(optimizer).__name__,
            "parameters": sum(sizes),
            "tensors": len(sizes),
            "fused": any(bool(group.get("fused")) for group in groups),
            "foreach": next((each for each in foreach if each is not None), None),
            "made": made,
            "groups": len(groups),
            "unlike_groups": len({_settings(each, optimizer.defaults) for each in groups}),
        }
        return {"optimizer": settings}


def _settings(group: dict[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    """What an optimizer does to a group of parameters."""
    values = [group.get(each) for each in names]
    return tuple([str(id(each)) if isinstance(each, Tensor) else repr(each) for each in values])
