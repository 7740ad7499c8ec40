"""Swap GroupNorm, and the SiLU after it, for the fused part in any model, and back.

No module is replaced: instances change their class, so parameters, names, hooks, optimizers and
the state dict stay what they are. A norm becomes a ``FusedGroupNorm``; a block whose ``forward``
applies SiLU to a norm's result becomes a subclass of its own class with that pair fused. A class of
norms that rearranges what it is given, and calls ``super().forward``, finds the kernel there.

Under autocast the result keeps the type of its input, where PyTorch's would be fp32: the statistics
are in fp32 either way, and the convolution that follows rounds to the smaller type.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import FunctionType
from typing import Any, cast

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu
from pitstop.parts.group_norm.silu_rewrite import forward_with_silu

Step = Callable[[], None]
PROBE_TOLERANCE = 2e-2  # relative; bf16 weights round to 4e-3, another function is off by far more


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What was exchanged, and what that gained where it was timed."""

    name: str
    before_ms: float | None = None
    after_ms: float | None = None
    kept: bool = True  # else it was no gain or failed, and the model has its own

    def __str__(self) -> str:
        if self.before_ms is None:
            return f"{self.name}: not timed"
        if self.after_ms is None:
            return f"{self.name}: fails: left alone"
        times = f"{self.before_ms:.2f} to {self.after_ms:.2f} ms"
        gain = f"{self.before_ms / self.after_ms:.2f}x"
        return f"{self.name}: {times}, {gain}" + ("" if self.kept else ": left alone")


@dataclass(frozen=True, slots=True)
class Undo:
    """Call it to put the model back as it was; ``str()`` of it says what was done."""

    steps: tuple[Step, ...]
    record: tuple[Exchanged, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.record)) or "nothing was exchanged"

    def __call__(self) -> None:
        """Undo the last step first."""
        for step in reversed(self.steps):
            step()


class KernelGroupNorm(nn.GroupNorm):
    """A GroupNorm whose work is done by ``group_norm_silu``."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (torch's name)
        """Normalise, as ``nn.GroupNorm`` does."""
        return group_norm_silu(input, self.num_groups, self.weight, self.bias, self.eps, silu=False)


class FusedGroupNorm(KernelGroupNorm):
    """One that can take the SiLU behind it as well."""

    def with_silu(self, x: torch.Tensor, channel_bias: torch.Tensor | None = None) -> torch.Tensor:
        """Add ``channel_bias``, normalise and apply SiLU."""
        return group_norm_silu(
            x, self.num_groups, self.weight, self.bias, self.eps, channel_bias=channel_bias
        )


class FusedSequential(nn.Sequential):
    """A Sequential that hands each SiLU to the fused norm before it."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (torch's name)
        """Run all modules in order."""
        modules: list[Any] = list(self)
        taken = False
        for module, after in zip(modules, [*modules[1:], None], strict=True):
            if taken:
                taken = False
                continue
            taken = _is_pair(module, after)
            input = module.with_silu(input) if taken else module(input)  # noqa: A001
        return input


def fuse_group_norm(model: nn.Module) -> Undo:
    """Make every GroupNorm in ``model`` a fused one, with the SiLU after it where there is one."""
    steps = [swap_class(norm, new) for norm, new in list(_norms(model))]
    norms = len(steps)
    for module in model.modules():
        made = _fused_block(module)
        if made is not None:
            steps.append(swap_class(module, made))
    done = [Exchanged(f"{norms} GroupNorm, {len(steps) - norms} blocks with SiLU")]
    return Undo(tuple(steps), tuple(done) if steps else ())


def swap_class(module: nn.Module, new: type[nn.Module]) -> Step:
    """Change the class of one instance; the step returned changes it back."""
    old = type(module)

    def back() -> None:
        module.__class__ = old

    module.__class__ = new
    return back


def is_plain(module: nn.Module) -> bool:
    """Whether calling ``forward`` directly is the same as calling the module."""
    hooks = (
        internals.forward_hooks(module),
        internals.forward_pre_hooks(module),
        internals.backward_hooks(module),
    )
    return not any(hooks) and "forward" not in vars(module)


