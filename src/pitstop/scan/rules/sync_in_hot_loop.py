"""PIT201 sync-in-hot-loop."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Severity
from pitstop.core.rule import rule
from pitstop.scan.branches import loops_around
from pitstop.scan.hot import Hot
from pitstop.scan.inference import NETWORK
from pitstop.scan.loops import trains
from pitstop.scan.rare import is_afterwards, is_elsewhere, is_rare
from pitstop.scan.source import Source
from pitstop.scan.tensor_reads import has_read, is_method_read, is_on_cpu, tensor_reads

SAVES = re.compile(r"\.save\(|imwrite|fromarray|save_image|imsave")  # pixels must come to the CPU
OUTPUT = re.compile(r"(?:^|_)(?:write|log|show|export|dump|plot|metrics?|image|psnr)")
DATA = re.compile(r"(?:^|/|_)(?:data|datasets?|transforms?|augment\w*)(?:/|_|\.py)")  # on the CPU
LOOPS = re.compile("called in|loop over|denoising")  # may be there to fetch their outputs
FETCHES = {"`.cpu()`", "`.tolist()`"}
NAN_CHECK = re.compile(r"isnan|isinf|isfinite")  # guard-syncs-every-step speaks of those


@rule("PIT201")
def sync_in_hot_loop(source: Source) -> Iterator[Finding]:
    """Python waits for the GPU in every step to read a number.

    Until the number is there no kernel is queued, so the GPU runs dry afterwards. Keep tensors
    and read them every hundred steps, or once per epoch. A mask as index waits for how many are
    true: `torch.where`, or a product with the mask, does not. On the CPU one read costs a
    microsecond or two, and only a loop over numbers is dear: read them all at once.

    Bad:
        total = 0.0
        for clip in train_loader:
            loss = model(clip).mean()
            loss.backward()
            total += loss.item()

    Good:
        total = 0.0
        for clip in train_loader:
            loss = model(clip).mean()
            loss.backward()
            total += loss.detach()
    """
    last: dict[tuple[ast.AST | None, str], ast.AST] = {}
    reads = sorted(_reads(source), key=lambda read: source.extent(read[0]))
    for node, what, reason in reads:
        place = (source.enclosing_function(node), reason)
        again = place in last and not _is_work_between(source, last[place], node)
        last[place] = node
        message = f"{what} makes Python wait for the GPU ({reason})."
        worth: Severity = "note" if again else "warning"
        yield source.finding(node, message, severity=worth, confidence="suspected")


def _reads(source: Source) -> Iterator[tuple[ast.AST, str, str]]:
    """Each read with its words and its reason, one for a statement."""
    seen: set[ast.stmt] = set()
    for node, value, what in tensor_reads(source):
        hot = source.hot(node)
        if hot is not None and (hot.guarded or not _counts(hot, what)):
            continue
        reason = _reason(source, node, hot, what == "`.cpu()`")
        statement = source.statement(node)
        if not reason or statement in seen or source.parent(statement) in seen:
            continue
        if _is_read(source, node, value) and not is_elsewhere(source, node):
            if is_on_cpu(source, value) or (hot is not None and is_rare(source, node, hot)):
                continue
            seen.add(statement)
            yield node, what, reason


def _is_work_between(source: Source, one: ast.AST, other: ast.AST) -> bool:
    """Whether the GPU gets something to do between two reads; the second waits for nothing else."""
    first, second = source.span(one).line, source.span(other).line
    calls = source.method_calls("backward", "step", "forward", "zero_grad")
    runs = [each for each in source.nodes(ast.Call) if NETWORK.search(source.name_of(each.func))]
    return any(first < each.lineno < second for each in (*calls, *runs))


def _counts(hot: Hot, what: str) -> bool:
    """Steps count, and frames of a video where Python decides on them; pixels must be fetched."""
    return hot.kind == "step" or (hot.kind == "frame" and what not in FETCHES)


def _is_read(source: Source, node: ast.AST, value: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node is not value:
        return is_method_read(source, node)
    if has_read(value) or NAN_CHECK.search(source.text_of(value)):
        return False
    return source.kind_of(value) == "tensor"


def _reason(source: Source, node: ast.AST, hot: Hot | None, copies: bool) -> str:
    """Why it runs every step: the project says so, or a loop over rows does."""
    function = source.enclosing_function(node)
    if source.enclosing(node, ast.ListComp) is not None:
        around = source.hot(source.statement(node))
        hot = around if around is not None and around.kind == "step" else hot
    if function is not None and OUTPUT.search(function.name):
        return ""
    if is_afterwards(source, node):
        return ""
    if hot is not None:
        keeps = not copies or not LOOPS.match(hot.reason) or trains(source, node)
        return hot.reason if keeps else ""
    for loop in loops_around(source, node) if not DATA.search(source.path) else ():
        rows = source.kind_of(loop.iter) == "tensor"
        if rows and not SAVES.search(source.text_of(loop)):
            return f"loop over the rows of {source.text_of(loop.iter)}"
    return ""
