"""Change `non-blocking`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.core.evidence import Evidence
from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import LITTLE

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


def useless(evidence: Evidence) -> str:
    """Whether no loader puts its batches into pinned memory, or the GPU never waits for copies.

    Where batches should lie there, a finding asks.
    """
    if evidence.loaders and not any(each.pinned for each in evidence.loaders):
        return "no batch lies in pinned memory"
    waits_ms = sum(each.micros for each in evidence.gaps if each.cause == "copy") / 1e3
    if evidence.gaps and waits_ms < LITTLE * (evidence.timeline_ms or 0.0):
        return "copies are hardly waited for"
    return ""


@change("exact", toggles=True, when=When(device="cuda", useless=useless))
def non_blocking(script: "Script") -> None:
    """Let copies from pinned memory to the GPU run while the script goes on.

    It pays where the script would wait for each copy of a batch. Copies from ordinary memory wait
    in any case, and those back to the CPU must, or the script would read what is not there yet.
    That a library hands on `non_blocking=False`, as accelerate does, is nobody's wish to wait.
    """
    torch = script.torch
    script.needs("copy from pinned memory to a GPU")

    def around(original: Callable[..., Any], tensor: Any, *given: Any, **named: Any) -> Any:
        if not tensor.is_cpu or named.get("non_blocking") or not _to_gpu(original, given, named):
            return original(tensor, *given, **named)
        if not tensor.is_pinned():
            return original(tensor, *given, **named)
        script.applied()
        return original(tensor, *given, **named | {"non_blocking": True})

    script.patch(torch.Tensor, "to", around)
    script.patch(torch.Tensor, "cuda", around)


def _to_gpu(method: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether the call names a GPU and leaves open whether to wait."""
    if any(isinstance(each, bool) for each in given):  # non_blocking or copy, by position
        return False
    if method.__name__ == "cuda":
        return True
    target = [*given[:1], named.get("device"), named.get("other")]
    return any(_names_gpu(each) for each in target)


def _names_gpu(target: Any) -> bool:
    if isinstance(target, int):  # a number alone is that of a GPU
        return True
    device = getattr(target, "device", target)  # of a tensor to be like
    return str(getattr(device, "type", device)).startswith("cuda")
