"""PIT704 clamp-kills-gradient."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.around import tensor_calls
from pitstop.scan.hot import place_of
from pitstop.scan.source import Source

PICTURES = {(0, 1), (-1, 1), (0, 255), (-0.5, 0.5)}  # ranges of pixels; others are meant
NETWORK = re.compile(r"model|net|generator|decod|forward|(?:^|\.)G$", re.IGNORECASE)
PREDICTED = re.compile(
    r"pred|out|recon|restor|fake|gener|(?:^|_)(?:sr|rec|est|result|merged|enhanced)(?:_|$)|hat$"
    r"|render|denois|deblur|interp",
    re.IGNORECASE,
)
LOSS = re.compile(
    r"loss|criter|charbonnier|(?:^|_|\.)(?:l1|l2|mse|bce|ssim|lpips|vgg|perceptual)", re.IGNORECASE
)


@rule("PIT704")
def clamp_kills_gradient(source: Source) -> Iterator[Finding]:
    """The prediction is clamped before the loss: outside the range nothing is learned.

    The gradient of a clamped pixel is zero, so the pixels that are most wrong no longer count.
    Clamp for pictures and metrics, and give the loss what the network said.

    Bad:
        for clip, sharp in train_loader:
            restored = torch.clamp(model(clip), 0, 1)
            loss = torch.nn.functional.l1_loss(restored, sharp)
            loss.backward()

    Good:
        for clip, sharp in train_loader:
            restored = model(clip)
            loss = torch.nn.functional.l1_loss(restored, sharp)
            loss.backward()
    """
    for call, value in tensor_calls(source, "clamp", "clamp_", "clip", "clip_"):
        first = 1 if source.name_of(call.func).startswith("torch.") else 0
        low = source.literal(source.argument(call, "min", first))
        high = source.literal(source.argument(call, "max", first + 1))
        if (low, high) not in PICTURES or not _is_prediction(source, value):
            continue
        if _is_trained(source, call) and (loss := _loss_of(source, call, value)):
            message = f"Pixels outside {low:g} to {high:g} give `{loss}` no gradient."
            yield source.finding(call, message, confidence="suspected")


def _is_trained(source: Source, node: ast.AST) -> bool:
    hot = source.hot(node)
    step = hot is not None and hot.kind == "step" and not hot.guarded
    return step and not place_of(source, node).evaluation


def _is_prediction(source: Source, value: ast.expr) -> bool:
    """Whether a network made it: a call of a module, or a name that says so."""
    if isinstance(value, ast.Call):
        return bool(NETWORK.search(source.text_of(value.func)))
    named = isinstance(value, ast.Name | ast.Attribute)
    return named and bool(PREDICTED.search(source.text_of(value).rpartition(".")[2]))


def _loss_of(source: Source, call: ast.Call, value: ast.expr) -> str:
    """The loss that takes the clamped value in the same function; empty when none does."""
    around = source.enclosing(call, ast.Call)
    if around is not None and LOSS.search(source.text_of(around.func)):
        return source.text_of(around.func)
    match source.statement(call):
        case ast.Assign(targets=[kept], value=whole) if whole is call:
            written = source.text_of(kept)
        case ast.Expr(value=ast.Call(ast.Attribute(attr="clamp_" | "clip_"))):
            written = source.text_of(value)
        case _:
            return ""
    function = source.enclosing_function(call)
    for other in source.nodes(ast.Call):
        if other.lineno <= call.lineno or source.enclosing_function(other) is not function:
            continue
        takes = any(source.text_of(each) == written for each in other.args)
        if takes and LOSS.search(source.text_of(other.func)) and _is_trained(source, other):
            return source.text_of(other.func)
    return ""
