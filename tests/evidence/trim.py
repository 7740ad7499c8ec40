"""Turn a recording into a file that tests can replay: ``NAME_h200.json``, below a megabyte.

    python tests/evidence/trim.py .pitstop/runs/ID NAME_h200

Calls and operations too short to matter are summed, paths become relative, what no rule reads is
left out. Libraries that lay beside the script on that machine are told as where they are installed:
by the script's line that calls them. What is kept must still be judged as the whole was: the same
findings, and every saving and every cause of the ledger within a hundredth of the step. Else
nothing is written.
"""

import sys
from collections import Counter, defaultdict
from dataclasses import MISSING, fields, is_dataclass, replace
from os.path import commonpath
from pathlib import Path, PurePath

import msgspec

from pitstop.core import store
from pitstop.core.evidence import Kernel, Line, Sampled
from pitstop.core.machine import Machine
from pitstop.diagnose.facts.attention import attentions
from pitstop.diagnose.facts.attention import home as home_of
from pitstop.diagnose.facts.calls import call_tree, repeats
from pitstop.diagnose.facts.operations import short, tensors
from pitstop.diagnose.facts.tiles import CUTS
from pitstop.diagnose.ledger.ledger import COPIES
from pitstop.diagnose.ledger.samples import on_cpu
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.profile.read.collect import collect
from pitstop.profile.read.runs import load

LARGEST_BYTES = 900_000  # of a file in the repository
THRESHOLDS_US = (1, 4, 16, 64, 256, 1024, 4096)  # an operation or call below is summed
APART = 0.01  # of the step: a cause that moves further is not the same story
KEPT_KERNELS, KEPT_SAMPLES, KEPT_MOMENTS = 60, 60, 40  # the rest of each adds nothing to a rule
ENVELOPE = {"schema": store.SCHEMA, "kind": "Recording"}
ROOT_OF_BACKWARD = "aten.ones_like.default"  # tells how many backward passes a step has
OTHERS = "aten.others.default"
BATCHED = {"bmm", "baddbmm"}  # products that may be those of attention
ROWS = {"select", "unbind"}  # that a loop over rows is known by
BESIDE = "carry/site-packages/"  # where libraries lay that the GPU machine does not have
PUBLIC = "carry/public/"  # where the public projects lay, each in a folder of its name
SUMS = ("calls", "micros", "device_micros", "moved_bytes", "flops", "layout_micros")


def main(folder, name):
    machine = store.load(folder / "machine.json", Machine)
    kept = [each for each in machine.packages if each.name in {"torch", "triton"}]
    machine = replace(machine, packages=tuple(kept))
    ranks = collect(folder, load(folder).warmup)
    ranks = tuple(with_short_paths(as_installed(each)) for each in ranks)
    whole = Recording(ranks, machine)
    for least_us in THRESHOLDS_US:
        trimmed = Recording(tuple(trim(each, least_us) for each in ranks), machine)
        encoded = msgspec.json.encode(plain(trimmed) | ENVELOPE)
        if len(encoded) <= LARGEST_BYTES:
            break
    if trouble := difference(whole, trimmed):
        sys.exit(f"{name}: not written, {trouble}: below {least_us} us there is what matters")
    path = Path(__file__).with_name(f"{name}.json")
    path.write_bytes(encoded + b"\n")
    sys.stdout.write(
        f"{path}: {len(encoded)} bytes; what takes less than {least_us} us is summed\n"
    )


