"""PIT304 scaler-mismatch."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")
SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")
HALF, BFLOAT = {"torch.float16", "torch.half"}, {"torch.bfloat16"}
SCALE_ELSEWHERE = ("accelerate.", "lightning.", "pytorch_lightning.", "transformers.Trainer")


@rule("PIT304")
def scaler_mismatch(source: Source) -> Iterator[Finding]:
    """Mixed precision and gradient scaling do not fit each other.

    In float16 small gradients become zero unless the loss is scaled up first. bfloat16 has the
    range of float32: a scaler gains nothing there and reads a number from the GPU every step.

    Bad:
        scaler = torch.amp.GradScaler("cuda")
        for clip in train_loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(clip).mean()
            scaler.scale(loss).backward()

    Good:
        for clip in train_loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(clip).mean()
            loss.backward()
    """
    if "autocast" not in source.text:
        return
    casts = source.calls(*AUTOCASTS)
    dtypes = {name for call in casts if (name := _dtype(source, call))}
    scalers = [call for call in source.calls(*SCALERS) if _is_on(source, call)]
    if dtypes <= BFLOAT and dtypes and casts and all(_dtype(source, call) for call in casts):
        for call in scalers:
            yield source.finding(
                call, "The loss is scaled for bfloat16, which needs no scaling.", per="step"
            )
    if not source.project.mentions(*SCALERS, *SCALE_ELSEWHERE) and not _scales(source):
        for call in casts:
            if _dtype(source, call) in HALF and _is_on(source, call) and _trains(source, call):
                message = "Gradients of float16 are not scaled: the small ones become zero."
                yield source.finding(call, message, severity="error", changes=("bf16",))


def _dtype(source: Source, call: ast.Call) -> str:
    """The dtype's name; autocast for CUDA means float16 when it is not said."""
    if source.open_ended(call):
        return ""
    cuda = source.name_of(call.func) == "torch.cuda.amp.autocast"
    given = source.argument(call, "dtype", 1)
    if given is not None:
        values = source.assigned(given) or [given]
        names = {source.name_of(each) for each in values}
        return names.pop() if len(names) == 1 and names <= HALF | BFLOAT else ""
    kind = source.literal(source.argument(call, "device_type", 0))
    return "torch.float16" if cuda or kind == "cuda" else ""


def _is_on(source: Source, call: ast.Call) -> bool:
    """Whether it is certainly enabled."""
    cast = source.name_of(call.func) == "torch.cuda.amp.autocast"
    enabled = source.argument(call, "enabled", 0 if cast else None)
    return not source.open_ended(call) and (enabled is None or source.literal(enabled) is True)


def _scales(source: Source) -> bool:
    """Whether something else scales: a class of the project's own, Apex or DeepSpeed."""
    return source.project.calls_method("scale_loss", "scale", "unscale_", "unscale")


def _trains(source: Source, call: ast.Call) -> bool:
    """Whether a loss is sent backward in the same function; engines take it as an argument."""
    function = source.enclosing_function(call)
    backward = [each for each in source.method_calls("backward") if not each.args]
    return any(source.enclosing_function(each) is function for each in backward)
