"""Which changes are tried, and in which order."""

from dataclasses import replace

import pytest

import pitstop.tune.changes
from pitstop.core.evidence import (
    NOWHERE,
    Evidence,
    Gap,
    Loader,
    Memory,
    ModuleCall,
    Operation,
    Optimizer,
    Settings,
    Step,
)
from pitstop.core.finding import Finding
from pitstop.tune.candidates import ORDER, Choice, choose, facts_of, rival
from pitstop.tune.change import Facts, find_change, load_changes

CHANGES = load_changes(pitstop.tune.changes)


def trained(wait=0.3, optimizer=0.1, kind="optimizer", **seen):
    """What a first run recorded."""
    step = Step(100.0, data_wait_ms=100 * wait, optimizer_ms=100 * optimizer)
    return Evidence(step_kind=kind, steps=(step,) * 4, **seen)


MATRIX_PRODUCT = Operation("mm", NOWHERE, "float32[8,8]@cuda", 1, 1.0)
HALF = Operation("convolution", NOWHERE, "bfloat16[1,8,8,8]@cuda", 1, 1.0)
GPU = Facts(trained(), "cuda", cores=8)
CPU = Facts(trained(wait=0.0), "cpu", cores=2)


def names(facts=GPU, findings=(), **choice):
    found = choose(CHANGES, findings, facts, Choice(**choice))
    return [each.change.name for each in found.chosen]


def test_every_change_of_ours_has_its_place_in_the_order():
    assert {each.name for each in CHANGES} <= set(ORDER)


def test_what_a_finding_promises_comes_first_by_its_promise():
    findings = [
        Finding(changes=("compile",), saving=0.1, code="PIT206"),
        Finding(changes=("loader",), saving=0.4, code="PIT101"),
        Finding(changes=("inference-mode",), code="PIT407"),
        Finding(changes=("no-such-change",), saving=0.9, code="PIT999"),
    ]
    found = choose(CHANGES, findings, GPU, Choice())
    assert [each.change.name for each in found.chosen[:2]] == ["loader", "inference-mode"]
    assert [each.predicted for each in found.chosen[:2]] == [0.4, None]
    assert found.chosen[0].code == "PIT101"
    last = found.chosen[-1]
    assert (last.change.name, last.predicted) == ("compile", 0.1)


def test_what_two_findings_promise_of_one_change_adds_up():
    findings = [
        Finding(changes=("fused-group-norm", "compile"), saving=0.25, code="PIT605"),
        Finding(changes=("fused-group-norm",), saving=0.19, code="PIT406"),
        Finding(changes=("fused-group-norm",), code="PIT604"),
    ]
    first = choose(CHANGES, findings, GPU, Choice()).chosen[0]
    assert (first.change.name, first.predicted, first.code) == ("fused-group-norm", 0.44, "PIT605")


def test_precision_is_settled_before_the_layout_that_depends_on_it():
    tried = names(findings=[Finding(changes=("channels-last",), saving=0.5, code="PIT406")])
    place = tried.index("channels-last")
    assert {"tf32", "bf16", "fp16", "fused-group-norm"} <= set(tried[:place])
    assert len(tried) == len(set(tried))


def test_what_decides_over_a_large_promise_is_tried_before_small_ones():
    """Else a short budget would end before the layout that promises most has its turn."""
    findings = [
        Finding(changes=("channels-last",), saving=0.12, code="PIT406"),
        Finding(changes=("fused-optimizer",), saving=0.05, code="PIT206"),
    ]
    tried = names(findings=findings)
    decide = ["tf32", "bf16", "fp16", "fused-group-norm"]
    assert tried[:6] == [*decide, "channels-last", "fused-optimizer"]


def test_activations_are_kept_where_precision_has_halved_them():
    tried = names(findings=[Finding(changes=("checkpointing-off",), saving=0.3, code="PIT508")])
    assert tried[:3] == ["bf16", "fp16", "checkpointing-off"]


def test_what_makes_every_later_run_start_slowly_comes_late():
    findings = [
        Finding(changes=(name,), saving=0.5, code="PIT406")
        for name in ("compile", "cudnn-benchmark")
    ]
    assert names(findings=findings)[-2:] == ["cudnn-benchmark", "compile"]


def test_a_suspicion_of_the_source_promises_nothing():
    suspicion = Finding(changes=("compile",), saving=0.5, confidence="suspected", code="PIT206")
    assert names(findings=[suspicion])[-1] == "compile"


def test_nothing_that_needs_a_gpu_is_tried_on_a_cpu():
    found = choose(CHANGES, (), CPU, Choice())
    tried = {each.change.name for each in found.chosen}
    assert not tried & {"tf32", "cudnn-benchmark", "non-blocking", "fp16", "allocator"}
    assert "threads" in tried
    assert "threads" not in names(GPU)
    assert any(line.startswith("not tried on a CPU: allocator") for line in found.left_out)


