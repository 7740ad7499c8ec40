"""PIT303 float64-on-device."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.around import tests_around
from pitstop.scan.hot import place_of
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source

DOUBLE = {"torch.float64", "torch.double"}
# A matrix to invert is small and needs the digits; on the CPU float64 costs little.
MEANT = re.compile(
    r"linalg|inverse|pinv|svd|solve|\bdet\(|eig|chol|lstsq|cpu|numpy|\.sum\(|\.mean\(|item\(|psnr|ssim"
)
CHOSEN = re.compile(r"double|float64|fp64|upcast|precis", re.IGNORECASE)
FACTORIES = ("arange", "linspace", "zeros", "ones", "full", "empty", "rand", "randn", "eye")


@rule("PIT303", worth="small")
def float64_on_device(source: Source) -> Iterator[Finding]:
    """Every step computes in float64, which most GPUs do 32 to 64 times slower than float32.

    A data-centre GPU has float64 units, others do not, and every tensor it meets becomes
    float64 as well. NumPy makes float64 unless told otherwise. Small matrices, counters and
    tensors on the CPU are no matter.

    Bad:
        class Rotary(torch.nn.Module):
            def forward(self, x):
                return torch.view_as_complex(x.double()) * self.frequencies

    Good:
        class Rotary(torch.nn.Module):
            def forward(self, x):
                return torch.view_as_complex(x.float()) * self.frequencies
    """
    if "double" not in source.text and "float64" not in source.text:
        return
    seen: set[ast.stmt] = set()
    for call in _conversions(source):
        hot, statement = source.hot(call), source.statement(call)
        if hot is None or hot.guarded or hot.kind not in ("step", "frame") or statement in seen:
            continue
        seen.add(statement)
        if _is_chosen(source, statement):
            continue
        if MEANT.search(source.text_of(statement)) or is_rare(source, call, hot):
            continue
        if place_of(source, call).evaluation and hot.depth == 0:
            continue
        message = f"float64 is used every {hot.kind} ({hot.reason})."
        yield source.finding(call, message, severity="note", confidence="suspected")


def _is_chosen(source: Source, statement: ast.stmt) -> bool:
    """Whether a flag or a comment above says that float64 is wanted here."""
    above = source.text.split("\n")[statement.lineno - 2].strip() if statement.lineno > 1 else ""
    tests = [*tests_around(source, statement), above if above.startswith("#") else ""]
    return any(CHOSEN.search(each) for each in tests)


def _conversions(source: Source) -> Iterator[ast.Call]:
    for call in source.method_calls("double", "to", "type"):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        names = {source.name_of(each) for each in given}
        assert isinstance(call.func, ast.Attribute)
        asked = names & DOUBLE or (call.func.attr == "double" and not given)
        if asked and not _is_built_on_cpu(source, call.func.value):
            yield call
    for call in source.calls(*(f"torch.{each}" for each in FACTORIES)):
        dtype, device = source.argument(call, "dtype"), source.argument(call, "device")
        if dtype is not None and device is not None and source.name_of(dtype) in DOUBLE:
            yield call


def _is_built_on_cpu(source: Source, value: ast.expr) -> bool:
    """``torch.arange(8)`` without a device, which goes to the GPU later, if at all."""
    made = isinstance(value, ast.Call) and source.name_of(value.func).startswith("torch.")
    if not made or not isinstance(value, ast.Call):
        return False
    last = source.name_of(value.func).rpartition(".")[2]
    return last in FACTORIES and source.argument(value, "device") is None
