"""Which changes are tried, and in which order."""

import sys
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
from pitstop.tune.change import Facts, find_change, load_changes
from pitstop.tune.compile_cost import operations
from pitstop.tune.search.order import Choice, choose, facts_of, rival

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


def test_what_can_be_switched_comes_first_by_what_is_promised():
    findings = [
        Finding(changes=("compile",), saving=0.5, code="PIT206"),
        Finding(changes=("loader",), saving=0.4, code="PIT101"),
        Finding(changes=("channels-last",), saving=0.1, code="PIT407"),
        Finding(changes=("bf16",), saving=0.3, code="PIT407"),
        Finding(changes=("no-such-change",), saving=0.9, code="PIT999"),
    ]
    found = choose(CHANGES, findings, GPU, Choice())
    order = [each.change.name for each in found.chosen]
    assert order[:2] == ["bf16", "channels-last"]
    assert order.index("fused-optimizer") < order.index("compile") < order.index("loader")
    assert (found.chosen[0].predicted, found.chosen[0].code) == (0.3, "PIT407")


def test_bf16_is_never_tried_where_it_is_only_emulated():
    emulates = Facts(trained(settings=Settings("cpu", bfloat16=False)), "cpu", cores=2)
    assert "bf16" not in names(emulates, [Finding(changes=("bf16",), saving=0.5, code="PIT206")])
    assert names(emulates, only=("bf16",)) == ["bf16"]  # unless the user wants to see it


def test_what_two_findings_promise_of_one_change_adds_up():
    findings = [
        Finding(changes=("fused-group-norm", "compile"), saving=0.25, code="PIT605"),
        Finding(changes=("fused-group-norm",), saving=0.19, code="PIT406"),
        Finding(changes=("fused-group-norm",), code="PIT604"),
    ]
    first = choose(CHANGES, findings, GPU, Choice()).chosen[0]
    assert (first.change.name, first.predicted, first.code) == ("fused-group-norm", 0.44, "PIT605")


def test_a_suspicion_of_the_source_promises_nothing():
    suspicion = Finding(changes=("bf16",), saving=0.5, confidence="suspected", code="PIT206")
    assert not any(each.code for each in choose(CHANGES, [suspicion], GPU, Choice()).chosen)


def test_what_is_promised_or_usually_pays_is_tried_together_and_what_compiles_is_not():
    findings = [
        Finding(changes=(each,), saving=0.1, code="PIT1") for each in ("compile", "threads")
    ]
    chosen = choose(CHANGES, findings, CPU, Choice()).chosen
    together = {each.change.name for each in chosen if each.promising}
    assert {"threads", "fused-optimizer"} <= together
    assert not together & {"compile", "loader"}


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


def test_what_changes_training_is_tried_only_on_request():
    assert "batch-size" not in names()
    assert "batch-size" in names(training_changes=True)
    assert names(only=("batch-size",)) == []


def test_only_and_skip():
    assert set(names(CPU, only=("tf32", "bf16"))) == {"tf32", "bf16"}  # asked for by name: tried
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


def network(paths, accumulated=1, shapes="[8]", device="cpu"):
    """Calls of a network of blocks, each of a product in a layer of torch's own, and a head."""
    calls, work = [], []
    for _ in range(accumulated):
        top = len(calls)
        calls.append(ModuleCall("net", "Net", NOWHERE, -1, shapes, parameters=99))
        for path in (*paths, "net.head"):
            kind = "Head" if path == "net.head" else "Block"
            calls.append(ModuleCall(path, kind, NOWHERE, top, shapes, parameters=8))
            layer = ModuleCall(f"{path}.lin", "Linear", NOWHERE, len(calls) - 1, "", parameters=8)
            calls.append(layer)
            for backward in (False, True):
                product = Operation("aten.mm.default", NOWHERE, "", 10, 1.0, call=len(calls) - 1)
                work.append(replace(product, backward=backward))
    settings = Settings(device)
    return trained(calls=tuple(calls), operations=tuple(work), settings=settings)


def test_blocks_that_repeat_are_compiled_first_and_a_network_without_them_as_a_whole():
    scopes = [
        [each["scope"] for each in find_change("compile").tries(Facts(network(paths)))]
        for paths in (("net.0", "net.1"), ("net.0",))
    ]
    assert scopes == [["blocks", "whole"], ["whole"]]


def test_to_compile_takes_one_block_of_each_kind_and_batches_that_are_accumulated_cost_nothing():
    twelve = [f"net.{number}" for number in range(12)]
    once, again = network(twelve), network(twelve, accumulated=4)
    for seen in (once, again):
        assert operations(seen, "blocks") == 10
        assert operations(seen, "whole") == 130
    takes_s = find_change("compile").when.takes_s
    on_cpu, on_gpu = (
        takes_s(each, {"scope": "whole"}) for each in (once, network(twelve, 1, device="cuda"))
    )
    assert takes_s(once, {"scope": "blocks"}) < on_cpu / 3
    assert on_gpu < on_cpu  # there g++ builds every kernel


def test_a_compiler_that_takes_longer_than_all_steps_of_an_inference_is_not_tried():
    useless = find_change("compile").when.useless
    seen = replace(network(["net.0", "net.1"]), step_kind="module", steps=(Step(100.0),) * 8)

    def batches(number, starts=1):
        return replace(seen, loaders=(Loader("D", 0, per_epoch=number, starts=starts),))

    assert useless(batches(100)) == "it takes about 37 s, and all steps of the script 10.0 s"
    assert not useless(batches(10_000))
    assert not useless(batches(100, starts=2))  # it goes on, nobody knows for how long
    assert not useless(replace(batches(100), step_kind="optimizer"))


def test_nothing_is_compiled_where_there_is_no_compiler(monkeypatch):
    impossible = find_change("compile").when.impossible
    assert not impossible(Evidence())
    monkeypatch.setenv("PATH", "")
    assert (
        impossible(Evidence()) == "torch.compile needs a C++ compiler and finds none: install g++"
    )
    monkeypatch.setenv("CXX", sys.executable)
    assert not impossible(Evidence())


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
    inner = [ModuleCall(f"net.{x}", "Block", NOWHERE, 0, "", parameters=1) for x in range(2)]
    calls = (*(ModuleCall("net", "Net", NOWHERE, -1, each) for each in inputs), *inner)
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
    assert scopes[plain,] == ["whole"]
    assert scopes[plain, again] == ["whole", "inside-checkpoints"]
    assert scopes[()] == ["blocks", "whole", "inside-checkpoints"]