def test_a_loader_is_tried_where_data_is_waited_for_or_a_finding_asks():
    assert "loader" in names(GPU)
    assert "loader" not in names(CPU)
    assert "loader" in names(CPU, [Finding(changes=("loader",), code="PIT104")])


@pytest.mark.parametrize(("own", "batches"), [(0, 8), (4, 8), (12, 12)])
def test_batches_come_in_bursts_of_as_many_as_there_are_workers_off_or_on(own, batches):
    facts = Facts(trained(loaders=(Loader("Clips", own, batches=9),)), "cpu", cores=8)
    (loader,) = choose(CHANGES, (), facts, Choice(only=("loader",))).chosen
    waiting = replace(loader, waits=True)
    assert waiting.burst == batches
    assert replace(waiting, options=({"workers": 2},)).burst == max(2, own)


@pytest.mark.parametrize(
    ("loaders", "epoch"),
    [
        ((), 0),
        ((Loader("Clips", 4, batches=4, starts=1),), 0),  # an IterableDataset
        ((Loader("Clips", 4, batches=4, starts=1, per_epoch=12),), 12),
        ((Loader("Clips", 4, batches=9, starts=1, per_epoch=13),), 7),  # two make one step
        ((Loader("Clips", 4, batches=2, starts=1, per_epoch=6),), 12),  # each for two steps
        ((Loader("Clips", 4, batches=4, starts=4, per_epoch=12),), 1),  # next(iter(loader))
        ((Loader("Clips", 4, batches=5, starts=3, per_epoch=500),), 2),  # it breaks off
        (
            (
                Loader("Held out", 4, batches=90, starts=3, per_epoch=30),
                Loader("Clips", 4, batches=4, starts=1, per_epoch=12, trains=True),
            ),
            12,
        ),
    ],
)
def test_the_loader_knows_how_long_an_epoch_is(loaders, epoch):
    facts = Facts(trained(loaders=loaders), "cpu", cores=8)
    (loader,) = choose(CHANGES, (), facts, Choice(only=("loader",))).chosen
    assert len(facts.evidence.steps) == 4
    assert loader.epoch == epoch


def test_workers_that_are_far_ahead_show_no_bursts():
    one_would_do = trained(wait=0.5, loaders=(Loader("Clips", 0, batches=9),))
    facts = Facts(one_would_do, "cpu", cores=8)
    (loader,) = choose(CHANGES, (), facts, Choice(only=("loader",))).chosen
    bursts = {each: replace(loader, options=({"workers": each},)).burst for each in (2, 4, 8)}
    assert bursts == {2: 2, 4: 1, 8: 1}
    assert replace(loader, options=({"workers": 8},), waits=True).burst == 8


def test_what_changes_training_is_tried_only_on_request():
    assert "batch-size" not in names()
    assert "batch-size" in names(training_changes=True)
    assert names(only=("batch-size",)) == []


def test_what_changes_training_comes_last_as_nothing_after_it_could_be_guarded():
    asked = [Finding(changes=("batch-size",), saving=0.9, code="PIT103")]
    assert names(findings=asked, training_changes=True)[-1] == "batch-size"


def test_only_and_skip():
    assert names(CPU, only=("tf32", "bf16")) == ["tf32", "bf16"]  # asked for by name: tried
    assert "bf16" not in names(skip=("bf16",))


def test_for_memory_other_changes_are_tried():
    tried = names(goal="memory")
    assert "checkpointing-on" in tried
    assert "tf32" not in tried
    assert "checkpointing-on" not in names()


def test_what_the_first_run_rules_out_is_not_tried_for_memory_either():
    seen = (ModuleCall("", "Linear", NOWHERE, -1, "float32[4,4]"),)
    assert "no-attention-weights" in names(goal="memory")
    assert "no-attention-weights" not in names(Facts(trained(calls=seen), "cuda"), goal="memory")
    functions = (Operation("aten.mm.default", NOWHERE, "", 1, 1.0),)  # and no module
    assert "no-attention-weights" not in names(Facts(trained(operations=functions)), goal="memory")


def test_inference_gets_inference_mode_and_no_optimizer():
    tried = names(Facts(trained(kind="loader"), "cuda"))
    assert "inference-mode" in tried
    assert "fused-optimizer" not in tried
    assert "inference-mode" not in names()