def trim(evidence, least_us):
    """The evidence with what is short summed."""
    tree = call_tree(evidence)
    longest = defaultdict(float)  # calls that may be told as repeats stay together
    for call, micros in zip(evidence.calls, tree.micros, strict=True):
        longest[call.path] = max(longest[call.path], micros)
    unused = [place for place, call in enumerate(evidence.calls) if call.unused]
    needless = {place for each in evidence.zeroed for place in each.calls}
    needless.update(tree.outermost(unused))
    needless.update(place for group in repeats(evidence, tree) for place in group)
    learns = evidence.parameters is not None and evidence.step_kind == "optimizer"
    untrained = evidence.parameters.without_gradient if learns else ()
    told = {name.rpartition(".")[0] for name, _ in untrained}  # called or not, that is the question
    scores = {id(one) for each in attentions(evidence) for one, _ in each.operations}
    attend = {home_of(evidence.calls, one.call) for one in evidence.operations if id(one) in scores}
    kept = [
        place
        for place, call in enumerate(evidence.calls)
        if longest[call.path] >= least_us
        or place in needless | attend
        or call.path in told
        or call.parent < 0
    ]
    new = {old: place for place, old in enumerate(kept)}

    def home(place):
        while place >= 0 and place not in new:
            place = evidence.calls[place].parent
        return new.get(place, -1)

    calls = [replace(evidence.calls[old], parent=home(evidence.calls[old].parent)) for old in kept]
    matters = [id(each) in scores or is_told_by_itself(each) for each in evidence.operations]
    operations = [replace(each, call=home(each.call)) for each in evidence.operations]
    return replace(
        evidence,
        calls=tuple(replace(each, inputs=()) for each in calls),
        operations=tuple(summed(operations, least_us, matters)),
        kernels=tuple(longest_kernels(evidence.kernels)),
        zeroed=tuple(
            replace(each, calls=tuple(map(new.get, each.calls))) for each in evidence.zeroed
        ),
        sampled=tuple(most_samples(evidence.sampled)),
        memory=evidence.memory[:: max(1, len(evidence.memory) // KEPT_MOMENTS)],
        sensors=(),
        stacks=(),
    )


def summed(operations, least_us, matters):
    """The long operations, and those that matter; the short ones of one line, call and name."""
    alike = defaultdict(list)
    on_gpu = any(each.device_micros is not None for each in operations)
    for each, is_kept in zip(operations, matters, strict=True):
        on_host = on_cpu(each) or not on_gpu  # a view on the GPU takes no time of its own
        micros = each.device_micros or (each.micros if on_host else 0.0)
        if is_kept:
            yield each
        elif micros >= least_us:
            yield replace(each, shapes=kind(each))
        else:
            place = each.where if micros >= least_us / 16 else Line()
            name = each.name if place.path or each.flops or short(each) in COPIES else OTHERS
            alike[name, place, each.call, each.backward, each.phase, kind(each)].append(each)
    for (name, place, *_, shapes), members in alike.items():
        sums = {name: sum(getattr(each, name) or 0 for each in members) for name in SUMS}
        if members[0].device_micros is None:
            sums["device_micros"] = None
        yield replace(members[0], name=name, where=place, shapes=shapes, **sums)


def is_told_by_itself(operation):
    """Whether a rule counts it, or asks for its shapes, however short it is."""
    tile = operation.call < 0 and short(operation) in {*CUTS, *COPIES}
    return operation.waits or operation.name == ROOT_OF_BACKWARD or tile


def kind(operation):
    """What an operation was of, as far as a rule asks: shapes, precision, or that it is the host's.

    Shapes tell attention and loops over rows, a precision how fast a product can be.
    """
    if short(operation) in BATCHED | ROWS:
        return operation.shapes
    first = tensors(operation)[:1] if operation.flops or on_cpu(operation) else ()
    return "".join(f"{each.kind}[]@{each.device}" for each in first)


def longest_kernels(kernels):
    ordered = sorted(kernels, key=lambda each: -each.micros)
    yield from (replace(each, name=each.name[:80]) for each in ordered[:KEPT_KERNELS])
    if rest := ordered[KEPT_KERNELS:]:
        yield Kernel("others", sum(each.calls for each in rest), sum(each.micros for each in rest))


def most_samples(sampled):
    """The lines found most often, and how often all the others were, so that shares stay true."""
    yield from sampled[:KEPT_SAMPLES]
    for waiting in (False, True):
        rest = [each.samples for each in sampled[KEPT_SAMPLES:] if each.waiting == waiting]
        if rest:
            yield Sampled(Line(), sum(rest), "", waiting)


def with_short_paths(evidence):
    """Every line's path from the folder that holds the script's own files on."""
    paths = {each.path for each in lines_in(evidence) if each.path.startswith("/")}
    own = [path for path in paths if "site-packages" not in path and PUBLIC not in path]
    root = PurePath(commonpath([str(PurePath(path).parent) for path in own]) if own else "/").parent

    def shortened(line):
        path = PurePath(line.path.rpartition(PUBLIC)[2].rpartition("packages/")[2])
        told = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        return replace(line, path=told) if line.path else line

    return with_lines(evidence, shortened)


def as_installed(evidence):
    """What ran in a library beside the script at the line of the script that called the library."""
    calls = list(evidence.calls)
    for position, call in enumerate(calls):  # a caller comes before its callees
        chain = [each for each in (call.where, *call.through) if BESIDE not in each.path]
        around = calls[call.parent].where if call.parent >= 0 else Line()
        where, *through = chain or (around,)
        calls[position] = replace(call, where=where, through=tuple(through))
    callers = defaultdict(Counter)  # of each of its lines and files
    operations = []
    for each in evidence.operations:
        if BESIDE in each.where.path and each.call >= 0:
            where = calls[each.call].where
            callers[each.where][where] += 1
            callers[each.where.path][where] += 1
            operations.append(replace(each, where=where))
        else:
            operations.append(each)

    def called(line):
        if BESIDE not in line.path:
            return line
        known = callers[line] or callers[line.path] or Counter([Line()])
        return known.most_common(1)[0][0]

    return with_lines(replace(evidence, calls=tuple(calls), operations=tuple(operations)), called)


def with_lines(value, change):
    """The value with every line in it changed."""
    if isinstance(value, Line):
        return change(value)
    if is_dataclass(value):
        named = {each.name: with_lines(getattr(value, each.name), change) for each in fields(value)}
        return replace(value, **named)
    return tuple(with_lines(each, change) for each in value) if isinstance(value, tuple) else value


def lines_in(value):
    if isinstance(value, Line):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from lines_in(getattr(value, each.name))
    elif isinstance(value, tuple):
        for each in value:
            yield from lines_in(each)


def difference(whole, trimmed):
    """Where the trimmed recording would be judged otherwise; empty: nowhere."""
    before, after = whole.ledger, trimmed.ledger
    for cause in sorted({row.cause for row in before.rows}):
        if abs(before.total(cause) - after.total(cause)) > APART * before.step_ms:
            return f"{cause} is {after.total(cause):.2f} ms instead of {before.total(cause):.2f}"
    told, kept = map(savings, (whole, trimmed))
    if told.keys() != kept.keys():
        return f"findings are {sorted(kept)} instead of {sorted(told)}"
    moved = [code for code, saving in told.items() if abs(saving - kept[code]) > APART]
    return f"savings of {moved} are others" if moved else ""


def savings(recording):
    """What each finding would save; those of one rule are numbered, dearest first."""
    found = {}
    for each in diagnose(recording):
        number = sum(code == each.code for code, _ in found)
        found[each.code, number] = each.saving or 0.0
    return found


def plain(value):
    """A value as JSON has it, without what a default says already."""
    if is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in fields(value)}
        usual = {each.name: each.default for each in fields(value) if each.default is not MISSING}
        return {key: plain(each) for key, each in named.items() if each != usual.get(key, MISSING)}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
