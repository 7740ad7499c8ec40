"""What the first run tells of a script before anything is tried on it."""

import re
from pathlib import Path

import pytest

import pitstop.tune.changes
from pitstop.core.evidence import (
    NOWHERE,
    Compiled,
    Evidence,
    Gap,
    Loader,
    Memory,
    ModuleCall,
    Operation,
    Settings,
    Step,
)
from pitstop.tune.change import Facts, find_change, load_changes
from pitstop.tune.ruled_out import own_precision

CONVOLUTION, PRODUCT = (
    Operation(name, NOWHERE, "float32[4,4]@cuda", 1, 1.0)
    for name in ("aten.convolution.default", "aten.mm.default")
)


@pytest.mark.parametrize(
    ("settings", "operation", "precision"),
    [
        (None, CONVOLUTION, "float32"),
        (Settings("cuda:0", autocast="bfloat16", tf32_cudnn=True), CONVOLUTION, "bfloat16"),
        (Settings("cpu", autocast="float16"), PRODUCT, "float16"),
        (Settings("cuda:0", tf32_cudnn=True), CONVOLUTION, "tfloat32"),  # as torch is by default
        (Settings("cuda:0", tf32_cudnn=True), PRODUCT, "float32"),
        (Settings("cuda:0", tf32_matmul=True), PRODUCT, "tfloat32"),
        (Settings("cpu", tf32_cudnn=True), CONVOLUTION, "float32"),
    ],
)
def test_a_script_rounds_to_what_it_computes_in(settings, operation, precision):
    evidence = Evidence(settings=settings, operations=(operation,))
    assert own_precision(evidence) == precision


def operation(name, shapes="float32[4,4]@cuda"):
    return Operation(name, NOWHERE, shapes, 1, 1.0)


def reserved(*mebibytes, inspected=()):
    """Three steps of a second, the first of them warm-up, and a reading in each second."""
    readings = [
        Memory(at, gpu_reserved_bytes=each * 2**20, inspected=at in inspected)
        for at, each in enumerate(mebibytes)
    ]
    steps = tuple(Step(1000.0, ended_s=float(at)) for at in range(3))
    return Evidence(steps=steps, warmup_steps=1, memory=tuple(readings))


def waiting(ms, pinned=False):
    loaders = (Loader("Pictures", 2, pinned=pinned),)
    return Evidence(steps=(Step(100.0, data_wait_ms=ms),) * 3, loaders=loaders)


HALF = operation("aten.mm.default", "bfloat16[4,4]@cuda bfloat16[4,4]@cuda")
NORM = operation("aten.native_group_norm.default")
TIMED = operation("aten.sum.default")  # in float32, and no product
EMPTIED = operation("torch.cuda.empty_cache")
CALL = ModuleCall("", "Net", NOWHERE, -1, "float32[4,4]")
ATTENTION = ModuleCall("", "MultiheadAttention", NOWHERE, -1, "float32[4,4]")
WEIGHTS = Operation("aten._softmax.default", NOWHERE, "", 1, 1.0, call=1)
BLOCK = ModuleCall("", "Block", NOWHERE, -1, "float32[4,4]")
PAIR = "float32[4,4]@cpu float32[4,4]@cpu"
SCORES = Operation("aten.mm.default", NOWHERE, PAIR, 1, 1.0, call=1)
WRITTEN = Operation("aten._softmax.default", NOWHERE, "float32[4,4]@cpu", 1, 1.0, call=1)
VALUES = Operation("aten.mm.default", NOWHERE, PAIR, 1, 1.0, call=1)
RECORDED = ModuleCall("", "Net", NOWHERE, -1, "float32[4,4]", graph=True)


@pytest.mark.parametrize(
    ("name", "without", "with_it"),
    [
        ("tf32", Evidence(operations=(HALF, TIMED)), Evidence(operations=(HALF, PRODUCT))),
        ("bf16", Evidence(operations=(HALF, TIMED)), Evidence(operations=(TIMED,))),
        ("fused-group-norm", Evidence(operations=(TIMED,)), Evidence(operations=(NORM,))),
        ("no-empty-cache", Evidence(operations=(TIMED,)), Evidence(operations=(EMPTIED,))),
        ("inference-mode", Evidence(calls=(CALL,)), Evidence(calls=(CALL, RECORDED))),
        (
            "no-attention-weights",
            Evidence(calls=(ATTENTION, CALL), operations=(WEIGHTS,)),
            Evidence(calls=(CALL, ATTENTION), operations=(WEIGHTS,)),
        ),
        (
            "fused-attention",
            Evidence(calls=(CALL, ATTENTION), operations=(SCORES, WRITTEN, VALUES)),
            Evidence(calls=(CALL, BLOCK), operations=(SCORES, WRITTEN, VALUES)),
        ),
        ("compile", Evidence(compiled=(Compiled(NOWHERE),)), Evidence()),
        ("cudnn-benchmark", Evidence(settings=Settings(cudnn_benchmark=True)), Evidence()),
        ("cudnn-benchmark", Evidence(settings=Settings(deterministic=True)), Evidence()),
        ("loader", waiting(1.0), waiting(3.0)),
        ("non-blocking", waiting(3.0), waiting(3.0, pinned=True)),
        ("allocator", reserved(10, 20, 400, 402, 402), reserved(10, 20, 400, 450, 402)),
        ("allocator", reserved(10, 20, 400, 450, 400, inspected=(3,)), reserved(10, 20)),
    ],
)
def test_what_the_first_run_makes_useless_is_not_tried(name, without, with_it):
    useless = find_change(name).when.useless
    assert useless(without)
    assert not useless(with_it)


@pytest.mark.parametrize(
    "name", ["tf32", "bf16", "fused-group-norm", "no-empty-cache", "inference-mode", "allocator"]
)
def test_a_first_run_that_was_not_looked_at_closely_tells_nothing(name):
    assert not find_change(name).when.useless(Evidence(steps=(Step(100.0),) * 3))


@pytest.mark.parametrize(
    ("device", "launching_ms", "kind", "captured"),
    [
        ("cuda", 40, "module", ["blocks", "whole"]),
        ("cuda", 40, "optimizer", ["whole"]),  # blocks may not: a backward pass may be open
        ("cuda", 10, "module", []),
        ("cpu", 40, "module", []),
    ],
)
def test_what_is_compiled_is_captured_first_where_a_gpu_waits_for_launches(
    device, launching_ms, kind, captured
):
    gaps = (Gap("launch", 1e3 * launching_ms, 400), Gap("python", 50e3, 2))
    evidence = Evidence(step_kind=kind, gaps=gaps, timeline_ms=100.0)
    tried = find_change("compile").tries(Facts(evidence, device))
    modes = [each.get("mode", "") for each in tried]
    assert [each["scope"] for each in tried if "mode" in each] == captured
    assert modes == sorted(modes, reverse=True)


def test_every_change_has_its_row_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \|(.*)\|$", page, re.MULTILINE))
    for each in load_changes(pitstop.tune.changes):
        said = [cell.strip() for cell in rows[each.name].split("|")]
        assert said[:2] == [each.summary.replace("``", "`"), each.effect], each.name
        assert said[2] == ", ".join(each.helps), each.name
