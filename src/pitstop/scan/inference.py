"""Inference: loops that run a network without gradients, once per frame, picture or prompt."""

import ast
import re
from typing import TYPE_CHECKING

from pitstop.scan.scopes import scope_of

if TYPE_CHECKING:
    from pitstop.scan.source import Source

NETWORK = re.compile(
    r"(?:^|_)(?:model|net|network|generator|unet|vae|net_?g|g_?ema|flownet|detector|predictor"
    r"|pipe|pipeline)$",
    re.IGNORECASE,
)
MAKES = re.compile(r"(?:from|load|get|create|build|make|init|setup|define)_")
RUNS = {"inference", "infer", "infer_image", "predict", "generate", "decode", "encode", "forward"}
NO_GRADIENTS = re.compile(r"\b(?:no_grad|inference_mode|set_grad_enabled)\b")
TRAINS = ("backward", "manual_backward", "zero_grad")


def read_inference_loops(source: "Source") -> dict[ast.AST, str]:
    """Innermost loops that run a network where nothing is trained, with the name of it.

    A loop over networks, or over the layers inside of one, is none.
    """
    if not _evaluates(source) or source.method_calls(*TRAINS):
        return {}
    found: dict[ast.AST, str] = {}
    for call in source.nodes(ast.Call):
        name = network_of(source, call.func)
        loop = source.enclosing_loop(call) if name else None
        if loop is None or loop in found or _is_inside_a_network(source, call):
            continue
        targets = ast.walk(loop.target) if isinstance(loop, ast.For | ast.AsyncFor) else ()
        bound = {each.id for each in targets if isinstance(each, ast.Name)}
        if name.partition(".")[0] not in bound:
            found[loop] = name
    return found


def _evaluates(source: "Source") -> bool:
    """Whether a file turns gradients off somewhere, or puts a network into evaluation mode."""
    return bool(NO_GRADIENTS.search(source.text)) or bool(source.method_calls("eval"))


def network_of(source: "Source", function: ast.expr) -> str:
    """The network that a call runs: of ``model(x)``, ``self.model(x)``, ``model.inference(x)``."""
    name = source.name_of(function)
    owner, _, last = name.rpartition(".")
    if NETWORK.search(last) and last == last.lower() and not MAKES.match(last):
        return name
    return owner if last in RUNS and NETWORK.search(owner.rpartition(".")[2]) else ""


def _is_inside_a_network(source: "Source", call: ast.Call) -> bool:
    scope = scope_of(source, call)
    return getattr(scope, "name", "") in ("forward", "__init__")
