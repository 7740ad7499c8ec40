"""PIT618 guidance-passes-one-by-one."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Severity
from pitstop.core.rule import rule
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source

LARGE = re.compile(r"transformer|dit$", re.IGNORECASE)  # fill a GPU with one pass, mostly


@rule("PIT618", worth="small")
def guidance_passes_one_by_one(source: Source) -> Iterator[Finding]:
    """Guidance runs the network twice, one pass after the other, in each denoising step.

    Both passes have the same shape, so they go through as one batch of two: half the launches,
    and weights that are read once. That wins where one pass leaves the GPU with time to spare, as
    small latents do; large ones fill it alone, and the batch needs their memory twice.

    Bad:
        for t in timesteps:
            with_prompt = unet(latents, t, prompt)
            without = unet(latents, t, nothing)
            noise = without + scale * (with_prompt - without)
            latents = scheduler.step(noise, t, latents)

    Good:
        for t in timesteps:
            both = unet(torch.cat([latents] * 2), t, torch.cat([nothing, prompt]))
            without, with_prompt = both.chunk(2)
            noise = without + scale * (with_prompt - without)
            latents = scheduler.step(noise, t, latents)
    """
    for mixed in source.nodes(ast.BinOp):
        names = _guided(mixed)
        if names is None or source.method_calls("backward"):
            continue
        calls = [_made_by(source, each) for each in names]
        first, second = calls
        if first is None or second is None or first is second:
            continue
        called = source.text_of(first.func)
        if called == source.text_of(second.func) and _is_alike(source, first, second):
            later = max(calls, key=lambda each: each.lineno if each else 0)
            message = f"`{called}` runs twice in a row for guidance; one batch of two would do."
            worth: Severity = "note" if LARGE.search(called) else "warning"
            yield source.finding(later or mixed, message, severity=worth, confidence="suspected")


def _guided(mixed: ast.BinOp) -> tuple[ast.Name, ast.Name] | None:
    """``a`` and ``b`` of ``a + scale * (b - a)``, whatever the order of the factors."""
    match mixed:
        case ast.BinOp(
            left=ast.Name() as base,
            op=ast.Add(),
            right=ast.BinOp(left=one, op=ast.Mult(), right=two),
        ):
            for each in (one, two):
                match each:
                    case ast.BinOp(
                        left=ast.Name() as other, op=ast.Sub(), right=ast.Name(id=again)
                    ):
                        return (base, other) if again == base.id != other.id else None
    return None


def _made_by(source: Source, name: ast.Name) -> ast.Call | None:
    """The one call whose result a name holds, without ``[0]``, ``.sample`` or ``.float()``."""
    found = [each for each in reaching(source, name) if each.how in ("assign", "unpack")]
    value = found[0].value if len(found) == 1 else None
    return _innermost(value) if value is not None else None


def _innermost(value: ast.expr) -> ast.Call | None:
    match value:
        case ast.Subscript(value=inner) | ast.Attribute(value=inner):
            return _innermost(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="float" | "to")):
            return _innermost(inner)
        case ast.Call(func=ast.Attribute(value=ast.Call(), attr="chunk")):
            return None  # they went through together
        case ast.Call():
            return value
    return None


def _is_alike(source: Source, first: ast.Call, second: ast.Call) -> bool:
    """Whether two calls take the same input, and differ in what they are told besides."""
    inputs = [(each.args or [k.value for k in each.keywords])[:1] for each in (first, second)]
    texts = [[source.text_of(value) for value in each] for each in inputs]
    same_block = source.enclosing_function(first) is source.enclosing_function(second)
    return same_block and bool(texts[0]) and texts[0] == texts[1]
