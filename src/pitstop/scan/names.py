"""Names: what an imported name stands for, written out with dots."""

import ast
import re
from collections.abc import Iterable
from pathlib import PurePosixPath


def module_name(path: str) -> str:
    """``src/models/vae.py`` as ``src.models.vae``; a package's ``__init__`` is the package."""
    stem = re.sub(r"\.\w+$", "", path)
    parts = [part for part in PurePosixPath(stem).parts if part not in (".", "..", "/")]
    return ".".join(parts[:-1] if parts and parts[-1] == "__init__" else parts)


def import_aliases(nodes: Iterable[ast.Import | ast.ImportFrom], path: str) -> dict[str, str]:
    """Every imported name of a file with what it stands for; star imports say nothing."""
    aliases: dict[str, str] = {}
    for node in nodes:
        origin = "" if isinstance(node, ast.Import) else origin_of(node, path)
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                aliases[alias.asname or alias.name] = f"{origin}.{alias.name}".lstrip(".")
            elif alias.asname:
                aliases[alias.asname] = alias.name
            else:
                first = alias.name.partition(".")[0]
                aliases[first] = first
    aliases.pop("*", None)
    return aliases


def origin_of(node: ast.ImportFrom, path: str) -> str:
    """The module that is imported from, with leading dots resolved against ``path``."""
    if not node.level:
        return node.module or ""
    package = module_name(path).split(".")
    if PurePosixPath(path).stem != "__init__":
        package = package[:-1]
    kept = package[: len(package) - (node.level - 1)]
    return ".".join([*kept, node.module] if node.module else kept)
