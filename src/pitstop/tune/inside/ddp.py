"""DDP: what is spared of one DistributedDataParallel, while the change `ddp` is on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pitstop.parts.ddp_rounds import Rounds
from pitstop.parts.still_buffers import StillBuffers, stay
from pitstop.tune.inside import failures

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

VIEW, STATIC, SEARCH = "gradient_as_bucket_view", "static_graph", "find_unused_parameters"
BUFFERS, MODEL = {"broadcast_buffers", "forward_sync_buffers"}, "module"
READERS = ("clip_grad_norm_", "clip_grad_value_", "get_total_norm")  # of ``torch.nn.utils``
NO_SEARCH = "the script does not search for unused parameters"
GRAPH_CHANGED = (
    "DistributedDataParallel has a static graph, and other parameters are used than in the first "
    "step: leave `static_graph` out of the change `ddp`"
)


class Ranks:
    """One model on several ranks, from its making to the end."""

    def __init__(self, script: "Script", reads_gradients: bool) -> None:
        self._script = script
        self._reads_gradients = reads_gradients
        self._static = False
        self._still = False  # the buffers, as far as the source tells
        self._model: Any = None
        self._rounds: Rounds | None = None
        self._buffers: StillBuffers | None = None
        self._used: set[int] = set()  # parameters with a new gradient, by id
        self._first: set[int] | None = None  # likewise, in the first step

    def arguments(self, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """What it is to be built with; what the script has said itself stays."""
        if len(given) > 1:  # by position: nobody does so with these, and they are many
            self._script.decline("its options are given by position")
            return named
        added: dict[str, Any] = {}
        searches = bool(named.get(SEARCH))
        if self._script.options.get(STATIC):
            if not searches or named.get(STATIC):
                self._script.decline(NO_SEARCH)
                return named
            added |= {STATIC: True, SEARCH: False}
            self._static = True
        if VIEW not in named and not self._reads_gradients:
            added[VIEW] = True
        model = given[0] if given else named.get(MODEL)
        if not BUFFERS & set(named) and isinstance(model, nn.Module):
            self._still = next(model.buffers(), None) is not None and stay(model)
        if added or self._still:
            self._script.applied()
        return named | added

    def built(self, model: Any) -> None:
        """Watch its calls and steps."""
        self._model = model
        if self._still:
            self._buffers = StillBuffers(model)
            model.broadcast_buffers = False  # from now on: they were sent when it was made
        static = self._static or bool(getattr(model, STATIC, False))
        if not self._reads_gradients and not static:
            self._rounds = Rounds(model)
            for name in READERS:
                if hasattr(nn.utils, name):
                    self._script.patch(nn.utils, name, self._reader)
            self._script.patch(torch.amp.GradScaler, "unscale_", self._unscaling)
        if self._static:
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self._note)
        self._script.patch(type(model), "forward", self._forward)
        handle: list[Any] = []
        self._script.switch(
            lambda: handle.append(register_optimizer_step_pre_hook(self._step)),
            lambda: self._close(handle),
        )

    def _close(self, handle: list[Any]) -> None:
        while handle:
            handle.pop().remove()
        if self._rounds:
            self._rounds.close()
        if self._buffers:
            self._model.broadcast_buffers = True

    def _forward(self, original: Callable[..., Any], model: Any, *given: Any, **named: Any) -> Any:
        if model is not self._model:
            return original(model, *given, **named)
        if self._buffers and not self._buffers.are_still():
            self._buffers = None
            model.broadcast_buffers = True
            if self._script.earnest:
                failures.say("ddp: buffers are sent again, since the script has written into them")
        if self._rounds and torch.is_grad_enabled():
            self._count(self._rounds)
        return original(model, *given, **named)

    def _count(self, rounds: Rounds) -> None:
        if not rounds.left_alone:
            rounds.close()
            self._rounds = None
            return
        rounds.forward_begins()
        if rounds.spared == 1:
            self._script.applied()

    def _reader(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if self._rounds:
            self._rounds.asked_for()
        return original(*given, **named)

    def _unscaling(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return self._reader(original, *given, **named)

    def _note(self, parameter: torch.Tensor) -> None:
        self._used.add(id(parameter))

    def _step(self, optimizer: Any, *_: Any) -> None:
        if self._rounds:
            self._rounds.step_begins(optimizer)
        if not self._static or not self._used:
            return
        if self._first is None:
            self._first = self._used
        elif self._first != self._used:
            raise RuntimeError(GRAPH_CHANGED)
        self._used = set()
