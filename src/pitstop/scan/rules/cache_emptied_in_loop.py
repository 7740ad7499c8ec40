"""PIT204 cache-emptied-in-loop."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix, Severity
from pitstop.core.rule import rule
from pitstop.scan.edits import remove_statement
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source


@rule("PIT204")
def cache_emptied_in_loop(source: Source) -> Iterator[Finding]:
    """The allocator's cache is emptied in every round of a hot loop.

    `torch.cuda.empty_cache` waits for the GPU and gives back memory that the next round asks
    the driver for again, which waits once more. It frees nothing that a tensor still holds.
    Between phases, or where another process needs the memory, it is fine.

    Bad:
        for batch in train_loader:
            model(batch).mean().backward()
            torch.cuda.empty_cache()

    Good:
        for batch in train_loader:
            model(batch).mean().backward()
    """
    for call in source.calls("torch.cuda.empty_cache"):
        hot = source.hot(call)
        if hot is None or hot.guarded or is_rare(source, call, hot):
            continue
        statement = source.statement(call)
        alone = isinstance(statement, ast.Expr) and statement.value is call
        fix = Fix("Drop the call", (remove_statement(source, statement),)) if alone else None
        round_of_it = "validation batch" if hot.kind == "validation" else hot.kind
        message = f"The allocator's cache is emptied every {round_of_it} ({hot.reason})."
        worth: Severity = "note" if hot.kind == "validation" else "warning"  # it may just fit there
        yield source.finding(
            call,
            message,
            fix,
            severity=worth,
            confidence="suspected",
            changes=("no-empty-cache",),
        )
