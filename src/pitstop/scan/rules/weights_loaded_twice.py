"""PIT505 weights-loaded-twice."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.branches import follows, rebound_between
from pitstop.scan.call_graph import is_test
from pitstop.scan.pretrained import class_of, is_pipeline, loads_of_networks
from pitstop.scan.source import Source

# A copy that is trained, averaged or compared with needs weights of its own.
OWN_COPY = re.compile(r"ema|teacher|target|ref|shadow|orig|copy|frozen|student", re.IGNORECASE)


@rule("PIT505")
def weights_loaded_twice(source: Source) -> Iterator[Finding]:
    """The same weights are read from disk a second time, and held twice.

    Two pipelines of one base share all weights at no cost: hand the second the parts of the
    first. If a LoRA is to change only one of them, the part `shared_pipelines` gives each modules
    of its own on the same weights. A checkpoint is read once and taken apart. A copy that is
    trained must be one.

    Bad:
        from diffusers import FluxPipeline

        base = FluxPipeline.from_pretrained("flux")
        lora = FluxPipeline.from_pretrained("flux")

    Good:
        from diffusers import FluxPipeline

        base = FluxPipeline.from_pretrained("flux")
        lora = FluxPipeline(**base.components)
    """
    if is_test(source.path):
        return
    found: set[ast.Call] = set()
    for first, second in combinations(loads_of_networks(source), 2):
        if second in found or not follows(source, first, second):
            continue
        if _is_same(source, first, second) and not _is_wanted(source, first, second):
            found.add(second)
            yield source.finding(
                second,
                f"`{class_of(source, second)}` reads weights that line {first.lineno} has loaded.",
                per="start",
            )
    for first, second in combinations(source.calls("torch.load"), 2):
        same = ast.dump(first) == ast.dump(second) and follows(source, first, second)
        if same and second not in found and not rebound_between(source, first, second):
            found.add(second)
            message = f"The checkpoint that line {first.lineno} has loaded is read again."
            yield source.finding(second, message, per="start")


def _is_same(source: Source, first: ast.Call, second: ast.Call) -> bool:
    """Whether both read one folder into one class, or two pipelines share a base."""
    if source.open_ended(first) or source.open_ended(second) or not (first.args and second.args):
        return False
    if rebound_between(source, first, second) or ast.dump(first.args[0]) != ast.dump(
        second.args[0]
    ):
        return False
    if is_pipeline(class_of(source, first)) and is_pipeline(class_of(source, second)):
        return not _passes_parts(source, first) and not _passes_parts(source, second)
    return ast.dump(first) == ast.dump(second)


def _passes_parts(source: Source, call: ast.Call) -> bool:
    """Whether a pipeline is given networks that are there already."""
    names = {name for name, _ in source.keywords(call)}
    return bool(names & {"vae", "text_encoder", "text_encoder_2", "unet", "transformer"})


def _is_wanted(source: Source, first: ast.Call, second: ast.Call) -> bool:
    targets = [ast.unparse(_target(source, each)) for each in (first, second)]
    return targets[0] == targets[1] or any(
        OWN_COPY.search(each) for each in targets if not is_pipeline(class_of(source, second))
    )


def _target(source: Source, call: ast.Call) -> ast.AST:
    statement = source.statement(call)
    return statement.targets[0] if isinstance(statement, ast.Assign) else call