def test_rivals_know_each_other():
    known = {each.name: each for each in CHANGES}
    assert rival(known["fp16"], [known["tf32"], known["bf16"]]) == "bf16"
    assert rival(known["bf16"], [known["tf32"]]) == ""
    for change in CHANGES:
        for name in change.when.rivals:
            assert change.name in known[name].when.rivals


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("channels-last", {"operations": (MATRIX_PRODUCT,)}),
        ("tf32", {"operations": (HALF,)}),
        ("bf16", {"operations": (HALF,)}),
        ("bf16", {"settings": Settings("cuda", autocast="bfloat16")}),
        ("bf16", {"settings": Settings("cuda", bfloat16=False)}),
        ("tf32", {"settings": Settings("cuda", tf32_matmul=True, tf32_cudnn=True)}),
        ("checkpointing-off", {"calls": (ModuleCall("net", "Net", NOWHERE, -1, ""),)}),
        ("fused-optimizer", {"optimizers": (Optimizer("Adam", fused=True),)}),
        ("fused-optimizer", {"optimizer": 0.009}),
        ("loader", {"wait": 0.01}),
        ("non-blocking", {"gaps": (Gap("copy", 300.0, 1),), "timeline_ms": 100.0}),
    ],
)
def test_what_the_first_run_shows_to_be_of_no_use_is_left_out_and_said(name, seen):
    facts = Facts(trained(**seen), "cuda", cores=2)
    found = choose(CHANGES, (), facts, Choice())
    assert name not in [each.change.name for each in found.chosen]
    assert any(name in line for line in found.left_out)
    assert name in names()  # where nothing is known against it
    assert name in names(facts, [Finding(changes=(name,), code="PIT000")])
    assert names(facts, only=(name,)) == [name]


def test_facts_come_from_the_first_run():
    found = facts_of(trained(), cores=2)
    assert (found.device, found.work, found.cores) == ("cpu", "training", 2)
    on_gpu = facts_of(trained(kind="loader", memory=(Memory(0.0, gpu_peak_bytes=1),)), 2)
    assert (on_gpu.device, on_gpu.work) == ("cuda", "inference")
    assert facts_of(trained(settings=Settings(device="cuda:0")), 2).device == "cuda"


def test_an_optimizer_whose_kernels_take_long_is_fused_though_python_is_soon_done_with_it():
    kernels = Operation("_foreach_add", NOWHERE, "", 1, 1.0, device_micros=4e3, phase="optimizer")
    facts = Facts(trained(optimizer=0.001, operations=(kernels,)), "cuda", cores=2)
    assert "fused-optimizer" in names(facts)


@pytest.mark.parametrize(
    ("operations", "models", "first"),
    [(1000, 1, "whole"), (1000, 2, "blocks"), (2000, 1, "blocks")],
)
def test_blocks_are_compiled_first_where_the_whole_would_take_minutes(operations, models, first):
    """Batches that are accumulated call a model again, and nothing is compiled for that."""
    tops = [ModuleCall(f"net{number % models}", "Net", NOWHERE, -1, "") for number in range(4)]
    inner = [ModuleCall("net.block", "Block", NOWHERE, number, "") for number in range(4)]
    work = [
        Operation("aten.mm.default", NOWHERE, "", operations, 1.0, call=4 + number, backward=back)
        for number in range(4)
        for back in (False, True)
    ]
    facts = Facts(trained(calls=(*tops, *inner), operations=tuple(work)))
    assert next(each["scope"] for each in find_change("compile").tries(facts)) == first


@pytest.mark.parametrize(
    ("loaders", "inputs", "fixed"),
    [
        ([(True, 1)], ["[8]", "[4]"], True),  # a pyramid: two sizes in each step
        ([(True, 2)], ["[8]"], True),  # the last batch of an epoch is smaller
        ([(True, 1), (False, 9)], ["[8]"], True),  # pictures as large as they are to validate with
        ([(True, 3)], ["[8]"], False),
        ([(False, 3)], ["[8]"], False),
        ([], ["[8]", "[8]"], True),
        ([], ["[8]", "[4]"], False),
    ],
)
def test_blocks_are_compiled_for_one_shape_where_there_is_one(loaders, inputs, fixed):
    loaders = tuple(Loader("D", 0, trains=x, batch_shapes=y) for x, y in loaders)
    calls = tuple(ModuleCall("net", "Net", NOWHERE, -1, each) for each in inputs)
    tries = find_change("compile").tries(Facts(trained(loaders=loaders, calls=calls)))
    (blocks,) = (each for each in tries if each["scope"] == "blocks")
    assert blocks == ({"scope": "blocks", "dynamic": False} if fixed else {"scope": "blocks"})


def test_what_is_compiled_inside_checkpoints_needs_one():
    """Each set of options costs a run."""
    compiles = find_change("compile")
    plain, again = (
        ModuleCall("net", "Net", NOWHERE, -1, "", recomputed=recomputed)
        for recomputed in (False, True)
    )
    scopes = {
        calls: [each["scope"] for each in compiles.tries(Facts(trained(calls=calls)))]
        for calls in ((), (plain,), (plain, again))
    }
    assert scopes[plain,] == ["whole", "blocks"]
    assert scopes[plain, again] == scopes[()] == ["whole", "blocks", "inside-checkpoints"]


def test_what_pays_with_another_change_is_tried_before_it():
    """Only then has it another chance with that one."""
    known = {each.name: each for each in CHANGES}
    pairs = [(each, name) for each in known.values() for name in each.when.pays_with]
    assert pairs
    assert all(each.name in known[name].when.after for each, name in pairs)
