"""The call graph: hot loops and methods make the functions they call hot, across files."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, get_args

from pitstop.scan.facts import CallFact, ClassFact, FileFacts, FunctionFact
from pitstop.scan.hot import Hot
from pitstop.scan.loops import HotKind

Key: TypeAlias = tuple[str, str]  # path and qualified name

DEPTH_LIMIT = 6  # calls from a hot loop; beyond that the chain of guesses is too long
MOST_DEFINITIONS = 4  # a method that more classes define may be anybody's: do not follow it


@dataclass(frozen=True, slots=True)
class Index:
    """Functions and classes of the project, findable by each way of naming them."""

    functions: Mapping[Key, FunctionFact]
    by_name: Mapping[str, list[Key]]  # "encode" -> every function or method of that name
    modules: Mapping[str, str]  # path -> module
    classes: Mapping[Key, ClassFact]
    classes_by_name: Mapping[str, list[Key]]


def hot_functions(index: Index) -> dict[Key, Hot]:
    """Every function that runs per step, frame or sample, with the shortest reason."""
    found: dict[Key, Hot] = {}
    # What is hot without a guard spreads first, so that it is not recorded as rare; and so does
    # training: what validation calls, too, is as hot as training makes it.
    for guarded in (False, True):
        roots = list(_roots(index, guarded))
        if guarded:
            roots += [each for key in found for each in _called(index, key, found[key], guarded)]
        for kind in get_args(HotKind):
            _spread(index, found, guarded, [each for each in roots if each[1].kind == kind])
    return found


def _spread(
    index: Index, found: dict[Key, Hot], guarded: bool, roots: Iterable[tuple[Key, Hot]]
) -> None:
    queue = deque(roots)
    while queue:
        key, hot = queue.popleft()
        if key in found or hot.depth > DEPTH_LIMIT:
            continue
        found[key] = hot
        queue.extend(_called(index, key, hot, guarded))


def _roots(index: Index, guarded: bool) -> Iterator[tuple[Key, Hot]]:
    """Functions hot by name, and functions that a hot loop calls."""
    for key, function in index.functions.items():
        if function.kind and not guarded:
            yield key, Hot(function.kind, function.reason, line=function.line, path=key[0])  # type: ignore[arg-type]
    for key, function in index.functions.items():
        for call in function.calls if not is_test(key[0]) else ():
            if call.kind and call.guarded == guarded:
                reason = f"called in the {call.reason} at {key[0]}:{call.line}"
                hot = Hot(call.kind, reason, guarded, 1, call.line, key[0])  # type: ignore[arg-type]
                yield from ((target, hot) for target in _resolve(index, key, call))


def _called(index: Index, key: Key, hot: Hot, guarded: bool) -> Iterator[tuple[Key, Hot]]:
    """What a hot function calls outside loops of its own."""
    for call in index.functions[key].calls:
        if call.kind or (call.guarded or hot.guarded) != guarded:
            continue
        reason = f"called from {key[1] or 'the module'} at {key[0]}:{call.line}"
        made = Hot(hot.kind, reason, guarded, hot.depth + 1, call.line, key[0])
        yield from ((target, made) for target in _resolve(index, key, call))


def asks_for_gradients(index: Index, start: Key) -> bool:
    """Whether a function, or one that it calls, runs backward or computes gradients."""
    seen = {start}
    queue = deque(seen)
    while queue:
        key = queue.popleft()
        function = index.functions.get(key)
        if function is None:
            continue
        if function.differentiates:
            return True
        called = {each for call in function.calls for each in _resolve(index, key, call)}
        queue.extend(called - seen)
        seen |= called
    return False


def read_index(files: Iterable[FileFacts]) -> Index:
    """The index of a project's files."""
    functions: dict[Key, FunctionFact] = {}
    by_name: dict[str, list[Key]] = {}
    modules: dict[str, str] = {}
    classes: dict[Key, ClassFact] = {}
    classes_by_name: dict[str, list[Key]] = {}
    for file in files:
        modules[file.path] = file.module
        for each in file.classes:
            classes[file.path, each.name] = each
            classes_by_name.setdefault(each.name, []).append((file.path, each.name))
        for function in file.functions:
            key = (file.path, function.name)
            functions[key] = function
            by_name.setdefault(function.name.rpartition(".")[2], []).append(key)
    return Index(functions, by_name, modules, classes, classes_by_name)


