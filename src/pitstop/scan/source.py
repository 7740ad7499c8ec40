"""Source: one parsed file, and all that a static rule may ask about it."""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, overload

from pitstop.core.finding import Finding, Fix, Span
from pitstop.scan import guards, hot, kinds, scopes
from pitstop.scan.facts import read_facts
from pitstop.scan.inference import read_inference_loops
from pitstop.scan.loops import read_step_loops
from pitstop.scan.names import import_aliases, module_name
from pitstop.scan.options import written_out
from pitstop.scan.project import Project
from pitstop.scan.settings import Setting, read_settings
from pitstop.scan.text import Lines
from pitstop.scan.vocabulary import Kind
from pitstop.scan.walk import Nodes, walk

Node = TypeVar("Node", bound=ast.AST)
Second = TypeVar("Second", bound=ast.AST)
Third = TypeVar("Third", bound=ast.AST)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
Place: TypeAlias = ast.AST | Setting  # what a finding can point at

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Source:
    """One file: Python code with its tree, or a config file with its settings.

    ``project`` holds the facts of all files of the scan; without one, this file is its project.
    A config file has no nodes, and Python has no settings: a rule needs not ask which it got.
    """

    def __init__(self, text: str, path: str = "", project: Project | None = None) -> None:
        """Parse ``text``; raises ``SyntaxError`` when it is no Python of ours."""
        self.text = text
        self.path = path
        self.lines = Lines(text)
        self.settings: tuple[Setting, ...] = read_settings(text, path)
        self.tree = ast.parse("" if is_config(path) else text)
        self.module = module_name(path)  # "models.vae" for models/vae.py
        self._project = project
        self._names: dict[ast.AST, str] = {}
        self.kinds: dict[ast.AST, Kind] = {}  # what kind_of has found out
        self.places: dict[ast.AST, hot.Place] = {}  # what hot has found out

    def in_project(self, project: Project) -> "Source":
        """The same parsed file as part of a project."""
        other = copy(self)
        other._project = project
        other.kinds = {}
        return other

    def by_itself(self) -> "Source":
        """The same parsed file as part of no project: for what is asked before there is one."""
        return self.in_project(Project())

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {len(self.lines.starts)} lines)"

    # Nodes -------------------------------------------------------------------------------------

    @cached_property
    def _nodes(self) -> Nodes:
        return walk(self.tree)

    @overload
    def nodes(self, first: type[Node], /) -> list[Node]: ...
    @overload
    def nodes(self, first: type[Node], second: type[Second], /) -> list[Node | Second]: ...
    @overload
    def nodes(
        self, first: type[Node], second: type[Second], third: type[Third], /
    ) -> list[Node | Second | Third]: ...
    @overload
    def nodes(self, *types: type[ast.AST]) -> list[Any]: ...
    def nodes(self, *types: type[ast.AST]) -> list[Any]:
        """All nodes of exactly these types, in source order within a type."""
        by_type = self._nodes.by_type
        return [node for each in types for node in by_type.get(each, ())]

    @property
    def functions(self) -> list[Function]:
        """All functions and methods, also nested and asynchronous ones."""
        return self.nodes(ast.FunctionDef, ast.AsyncFunctionDef)

    @cached_property
    def _calls(self) -> Mapping[str, Sequence[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.nodes(ast.Call):
            if name := self.name_of(call.func):
                found.setdefault(name, []).append(call)
        return found

    @cached_property
    def _method_calls(self) -> Mapping[str, Sequence[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute):
                found.setdefault(call.func.attr, []).append(call)
        return found

    def calls(self, *names: str) -> list[ast.Call]:
        """Calls of these functions by full dotted name: ``calls("torch.zeros")``. Fast."""
        return [call for name in names for call in self._calls.get(name, ())]

    def method_calls(self, *attributes: str) -> list[ast.Call]:
        """Calls written ``anything.attribute(...)``: ``method_calls("item", "cpu")``. Fast."""
        return [call for name in attributes for call in self._method_calls.get(name, ())]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds ``node``; ``None`` for the module."""
        return self._nodes.parents.get(node)

    def enclosing(self, node: ast.AST, *types: type[Node]) -> Node | None:
        """The nearest ancestor of one of these types, whatever lies between."""
        parents = self._nodes.parents
        above = parents.get(node)
        while above is not None and not isinstance(above, types):
            above = parents.get(above)
        return above

    def enclosing_function(self, node: ast.AST) -> Function | None:
        """The function whose body (not decorators or defaults) holds ``node``; no lambdas."""
        child, above = node, self.parent(node)
        while above is not None:
            if isinstance(above, FUNCTIONS) and isinstance(child, ast.stmt):
                return above
            child, above = above, self.parent(above)
        return None

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that ``node`` is in, also when it is inside one of its methods."""
        return self.enclosing(node, ast.ClassDef)

    def enclosing_loop(self, node: ast.AST) -> Loop | None:
        """The nearest loop of the same function whose body runs ``node`` again and again."""
        child, above = node, self.parent(node)
        while above is not None and not isinstance(above, FUNCTIONS):
            if isinstance(above, LOOPS) and _repeats(above, child):
                return above
            child, above = above, self.parent(above)
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that ``node`` is part of, or is."""
        found = node if isinstance(node, ast.stmt) else self.enclosing(node, ast.stmt)
        if found is None:
            raise ValueError(f"{type(node).__name__} is in no statement of {self.path or 'text'}")
        return found

    def is_inside(self, node: ast.AST, ancestor: ast.AST) -> bool:
        """Whether ``node`` is ``ancestor`` or anywhere below it."""
        above: ast.AST | None = node
        while above is not None and above is not ancestor:
            above = self.parent(above)
        return above is ancestor

    # Text --------------------------------------------------------------------------------------

    def extent(self, place: Place) -> tuple[int, int]:
        """Character offsets of the first character and of the one after the last."""
        if isinstance(place, Setting):
            return place.start, place.end
        return self.lines.extent(place)

    def text_of(self, place: Place) -> str:
        """The text as it was written, comments and spacing included."""
        start, end = self.extent(place)
        return self.text[start:end]

    def span(self, place: Place) -> Span:
        """Where ``place`` is, for people: lines and columns from 1."""
        start, end = self.extent(place)
        return Span(self.path, *self.lines.position(start), *self.lines.position(end))

    def finding(
        self, place: Place, message: str = "", fix: Fix | None = None, **fields: Any
    ) -> Finding:
        """A finding at ``place``; without a message the rule's own summary will do."""
        if isinstance(place, ast.AST) and (around := self._misplaced(place)):
            return Finding(message, self.span(around), **fields)
        return Finding(message, self.span(place), fix=fix, **fields)

    def _misplaced(self, node: ast.AST) -> ast.AST | None:
        """The f-string around a node whose place Python before 3.12 gets wrong in it."""
        around = self.enclosing(node, ast.JoinedStr) if sys.version_info < (3, 12) else None
        if around is None:
            return None
        try:
            same = ast.dump(ast.parse(self.text_of(node), mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError, IndexError):
            same = False
        return None if same else around

    # Names -------------------------------------------------------------------------------------

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Imported names and what they stand for: ``{"F": "torch.nn.functional"}``."""
        return import_aliases(self.nodes(ast.Import, ast.ImportFrom), self.path)

    @cached_property
    def _rebound(self) -> set[str]:
        """Imported names that some function of this file binds to something else."""
        stored = {name.id for name in self.nodes(ast.Name) if type(name.ctx) is ast.Store}
        return self.aliases.keys() & (stored | {each.arg for each in self.nodes(ast.arg)})

    def name_of(self, node: ast.AST) -> str:
        """Dotted name with imports resolved, ``torch.zeros`` or ``self.device``; else empty."""
        if isinstance(node, ast.Name):
            alias = self.aliases.get(node.id)
            if alias is None or (node.id in self._rebound and scopes.is_local(self, node)):
                return node.id
            return alias
        if not isinstance(node, ast.Attribute):
            return ""
        name = self._names.get(node)
        if name is None:
            base = self.name_of(node.value)
            name = self._names[node] = f"{base}.{node.attr}" if base else ""
        return name

    def qualified_name(self, definition: Function | ast.ClassDef) -> str:
        """``Encoder.forward`` for a method, ``outer.inner`` for a nested function."""
        name = self._names.get(definition)
        if name is None:
            above = self.enclosing(definition, *FUNCTIONS, ast.ClassDef)
            name = definition.name
            if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
                name = f"{self.qualified_name(above)}.{name}"
            self._names[definition] = name
        return name

    @cached_property
    def bindings(self) -> scopes.Bindings:
        """Every name and ``self.x`` of the file with what is assigned to it, by scope."""
        return scopes.read_bindings(self)

    def assigned(self, node: ast.AST) -> list[ast.expr] | None:
        """The expressions a name or ``self.x`` may hold here; ``None`` when not all are known."""
        return scopes.assigned(self, node)

    def literal(self, node: ast.AST | None) -> Any:
        """The constant it is, also through one assignment; ``None`` when it is not certain."""
        return kinds.literal(self, node)

    def kind_of(self, node: ast.AST) -> Kind:
        """What the value certainly is: "tensor", "device", "str" ...; else "unknown"."""
        return kinds.kind_of(self, node)

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
        """The argument passed as ``name=`` or at ``position``; ``None`` when it is not there."""
        for known, value in self.keywords(call):
            if known == name:
                return value
        if position is None or any(isinstance(each, ast.Starred) for each in call.args[:position]):
            return None
        return call.args[position] if position < len(call.args) else None

    def keywords(self, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
        """What is passed by name, also as ``**options`` that are written out."""
        for keyword in call.keywords:
            if keyword.arg is None:
                yield from written_out(self, keyword.value) or ()
            else:
                yield keyword.arg, keyword.value

    def open_ended(self, call: ast.Call) -> bool:
        """Whether ``*args`` or ``**options`` may pass what is not written out."""
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        unnamed = [keyword.value for keyword in call.keywords if keyword.arg is None]
        return starred or any(written_out(self, each) is None for each in unnamed)

    # The project -------------------------------------------------------------------------------

    @property
    def project(self) -> Project:
        """Facts of the whole project, or of this file alone when it was given none."""
        if self._project is None:
            self._project = Project.of([read_facts(self)])
        return self._project

    @cached_property
    def step_loops(self) -> Mapping[ast.AST, str]:
        """Loops that run backward or step an optimizer, with the call that shows it."""
        return read_step_loops(self)

    @cached_property
    def inference_loops(self) -> Mapping[ast.AST, str]:
        """Loops that run a network without gradients, with the name of the network."""
        return read_inference_loops(self)

    @cached_property
    def exits(self) -> Mapping[ast.AST, int]:
        """Blocks that seldom run to their end, with the line behind which they do not."""
        return guards.read_exits(self)

    def hot(self, node: ast.AST) -> hot.Hot | None:
        """Whether ``node`` runs per step, frame or sample, and why; ``None`` when it does not."""
        return hot.hot(self, node)

    def is_a(self, definition: ast.ClassDef, name: str) -> bool:
        """Whether a class of this file derives from ``name``, also through project classes."""
        return self.project.derives(f"{self.module}.{self.qualified_name(definition)}", name)


def _repeats(loop: Loop, child: ast.AST) -> bool:
    """Whether a child of a loop runs every round: its body and a ``while``'s test do."""
    if isinstance(child, ast.stmt):
        return child not in loop.orelse
    return isinstance(loop, ast.While)


def is_config(path: str) -> bool:
    """Whether a path is a config file, of which only the settings are read."""
    return path.endswith((".yaml", ".yml", ".json", ".toml"))
