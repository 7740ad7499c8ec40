"""Arguments: those of the calls that build loaders, wherever the source has written them."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pitstop.core.evidence import Loader
from pitstop.core.finding import Edit
from pitstop.scan.edits import add_argument, newline, replace
from pitstop.scan.source import Source
from pitstop.tune.patch.sites import Left, Sites, calls_at, quoted

OWN_LINE = re.compile(r",[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")  # the rest of a line that ends in a comma
POSITIONS = {  # among the arguments of a DataLoader
    "batch_size": 1,
    "num_workers": 5,
    "pin_memory": 7,
    "prefetch_factor": 13,
    "persistent_workers": 14,
}


@dataclass(frozen=True, slots=True)
class LoaderCall:
    """A loader of the run and the call that built it."""

    loader: Loader
    source: Source
    call: ast.Call
    where: str


def loader_calls(sites: Sites) -> Iterator[LoaderCall | Left]:
    """The calls that built the loaders of the run, each once."""
    for loader in {each.made: each for each in sites.evidence.loaders}.values():
        where = sites.show(loader.made)
        spot = sites.find(loader.made)
        found = [each for each in calls_at(*spot) if _is_loader(each)] if spot else []
        if spot and found:
            yield LoaderCall(loader, spot[0], found[0], where)
        else:
            yield Left(
                f"the loader of {where} is built where the source does not show it: "
                "give its arguments there"
            )


def _is_loader(call: ast.Call) -> bool:
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return ast.unparse(function).endswith("DataLoader")


def give(source: Source, call: ast.Call, wanted: Mapping[str, str]) -> list[Edit]:
    """The edits that give a call these arguments; none for those that it has."""
    edits, missing = [], {}
    for name, value in wanted.items():
        present = source.argument(call, name, POSITIONS[name])
        if present is None:
            missing[name] = value
        elif source.text_of(present) != value:
            edits.append(replace(source, present, value))
    spread = [each.value for each in call.keywords if each.arg is None]
    if spread and missing:
        return [*edits, *_into_spread(source, spread[-1], missing)]
    if missing:
        edits.append(_added(source, call, [f"{name}={value}" for name, value in missing.items()]))
    return edits


def _added(source: Source, call: ast.Call, texts: list[str]) -> Edit:
    """Behind the last argument; on lines of their own where the arguments have such."""
    items: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = max(items, key=source.extent)
    start, end = source.extent(last)
    line_start = source.lines.starts[last.lineno - 1]
    indent = source.text[line_start:start]
    behind = OWN_LINE.match(source.text, end)
    if indent.strip() or not behind:
        return add_argument(source, call, ", ".join(texts))
    lines = "".join(f"{newline(source)}{indent}{text}," for text in texts)
    return Edit(behind.end(), behind.end(), lines)


def _into_spread(source: Source, options: ast.expr, missing: Mapping[str, str]) -> Iterator[Edit]:
    """``**options`` may hold the same names, which may not be given twice: ours come last."""
    text = ", ".join(f"{quoted(source, name)}: {value}" for name, value in missing.items())
    written = source.text_of(options)
    if text not in written:
        yield replace(source, options, f"{{**{written}, {text}}}")
