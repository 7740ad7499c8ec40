"""PIT305 legacy-and-new-tf32-api-mixed."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Edit, Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.facts import Switch
from pitstop.scan.source import Source

MATMUL = "torch.backends.cuda.matmul"
CUDNN = "torch.backends.cudnn"
NEW_NAMES = {
    f"{MATMUL}.allow_tf32": f"{MATMUL}.fp32_precision",
    f"{CUDNN}.allow_tf32": f"{CUDNN}.conv.fp32_precision = {CUDNN}.rnn.fp32_precision",
    "torch.set_float32_matmul_precision": f"{MATMUL}.fp32_precision",
}
NEW_VALUES = {"True": '"tf32"', "False": '"ieee"'}
# "medium" means TF32 on a GPU as well.
NEW_WORDS = {"highest": '"ieee"', "high": '"tf32"', "medium": '"tf32"'}


@rule("PIT305")
def legacy_and_new_tf32_api_mixed(source: Source) -> Iterator[Finding]:
    """TF32 is set through the older and the newer API in one project.

    From torch 2.9 on, reading one after the other was set raises an error or answers with what
    is not in force. The fix moves every older setting of the project to the newer API, or none.

    Bad:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.conv.fp32_precision = "tf32"

    Good:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        torch.backends.cudnn.conv.fp32_precision = "tf32"
    """
    old, new = source.project.tf32_switches, source.project.fp32_precision_switches
    if not old or not new or old[0].path != source.path:
        return
    place = next(
        node for node in source.nodes(ast.Assign, ast.Call) if _is_at(source, node, old[0])
    )
    where = f"{new[0].path or 'line'}:{new[0].line}"
    message = f"TF32 is set here by the older API and at {where} by the newer one."
    edits = tuple(Edit(each.start, each.end, _newer(each), each.path) for each in old)
    alone = len({(each.path, each.start) for each in old}) == len(old)  # no a = b = True
    whole = alone and all(_newer(each) for each in old)
    fix = Fix("Set it by the newer API everywhere", edits) if whole else None
    yield source.finding(place, message, fix, severity="error")


def _is_at(source: Source, node: ast.AST, switch: Switch) -> bool:
    return source.extent(node) == (switch.start, switch.end)


def _newer(switch: Switch) -> str:
    """The statement that says the same by the newer API; empty when the value is not plain."""
    if switch.name == "torch.set_float32_matmul_precision":
        value = NEW_WORDS.get(switch.value.strip("\"'"), "")
    elif switch.value in NEW_VALUES:
        value = NEW_VALUES[switch.value]
    else:
        plain = re.fullmatch(r"[\w.]+", switch.value)
        value = f'"tf32" if {switch.value} else "ieee"' if plain else ""
    return f"{NEW_NAMES[switch.name]} = {value}" if value else ""
