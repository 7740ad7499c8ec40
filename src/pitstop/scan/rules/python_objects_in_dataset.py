"""PIT111 python-objects-in-dataset."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

READS = ("read", "load", "decode", "open", "imread", "_get", "fetch")
DECODES = re.compile(r"(?:^|\.)(?:Image\.open|imread\w*|read_image|numpy\.load|torch\.load)$")
CONTAINERS = {"dict", "list", "collections.OrderedDict", "collections.defaultdict"}


@rule("PIT111", worth="small")
def python_objects_in_dataset(source: Source) -> Iterator[Finding]:
    """A dataset keeps decoded samples as Python objects, which every worker copies.

    Spawned workers get the cache through a pipe; forked ones copy it page by page, as reading
    an object writes its reference count; filled lazily, each worker fills one of its own. Put
    the samples in one array or shared tensor. A list of paths is small and harmless.

    Bad:
        class Clips(torch.utils.data.Dataset):
            def __init__(self, paths):
                self.cache = {}
                for path in paths:
                    self.cache[path] = torch.load(path)

    Good:
        class Clips(torch.utils.data.Dataset):
            def __init__(self, paths):
                self.frames = torch.stack([torch.load(path) for path in paths]).share_memory_()
    """
    seen: set[str] = set()
    for slot, value, node in _kept(source):
        owner = source.enclosing_class(node)
        if owner is None or not source.is_a(owner, "torch.utils.data.Dataset"):
            continue
        made = source.assigned(slot) or []
        key = f"{owner.name}.{source.name_of(slot)}"
        if key in seen or not made or not all(_is_container(source, each) for each in made):
            continue
        if _is_decoded(source, value, "cache" in source.name_of(slot).lower()):
            seen.add(key)
            yield source.finding(
                source.statement(made[0]), severity="note", confidence="suspected", per="start"
            )


def _kept(source: Source) -> Iterator[tuple[ast.expr, ast.expr, ast.AST]]:
    """What ``self.x[key] = value`` and ``self.x.append(value)`` keep, and where."""
    for assign in source.nodes(ast.Assign):
        for target in assign.targets:
            if isinstance(target, ast.Subscript) and _is_own(target.value):
                yield target.value, assign.value, assign
    for call in source.method_calls("append"):
        if isinstance(call.func, ast.Attribute) and _is_own(call.func.value) and call.args:
            yield call.func.value, call.args[0], call


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def _is_container(source: Source, value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return source.name_of(value.func) in CONTAINERS
    return isinstance(value, ast.Dict | ast.List)


def _is_decoded(source: Source, value: ast.expr, cache: bool) -> bool:
    """Whether a value is pixels or numbers; in a cache, also what some reader returned."""
    for each in [value, *(source.assigned(value) or [])]:
        if source.kind_of(each) in ("tensor", "ndarray"):
            return True
        calls = [node for node in ast.walk(each) if isinstance(node, ast.Call)]
        names = [source.name_of(node.func) for node in calls]
        if any(DECODES.search(name) for name in names):
            return True
        if cache and any(word in name.rpartition(".")[2] for name in names for word in READS):
            return True
    return False