def _resolve(index: Index, caller: Key, call: CallFact) -> list[Key]:
    """The functions a call may mean; empty when it is not clear enough."""
    if call.target.startswith("self."):
        return _method(index, caller, call.target.removeprefix("self."))
    if call.target.startswith("."):
        named = [key for key in index.by_name.get(call.target[1:], []) if _is_method(index, key)]
        keys = [key for key in named if not is_test(key[0])]
        own = [key for key in keys if _class_of(key) == call.owner.replace("_", "").lower()]
        return own or (keys if len(keys) <= MOST_DEFINITIONS else [])
    return _local(index, caller, call.target) or _imported(index, call.target)


def _class_of(key: Key) -> str:
    """The class of a method as a variable may be called: TrainMeter as trainmeter."""
    return key[1].rpartition(".")[0].rpartition(".")[2].lower()


def find_functions(index: Index, path: str, name: str) -> list[Key]:
    """The functions that a file may mean by a name, own or imported."""
    return _resolve(index, (path, ""), CallFact(name, 0))


def is_test(path: str) -> bool:
    """Whether a file holds tests: what they call in a loop is not hot in the program."""
    *folders, name = path.split("/")
    return "tests" in folders or name.startswith("test_") or name == "conftest.py"


def _is_method(index: Index, key: Key) -> bool:
    return (key[0], key[1].rpartition(".")[0]) in index.classes


def _method(index: Index, caller: Key, method: str) -> list[Key]:
    """``self.method``: of the caller's class, else of its bases in the project."""
    owner = caller[1]
    while owner and (caller[0], owner) not in index.classes:
        owner = owner.rpartition(".")[0]
    return _inherited(index, (caller[0], owner), method, DEPTH_LIMIT)


def _inherited(index: Index, owner: Key, method: str, depth: int) -> list[Key]:
    key = (owner[0], f"{owner[1]}.{method}")
    if key in index.functions:
        return [key]
    if owner not in index.classes or depth == 0:
        return []
    for base in index.classes[owner].bases:
        for candidate in _classes_named(index, base):
            found = _inherited(index, candidate, method, depth - 1) if candidate != owner else []
            if found:
                return found
    return []


def _classes_named(index: Index, name: str) -> list[Key]:
    last = name.rpartition(".")[2]
    found = index.classes_by_name.get(last, [])
    return (
        found
        if len(found) == 1
        else [key for key in found if f"{index.modules[key[0]]}.{last}".endswith(name)]
    )


def _local(index: Index, caller: Key, name: str) -> list[Key]:
    """A bare name: nested in the caller, beside it, or at the top of its file."""
    if "." in name:
        return []
    path, scope = caller
    while True:
        for suffix in ("", ".__init__"):
            key = (path, f"{scope}.{name}{suffix}".lstrip("."))
            if key in index.functions and (not scope or (path, scope) not in index.classes):
                return [key]
        if not scope:
            return []
        scope = scope.rpartition(".")[0]


def _imported(index: Index, name: str) -> list[Key]:
    """A dotted name: a function or class of the module it names, or of one below that package."""
    package, _, last = name.rpartition(".")
    if not package:
        return []
    candidates = [key for key in index.by_name.get(last, []) if key[1] == last]
    made = [(path, f"{name}.__init__") for path, name in index.classes_by_name.get(last, [])]
    candidates += [key for key in made if key in index.functions]
    exact = [key for key in candidates if f".{index.modules[key[0]]}".endswith(f".{package}")]
    if len(exact) == 1:
        return exact
    below = f".{package.rpartition('.')[2]}."
    near = [key for key in candidates if below in f".{index.modules[key[0]]}."]
    return near if len(near) == 1 else []
