"""Change `dsepconv` in the source."""

import ast
from collections.abc import Iterator
from pathlib import PurePath

from pitstop.core.finding import Edit
from pitstop.scan.dsepconv_by_cupy import OFFERED, is_dsepconv
from pitstop.scan.source import Source
from pitstop.tune.patch.sites import Left, Sites
from pitstop.tune.plan import Options

OURS = "pitstop.parts"
PART = "dsepconv"


def dsepconv(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Where a file imports one that computes the same by CuPy: ours."""
    there = {name for name, file in sites.files.items() if is_dsepconv(file.source.text)}
    edits = [
        edit
        for name, file in sites.files.items()
        for edit in _imports(file.source, PurePath(name), [PurePath(each) for each in there])
    ]
    yield from edits
    if not edits:
        yield Left(
            "call `pitstop.parts.dsepconv.dsepconv` in the place of `apply` of the function that "
            "has CuPy's kernel"
        )


def _imports(source: Source, own: PurePath, there: list[PurePath]) -> Iterator[Edit | Left]:
    for node in source.nodes(ast.Import, ast.ImportFrom):
        met = [each for each in node.names if _is(node, each.name, own, there)]
        if not met:
            continue
        text = _ours(node, met)
        if text:
            start, end = source.extent(node)
            yield Edit(start, end, text, source.path)
        else:
            yield Left(f"{own.as_posix()}:{node.lineno}: import {PART} from {OURS} instead")


def _is(node: ast.Import | ast.ImportFrom, name: str, own: PurePath, there: list[PurePath]) -> bool:
    """Whether this is one of these files, or something that it offers."""
    base: tuple[str, ...] = ()
    dotted = [name]
    if isinstance(node, ast.ImportFrom):
        if node.level:
            base = own.parent.parts[: len(own.parent.parts) - node.level + 1]
        above = node.module or ""
        dotted = [f"{above}.{name}".strip("."), *([above] if name in OFFERED else [])]
    wanted = [(*base, *each.split(".")) for each in dotted if each]
    return any(
        path.with_suffix("").parts[-len(each) :] == each for path in there for each in wanted
    )


def _ours(node: ast.Import | ast.ImportFrom, met: list[ast.alias]) -> str:
    """The statement that imports ours under the same names; empty where it is not plain."""
    if len(met) != len(node.names):
        return ""
    if isinstance(node, ast.ImportFrom) and {each.name for each in met} <= OFFERED:
        return f"from {OURS}.{PART} import {', '.join(map(_named, met))}"
    (only, *more) = met
    name = only.asname or only.name
    if more or "." in name:
        return ""
    return f"from {OURS} import {PART}" + ("" if name == PART else f" as {name}")


def _named(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name
