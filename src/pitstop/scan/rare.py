"""Rare: places in hot code that run seldom, by the words around them."""

import ast
import re

from pitstop.scan.around import tests_around
from pitstop.scan.hot import Hot
from pitstop.scan.source import Function, Source

# Functions that are called from a training loop, but not in every step of it.
SELDOM = re.compile(
    r"(?:^|_)(?:sample|sample_images?|valid|validate|validation|eval|evaluate|saves?|checkpoint"
    r"|visuali[sz]e|plot|draw|test|preview|tune|tuning|tokeni[sz]e|export|prepare|cache|inference|post_?process)(?:_|$)",
    re.IGNORECASE,
)
AFTERWARDS = re.compile(r"PostProcess|Predictor|Evaluat|Metric|Visuali[sz]|Score$")
CACHES = ("cache", "lru_cache", "cached_property")
# Options of those who look into things, or who give time for memory.
SWITCH = re.compile(
    r"environ|tune|tuning|debug|verbose|trace|diagnos|profil|cpu_cache|clear_cache|low_?vram",
    re.IGNORECASE,
)
CALLER = re.compile(r"called (?:from|in) (?:\w+\.)*(\w+) at ")


def is_rare(source: Source, node: ast.AST, hot: Hot) -> bool:
    """Whether words say that hot code runs seldom: who calls it, what switches it on."""
    function = source.enclosing_function(node)
    caller = CALLER.search(hot.reason)
    names = [function.name if function else "", caller[1] if caller else ""]
    seldom = hot.depth > 0 and any(map(SELDOM.search, names))
    return (
        "validation" in hot.reason or seldom or any(map(SWITCH.search, tests_around(source, node)))
    )


def is_afterwards(source: Source, node: ast.AST) -> bool:
    """Whether its class fetches or judges what a network has computed, once for each input."""
    owner = source.enclosing_class(node)
    return owner is not None and bool(AFTERWARDS.search(owner.name))


def is_elsewhere(source: Source, node: ast.AST) -> bool:
    """Whether it is evaluated on another occasion: a failed assert, a callback, a viewer."""
    either = source.enclosing(node, ast.IfExp)
    loop = source.enclosing_loop(node)
    return (
        isinstance(source.statement(node), ast.Assert)
        or source.enclosing(node, ast.Lambda) is not None
        or (either is not None and "is_tensor" in source.text_of(either.test))
        or (isinstance(loop, ast.While) and "None" in source.text_of(loop.test))
    )


def is_kept(source: Source, call: ast.Call, function: Function | None) -> bool:
    """Whether a cache is around: ``if key not in grids``, or a decorator of functools."""
    decorators = [source.text_of(each) for each in function.decorator_list] if function else []
    if any(cache in each for each in decorators for cache in CACHES):
        return True
    block = source.enclosing(call, ast.If)
    return block is not None and any(isinstance(n, ast.NotIn) for n in ast.walk(block.test))
