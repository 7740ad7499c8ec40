"""What compiling costs: what of a script a compiler has to look at, and about how long that takes.

Blocks that are built alike share their code: torch.compile looks at one of each kind. A network of
twelve equal blocks so costs a twelfth of what it costs as a whole, and runs nearly as fast.
"""

import os
import shutil
from collections import Counter, defaultdict

from pitstop.core.evidence import Evidence, ModuleCall
from pitstop.diagnose.facts.calls import call_tree
from pitstop.tune.plan import Options
from pitstop.tune.ruled_out import may_repeat, steps_of_epoch

# Seconds for next to nothing, and for each operation of the forward pass with its backward one.
# Measured: see "What a compiler takes" in docs/results.md. On a CPU g++ builds each kernel.
START_S = {"cuda": 10.0, "cpu": 30.0}
OPERATION_S = {"cuda": 0.12, "cpu": 0.7}
COMPILERS = ("c++", "g++", "clang++")  # Inductor builds kernels by them, Triton its launchers


def blocks(evidence: Evidence) -> list[int]:
    """The calls of repeated blocks, by position: outermost inner modules of a class of several.

    torch's own layers are none; they are what blocks are made of.
    """
    tree = call_tree(evidence)
    paths: dict[str, set[str]] = defaultdict(set)
    inner = [place for place, each in enumerate(evidence.calls) if _may_be_block(each)]
    for place in inner:
        paths[evidence.calls[place].kind].add(evidence.calls[place].path)
    return tree.outermost([x for x in inner if len(paths[evidence.calls[x].kind]) > 1])


def _may_be_block(call: ModuleCall) -> bool:
    inner = call.parent >= 0 and not call.recomputed
    return inner and call.parameters > 0 and may_repeat(call.kind)


def operations(evidence: Evidence, scope: str) -> int:
    """Operations of all models, or of their blocks, each kind once."""
    tree = call_tree(evidence)
    calls = evidence.calls
    tops = [place for place, each in enumerate(calls) if each.parent < 0]
    roots = set(blocks(evidence) if scope == "blocks" else tops)
    inside: Counter[int] = Counter()
    for each in evidence.operations:
        if each.call >= 0 and not each.backward:
            root = next((x for x in (each.call, *tree.above(each.call)) if x in roots), None)
            inside.update({} if root is None else {root: each.calls})
    kinds: dict[tuple[object, ...], int] = {}
    for root, number in inside.items():
        call = calls[root]
        kind = (
            (call.kind, call.shapes, call.parameters, call.graph)
            if scope == "blocks"
            else (call.path,)
        )
        kinds[kind] = max(number, kinds.get(kind, 0))
    return sum(kinds.values())


def seconds(evidence: Evidence, options: Options) -> float:
    """About how long it takes to compile this, forward and backward."""
    device = evidence.settings.device if evidence.settings else "cpu"
    kind = "cpu" if device == "cpu" else "cuda"
    number = operations(evidence, str(options.get("scope", "whole")))
    return START_S[kind] + OPERATION_S[kind] * number


def never_pays(evidence: Evidence) -> str:
    """A reason where all steps of the script together take less time than to compile; else empty.

    How many there are is known where pictures come from a loader and nothing is learned from them.
    """
    batches = steps_of_epoch(evidence)
    goes_on = evidence.step_kind == "optimizer" or any(each.starts > 1 for each in evidence.loaders)
    if goes_on or not batches or not evidence.steady:
        return ""
    all_s = batches * evidence.mean_ms("total_ms") / 1e3
    least_s = min(seconds(evidence, {"scope": scope}) for scope in ("whole", "blocks"))
    if least_s <= all_s:
        return ""
    return f"it takes about {least_s:.0f} s, and all steps of the script {all_s:.1f} s"


def no_compiler(_: Evidence) -> str:
    """A reason where this machine has no compiler for what Inductor writes; else empty."""
    named = [name for name in (os.environ.get("CXX"), os.environ.get("CC")) if name]
    if any(shutil.which(each) for each in (*named, *COMPILERS)):
        return ""
    return "torch.compile needs a C++ compiler and finds none: install g++"
