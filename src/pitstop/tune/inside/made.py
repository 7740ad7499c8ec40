"""Made: loaders and optimizers, seen as the script makes them."""

import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from torch.optim import Optimizer
from torch.utils.data import DataLoader

from pitstop.profile.hooks.patch import Undo, patch

Arguments = dict[str, Any]  # by name, as the script gave them; a callback may edit them
OnMade = Callable[[Arguments, Any], None]  # callback(arguments, the object that is being made)


class Made:
    """Lets callbacks edit the arguments of each DataLoader, and tells of each optimizer."""

    def __init__(self, undos: list[Undo]) -> None:
        self._on_loader: list[OnMade] = []
        self._on_built: list[Callable[[Optimizer], None]] = []
        self._undos = undos
        self.optimizers: WeakSet[Optimizer] = WeakSet()  # those that are alive

    def on_loader(self, callback: OnMade) -> None:
        """Call back before each DataLoader is built."""
        if not self._on_loader:
            self._watch_loaders()
        self._on_loader.append(callback)

    def on_built(self, callback: Callable[[Optimizer], None]) -> None:
        """Call back when any optimizer, of torch or not, knows its parameters."""
        self._on_built.append(callback)

    def watch_optimizers(self) -> None:
        """Keep ``optimizers`` up to date."""

        def build(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(optimizer: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
                original(optimizer, *arguments, **options)
                self.optimizers.add(optimizer)
                for callback in self._on_built:
                    callback(optimizer)

            return __init__

        self._undos.append(patch((Optimizer,), "__init__", build))

    def _watch_loaders(self) -> None:
        signature = inspect.signature(DataLoader.__init__)

        def build(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(made: Any, *given: Any, **options: Any) -> None:  # noqa: N807
                arguments = dict(signature.bind(made, *given, **options).arguments)
                (_, loader), *rest = arguments.items()
                named = dict(rest)
                for callback in self._on_loader:
                    callback(named, loader)
                original(made, **named)

            return __init__

        self._undos.append(patch((DataLoader,), "__init__", build))
