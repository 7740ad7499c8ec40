"""Sites: where in the user's source a kept change has its place."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pitstop.core.evidence import Evidence, Line
from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_after, insert_import, newline
from pitstop.scan.source import Source
from pitstop.tune.patch.sources import UserFile, name_in

SETTING = re.compile(  # a line that configures torch
    r"torch\.(?:set_\w+|backends\.[\w.]+|_\w+\.config\.\w+ =)"
)


@dataclass(frozen=True, slots=True)
class Left:
    """Why a change has no place here, and what to write by hand."""

    reason: str


@dataclass(frozen=True)
class Sites:
    """The user's files as they are now, and what the untouched run showed of them."""

    files: Mapping[str, UserFile]
    evidence: Evidence
    root: Path  # of the patch: names of files are relative to it
    here: Path  # where the script ran: paths of recorded lines are relative to it
    script: str = ""  # its name; empty where it is not one of the files

    @property
    def sources(self) -> list[Source]:
        """All files, parsed."""
        return [each.source for each in self.files.values()]

    @property
    def device(self) -> str:
        """The kind of device that the model is on: ``cuda`` or ``cpu``."""
        return self.evidence.settings.device if self.evidence.settings else "cpu"

    def find(self, where: Line) -> tuple[Source, int] | None:
        """A recorded line in the source as it is now."""
        file = self.files.get(self._name(where)) if where.path else None
        line = file.line(where.line) if file else 0
        return (file.source, line) if file and line else None

    def show(self, where: Line) -> str:
        """A recorded line as people read it: ``train.py:12``."""
        name = self._name(where) if where.path else "a library"
        return f"{name or where.path}:{where.line}"

    def after(self, edits: Iterable[Edit]) -> "Sites":
        """The files after some edits of one change; all of them or, by an exception, none."""
        by_file: dict[str, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(edit.path, []).append(edit)
        changed = {name: self.files[name].edited(each) for name, each in by_file.items()}
        return replace(self, files={**self.files, **changed})

    def _name(self, where: Line) -> str:
        return name_in(self.here / where.path, self.root)


def calls_at(source: Source, line: int) -> list[ast.Call]:
    """The calls that a line is part of: those that begin on it first, inner ones before outer."""
    found = [
        each
        for each in source.nodes(ast.Call)
        if each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    return sorted(found, key=lambda each: (each.lineno != line, each.end_lineno, _end(each)))


def _end(call: ast.Call) -> int:
    return call.end_col_offset or 0


def in_file(source: Source, edits: Iterable[Edit | None]) -> Iterator[Edit]:
    """The edits, marked as those of this file."""
    return (replace(each, path=source.path) for each in edits if each is not None)


def torch_name(source: Source) -> tuple[str, list[Edit]]:
    """What a file calls torch, and the import to add where it does not."""
    for name, origin in source.aliases.items():
        if origin == "torch":
            return name, []
    edit = insert_import(source, "import torch")
    return "torch", list(in_file(source, [edit]))


def quoted(source: Source, text: str) -> str:
    """A string in the quotes that the file prefers."""
    single = source.text.count("'") > source.text.count('"')
    return f"'{text}'" if single else f'"{text}"'


def below_imports(source: Source, text: str) -> Edit:
    """A line that configures torch, below the imports and below other lines of that kind."""
    body = source.tree.body
    imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
    if not imports:
        first = insert_import(source, "import torch")
        assert first is not None
        return replace(first, new=f"{newline(source)}{text}{newline(source)}")
    last: ast.stmt = next((each for each in imports if "torch" in _modules(each)), imports[0])
    gap = newline(source)
    for each in body[body.index(last) + 1 :]:
        setting = bool(SETTING.match(ast.unparse(each)))
        if not setting and not isinstance(each, ast.Import | ast.ImportFrom):
            break
        last, gap = each, "" if setting else newline(source)
    return insert_after(source, last, f"{gap}{text}")


def _modules(statement: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    return {each.partition(".")[0] for each in names}


def configure(sites: Sites, target: str, value: str) -> Iterator[Edit | Left]:
    """Set ``torch.backends...``: where the source sets it to something else, or below the imports.

    What is set under a condition stays: the run that was tuned did not come by, or declined.
    """
    found = False
    for source in sites.sources:
        for each in source.nodes(ast.Assign):
            if len(each.targets) > 1 or source.name_of(each.targets[0]) != target:
                continue
            if source.enclosing(each, ast.If, ast.Try) is None:
                found = True
                if source.text_of(each.value) != value:
                    start, end = source.extent(each.value)
                    yield Edit(start, end, value, source.path)
    if not found:
        yield from set_up(sites, f"{target.replace('torch.', '{torch}.', 1)} = {value}")


def set_up(sites: Sites, *lines: str) -> Iterator[Edit | Left]:
    """Lines below the script's imports; ``{torch}`` in them is what the file calls torch."""
    file = sites.files.get(sites.script)
    if file is None:
        for line in lines:
            text = line.format(torch="torch")
            yield Left(f"the script is no file of yours: write {text} in it")
        return
    name, imports = torch_name(file.source)
    there = {source.text_of(each) for source in sites.sources for each in source.tree.body}
    texts = [line.format(torch=name) for line in lines]
    if new := [each for each in texts if each.partition("  #")[0] not in there]:
        yield from imports
        yield from in_file(file.source, [below_imports(file.source, "\n".join(new))])
