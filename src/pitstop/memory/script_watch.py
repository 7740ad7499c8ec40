"""Script watch: a script that goes on with stand-ins in the place of its tensors.

Each real tensor that an operation gets becomes a fake one, the same one every time. So weights stay
as they are, whatever the optimizer does to their stand-ins. Where Python asks for a number, as
``loss.item()`` does, it gets one that harms nobody.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from pitstop import internals
from pitstop.parts.memory.trace import Block
from pitstop.parts.memory.watch import Inside, Watch

NUMBER = torch.ops.aten._local_scalar_dense.default
PICKS = frozenset(  # from a whole dataset in memory, which will not be on the GPU
    (torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default, torch.ops.aten.select.int)
)


class ScriptWatch(Watch):
    """A watch that also exchanges tensors, where it is given a fake mode."""

    def __init__(self, device: str, fake_mode: Any, inside: Inside) -> None:
        super().__init__(device, inside)
        self._fake_mode = fake_mode
        self._fakes: Any = WeakTensorKeyDictionary()  # of each real tensor, as long as that lives

    def hold(self, tensors: Iterable[Any], kind: str, module: str = "") -> None:
        """Likewise, by their stand-ins."""
        real = [each for each in tensors if isinstance(each, torch.Tensor)]
        super().hold([self._exchanged(each) for each in real], kind, module)

    def name(self, tensor: torch.Tensor, kind: str, module: str) -> None:
        """Likewise, by its stand-in."""
        super().name(self._exchanged(tensor), kind, module)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        """Run it on stand-ins."""
        if func is NUMBER and self._fake_mode is not None:
            return _harmless(args[0].dtype)
        met = func not in PICKS

        def exchange(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or isinstance(value, internals.FakeTensor):
                return value
            fake = self._exchanged(value)
            if met:
                self._meet(value, fake)
            return fake

        args, kwargs = (
            internals.tree_map(exchange, args),
            internals.tree_map(exchange, kwargs or {}),
        )
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _exchanged(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._fake_mode is None or isinstance(tensor, internals.FakeTensor):
            return tensor
        if tensor not in self._fakes:
            self._fakes[tensor] = self._fake_mode.from_tensor(tensor)
        found: torch.Tensor = self._fakes[tensor]
        return found

    def _meet(self, real: torch.Tensor, fake: torch.Tensor) -> None:
        """A batch from the loader, or whatever else was there."""
        for storage in self._storages(fake):
            if internals.storage_key(storage) not in self._living:
                self._born(storage, Block(real.nbytes, "before", kind="batch"))


def _harmless(dtype: torch.dtype) -> bool | int | float:
    """No mask is set and no check is true; a loss is one."""
    if dtype == torch.bool:
        return False
    return 1.0 if dtype.is_floating_point else 1
