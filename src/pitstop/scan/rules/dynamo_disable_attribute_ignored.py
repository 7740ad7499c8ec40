"""PIT409 dynamo-disable-attribute-ignored."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

SWITCHED = re.compile(r"(?:dynamo_?disabled?|compile_?disabled?|disable_dynamo)\s*=\s*True")
NAME = re.compile(r"^_*(?:torch_?)?(?:dynamo_?|compile_)disabled?$|^_*disable_dynamo$")


@rule("PIT409")
def dynamo_disable_attribute_ignored(source: Source) -> Iterator[Finding]:
    """The attribute is meant to keep a module out of torch.compile, and nothing reads it.

    Dynamo looks for no such attribute on a module, which is traced all the same. Wrap its
    forward in `torch.compiler.disable`, or use that as a decorator.

    Bad:
        for module in model.modules():
            module._dynamo_disable = True

    Good:
        for module in model.modules():
            module.forward = torch.compiler.disable(module.forward)
    """
    if "_disable" not in source.text or not SWITCHED.search(source.text):
        return
    for assign in source.nodes(ast.Assign):
        for target in assign.targets:
            if not isinstance(target, ast.Attribute) or not NAME.search(target.attr):
                continue
            owner = source.text_of(target.value)
            if source.literal(assign.value) is True and not _is_read(source, target, owner):
                message = f"Dynamo does not read `{target.attr}`: {owner} is traced all the same."
                cure = f"{owner}.forward = torch.compiler.disable({owner}.forward)"
                yield source.finding(assign, message, severity="error", cure=cure)


def _is_read(source: Source, target: ast.Attribute, owner: str) -> bool:
    """Whether it is an option of the project's own, or the mark that Dynamo puts on functions."""
    if owner in ("self", "cls") or "config" in owner or "forward" in owner:
        return True
    if source.project.reads_key(target.attr):
        return True
    read = [each for each in source.nodes(ast.Attribute) if type(each.ctx) is ast.Load]
    return any(each.attr == target.attr for each in read)