def probe(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """A random input on the device and in the type of ``like``; torch's own seed is not used up."""
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return numbers.to(like.device, like.dtype)


def _norms(model: nn.Module) -> Iterator[tuple[nn.GroupNorm, Any]]:
    """Each norm that can be swapped, and the class that it should have."""
    for module in model.modules():
        if not isinstance(module, nn.GroupNorm) or isinstance(module, KernelGroupNorm):
            continue
        if "forward" in vars(module):  # wrapped from outside: leave it
            continue
        kind: Any = type(module)
        if kind is nn.GroupNorm or _agrees(module):
            yield module, _fused_class(kind)
        elif _calls_super(kind.forward):
            yield module, _inside_class(kind)


def _agrees(norm: nn.GroupNorm) -> bool:
    """Whether a subclass of GroupNorm computes what GroupNorm does; found by trying.

    A picture and a clip are tried: some subclasses treat the frames of a clip one by one.
    """
    if norm.weight is None or norm.weight.is_meta:
        return False
    answers = [_agrees_on(norm, shape) for shape in ((4, 4), (3, 4, 4))]
    return True in answers and False not in answers


def _agrees_on(norm: nn.GroupNorm, shape: tuple[int, ...]) -> bool | None:
    """Whether both agree on one input; None where the subclass does not take it."""
    x = probe((2, norm.num_channels, *shape), norm.weight)
    with torch.no_grad():
        expected = nn.GroupNorm.forward(norm, x)
        try:
            found = norm.forward(x)
        except Exception:  # noqa: BLE001 a stranger's code, given what it may not be made for
            return None
    if not isinstance(found, torch.Tensor) or found.shape != expected.shape:
        return False
    return torch.allclose(found, expected, rtol=PROBE_TOLERANCE, atol=PROBE_TOLERANCE)


@lru_cache(maxsize=256)
def _fused_class(norm: Any) -> Any:
    if norm is nn.GroupNorm:
        return FusedGroupNorm
    return type(f"Fused{norm.__name__}", (FusedGroupNorm, norm), _pickled_as(norm))


@lru_cache(maxsize=256)
def _inside_class(norm: Any) -> Any:
    """``super().forward`` in a method of ``norm`` leads to the second of these."""
    return type(f"Fused{norm.__name__}", (norm, KernelGroupNorm), _pickled_as(norm))


def _pickled_as(kind: Any) -> dict[str, Any]:
    """What a class made here needs so that its instances are saved, and copied, as their own."""

    def reduce(module: nn.Module, protocol: Any) -> Any:
        _, _, *state = cast("tuple[Any, ...]", nn.Module.__reduce_ex__(module, protocol))
        return object.__new__, (kind,), *state

    return {"__reduce_ex__": reduce}


def _calls_super(forward: Any) -> bool:
    code = getattr(forward, "__code__", None)
    return code is not None and {"super", "forward"} <= set(code.co_names)


def _is_pair(module: nn.Module | None, after: nn.Module | None) -> bool:
    if not isinstance(module, FusedGroupNorm) or type(after) is not nn.SiLU:
        return False
    return is_plain(module) and is_plain(after)


def _fused_block(module: nn.Module) -> type[nn.Module] | None:
    """The class that ``module`` should have so that its norms take their SiLU; None for its own."""
    kind: Any = type(module)
    if "forward" in vars(module):  # wrapped from outside: leave it
        return None
    if kind is nn.Sequential:
        children = list(module.children())
        paired = any(_is_pair(*pair) for pair in pairwise(children))
        return FusedSequential if paired else None
    forward = kind.forward
    if kind.__module__.startswith("torch.nn.") or not isinstance(forward, FunctionType):
        return None
    norms, silus = set(), set()
    for name, child in module.named_modules():
        if isinstance(child, FusedGroupNorm) and is_plain(child):
            norms.add(name)
        elif type(child) is nn.SiLU and is_plain(child):
            silus.add(name)
    made = forward_with_silu(forward, frozenset(norms), frozenset(silus)) if norms else None
    return None if made is None else subclass(kind, made)


@lru_cache(maxsize=1024)
def subclass(kind: Any, forward: Any) -> Any:
    """A class like ``kind``, in name too, with another ``forward``."""
    names = {"forward": forward, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), names | _pickled_as(kind))
