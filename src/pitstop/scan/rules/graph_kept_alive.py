"""PIT501 graph-kept-alive."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import insert
from pitstop.scan.escapes import is_only_read
from pitstop.scan.gradients import differentiated, is_differentiated_above, terms
from pitstop.scan.hot import place_of
from pitstop.scan.source import Loop, Source

BARE = {"item", "detach", "float", "tolist", "numpy", "reduce_value"}


@rule("PIT501")
def graph_kept_alive(source: Source) -> Iterator[Finding]:
    """A loss is kept over the steps of a loop together with its graph.

    Adding losses up, or putting them on a list, keeps the graph of every step so far: memory
    grows until the epoch ends. `detach` keeps the number alone, and unlike `item` it does not
    wait for the GPU. Where the sum itself is differentiated, the graphs are needed.

    Bad:
        total = 0.0
        for batch in train_loader:
            loss = model(batch).mean()
            loss.backward()
            total += loss

    Good:
        total = 0.0
        for batch in train_loader:
            loss = model(batch).mean()
            loss.backward()
            total += loss.detach()
    """
    for loop in source.step_loops:
        if not isinstance(loop, ast.For | ast.AsyncFor | ast.While):
            continue
        with_graph = differentiated(source, loop)
        for kept, value in _kept(source, loop) if with_graph else ():
            if _is_needed(source, kept) or _is_made_in(kept, loop):
                continue
            for term in terms(source, value):
                if term.id in with_graph and not _is_bare(source, term):
                    name = ast.unparse(kept)
                    message = f"`{name}` keeps the graph of every step through `{term.id}`."
                    edit = insert(source.extent(term)[1], ".detach()")
                    proved = is_differentiated_above(source, term)
                    safe = proved and isinstance(kept, ast.Name) and is_only_read(source, kept)
                    fix = Fix("Keep the number alone", (edit,), safe)
                    sure = "certain" if proved else "suspected"
                    yield source.finding(term, message, fix, confidence=sure)


def _is_needed(source: Source, kept: ast.expr) -> bool:
    """Whether backward is called on what is kept, also in a helper, or it has no name."""
    name = _root(kept)
    function = source.enclosing_function(kept)
    if not name or name in differentiated(source, function or source.tree):
        return True
    uses = [each for each in source.nodes(ast.Name) if each.id == name]
    calls = [source.enclosing(each, ast.Call) for each in uses]
    helpers = {each.func.id for each in calls if each and isinstance(each.func, ast.Name)}
    helpers |= {each.func.attr for each in calls if each and isinstance(each.func, ast.Attribute)}
    return any(source.project.may_ask_for_gradients(each) for each in helpers)


def _root(kept: ast.expr) -> str:
    """``totals`` of ``totals["loss"]``, ``self`` of ``self.total``."""
    while isinstance(kept, ast.Subscript | ast.Attribute):
        kept = kept.value
    return kept.id if isinstance(kept, ast.Name) else ""


def _is_bare(source: Source, term: ast.Name) -> bool:
    """Whether the name holds no graph here: a number by now, or gradients are off."""
    values = [each for each in source.assigned(term) or [] if isinstance(each, ast.Call)]
    names = [ast.unparse(each.func).rpartition(".")[2] for each in values]
    return any(each in BARE for each in names) or place_of(source, term).evaluation


def _kept(source: Source, loop: Loop) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What grows from round to round of a loop, and by what."""
    for add in source.nodes(ast.AugAssign):
        if isinstance(add.op, ast.Add) and source.enclosing_loop(add) is loop:
            yield add.target, add.value
    for call in source.method_calls("append"):
        if source.enclosing_loop(call) is loop and isinstance(call.func, ast.Attribute):
            yield call.func.value, call.args[0] if call.args else call


def _is_made_in(kept: ast.expr, loop: Loop) -> bool:
    """Whether a round of the loop starts it anew, so that one graph is kept at most."""
    written = ast.unparse(kept)
    stores = [node for node in ast.walk(loop) if isinstance(node, ast.Assign)]
    return any(ast.unparse(target) == written for each in stores for target in each.targets)
