"""PIT410 compile-off-for-an-old-bug."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.settings import Setting
from pitstop.scan.source import Source

COMPILES = re.compile(r"(?:^|_)(?:torch_?)?compile(?:_|d?$)", re.IGNORECASE)
OFF = re.compile(r"(?:ompile|COMPILE)\w*[\"']?\s*(?::[\w\s]*)?[:=]?\s*(?:[Ff]alse|FALSE|no|off)\b")
# A reason in a comment that a newer torch may have done away with.
REASON = re.compile(
    r"#.*(?:incompatib|crash|fail|\bbugs?\b|broken|breaks|errors?\b|not support|unsupported"
    r"|disabled|n[o']t work|\bissue|\bhang|causes|conflict)",
    re.IGNORECASE,
)
SLOW = re.compile(r"slow|debug|faster|short|warm|first|time|memory", re.IGNORECASE)  # no bug


@rule("PIT410")
def compile_off_for_an_old_bug(source: Source) -> Iterator[Finding]:
    """torch.compile was turned off for a failure that may be gone.

    Such failures belong to a version of torch. Often another form works: one block at a time,
    inside the checkpoint, `use_reentrant=False`. Try it again and measure, or name the version.

    Bad:
        compile_model = False  # crashes with checkpointing
        if compile_model:
            model = torch.compile(model)

    Good:
        compile_model = True
        if compile_model:
            model = torch.compile(model)
    """
    text = source.text
    if not ("ompile" in text or "COMPILE" in text) or not OFF.search(text):
        return
    for place, name in _switched_off(source):
        if not COMPILES.search(name) or not _compiles(source):
            continue
        if reason := _comment(source, source.span(place).line):
            message = f"Compilation is off because of a failure ({reason}): try it with this torch."
            changes = ("compile",)
            yield source.finding(
                place, message, severity="note", confidence="suspected", changes=changes
            )


def _switched_off(source: Source) -> Iterator[tuple[ast.AST | Setting, str]]:
    for setting in source.settings:
        if setting.value is False:
            yield setting, setting.key
    for assign in source.nodes(ast.Assign):
        if isinstance(assign.value, ast.Constant) and assign.value.value is False:
            for target in assign.targets:
                yield assign, source.text_of(target).rpartition(".")[2]
    for annotated in source.nodes(ast.AnnAssign):
        if isinstance(annotated.value, ast.Constant) and annotated.value.value is False:
            yield annotated, source.text_of(annotated.target).rpartition(".")[2]
    for keyword in source.nodes(ast.keyword):
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is False and keyword.arg:
            yield keyword, keyword.arg


def _compiles(source: Source) -> bool:
    return bool(source.project.where("torch.compile")) or bool(source.settings)


def _comment(source: Source, line: int) -> str:
    """The reason given beside the switch, or on the line above it."""
    lines = source.text.split("\n")
    beside, above = lines[line - 1], lines[line - 2].strip() if line > 1 else ""
    for written in (beside, above if above.startswith("#") else ""):
        found = REASON.search(written)
        if found and not SLOW.search(written[found.start() :]):
            return written[found.start() :].lstrip("# ").partition("  #")[0].strip()
    return ""
