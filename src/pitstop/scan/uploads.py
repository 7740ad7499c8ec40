"""Uploads: calls that send their owner to a GPU."""

import ast
import re

from pitstop.scan.source import Source

DEVICE = re.compile(r"(?:^|_)(?:device|dev|gpu)$", re.IGNORECASE)


def uploads(source: Source, call: ast.Call) -> bool:
    """Whether a method sends its owner to a GPU: ``.cuda()``, ``.to(device)``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
        return False
    where = source.argument(call, "device", 0)
    if call.func.attr == "cuda":
        return True
    if isinstance(where, ast.Constant):
        return str(where.value).startswith("cuda")
    return where is not None and bool(DEVICE.search(source.name_of(where).rpartition(".")[2]))
