"""PIT612 same-remote-call-repeated."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.branches import branches_around
from pitstop.scan.source import Function, Source

READS = (
    *("requests.get", "httpx.get", "urllib.request.urlopen", "huggingface_hub.model_info"),
    *("huggingface_hub.list_models", "huggingface_hub.list_repo_files"),
)
CURE = "keep the first answer, or put `functools.cache` on the function"
READER = re.compile(r"^_?(?:get|list|fetch|load|read|available|query|download)(?:_|$)")


@rule("PIT612")
def same_remote_call_repeated(source: Source) -> Iterator[Finding]:
    """The same question goes over the network a second time.

    Each call waits for the other side, here mostly while the program starts. Ask once and keep
    the answer, or put `functools.cache` on the function. Fine where the answer changes.

    Bad:
        import requests

        def get_options():
            return requests.get("http://server/options").json()

        def build():
            quick = get_options()
            compare = get_options()

    Good:
        import requests

        def get_options():
            return requests.get("http://server/options").json()

        def build():
            options = get_options()
            quick, compare = options, options
    """
    for function in source.functions:
        if function.decorator_list or not READER.search(function.name):
            continue
        if not any(source.enclosing_function(each) is function for each in _remote_calls(source)):
            continue
        calls = _calls_of(source, function)
        for number, call in enumerate(calls):
            first = next((each for each in calls[:number] if _is_same(source, each, call)), None)
            if first is not None:
                message = (
                    f"`{function.name}` asks again over the network, as line {first.lineno} did."
                )
                yield source.finding(call, message, per="start", cure=CURE)
                break


def _remote_calls(source: Source) -> list[ast.Call]:
    """Reads over the network; ``f.remote()`` of Modal and Ray when it is given nothing."""
    remote = [call for call in source.method_calls("remote") if not call.args]
    return [*source.calls(*READS), *remote]


def _calls_of(source: Source, function: Function) -> list[ast.Call]:
    """Its calls by plain name or on ``self``, in source order."""
    found = [*source.calls(function.name), *source.calls(f"self.{function.name}")]
    return sorted(found, key=lambda each: (each.lineno, each.col_offset))


def _is_same(source: Source, first: ast.Call, second: ast.Call) -> bool:
    """Whether both run with the same arguments while one outer function runs."""
    if ast.dump(first) != ast.dump(second) or source.enclosing_loop(second) is not None:
        return False
    outer = _outermost(source, first)
    if outer is None or outer is not _outermost(source, second):
        return False
    if source.enclosing_function(first) is source.enclosing_function(second):
        return branches_around(source, first) <= branches_around(source, second)
    return not branches_around(source, first) and not branches_around(source, second)


def _outermost(source: Source, node: ast.AST) -> Function | None:
    found = source.enclosing_function(node)
    while found is not None and (above := source.enclosing_function(found)) is not None:
        found = above
    return found
