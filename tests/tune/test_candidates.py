"""Which changes are tried, and in which order."""

import pytest

import pitstop.tune.changes
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Memory, Settings, Step
from pitstop.core.finding import Finding
from pitstop.tune.candidates import ORDER, Choice, Facts, choose, facts_of, rival
from pitstop.tune.change import load_changes

CHANGES = load_changes(pitstop.tune.changes)
GPU = Facts("cuda", trains=True, wait=0.3, cores=8)
CPU = Facts("cpu", trains=True, wait=0.0, cores=2)


def names(facts=GPU, findings=(), **choice):
    found = choose(CHANGES, findings, facts, Choice(**choice))
    return [each.change.name for each in found.chosen]


def test_every_change_of_ours_has_its_place_in_the_order():
    assert {each.name for each in CHANGES} <= set(ORDER)


def test_what_a_finding_promises_comes_first_by_its_promise():
    findings = [
        Finding(changes=("compile",), saving=0.1, code="PIT206"),
        Finding(changes=("loader",), saving=0.4, code="PIT101"),
        Finding(changes=("channels-last",), code="PIT407"),
        Finding(changes=("no-such-change",), saving=0.9, code="PIT999"),
    ]
    found = choose(CHANGES, findings, GPU, Choice())
    assert [each.change.name for each in found.chosen[:3]] == ["loader", "compile", "channels-last"]
    assert [each.predicted for each in found.chosen[:3]] == [0.4, 0.1, None]
    assert found.chosen[0].code == "PIT101"


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


def test_what_changes_training_is_tried_only_on_request():
    assert "batch-size" not in names()
    assert "batch-size" in names(training_changes=True)
    assert names(only=("batch-size",)) == []


def test_only_and_skip():
    assert names(CPU, only=("tf32", "bf16")) == ["tf32", "bf16"]  # asked for by name: tried
    assert "bf16" not in names(skip=("bf16",))
    with pytest.raises(PitstopError, match="b16: no such change; choose from allocator"):
        names(only=("b16",))


def test_for_memory_other_changes_are_tried():
    tried = names(goal="memory")
    assert "checkpointing-on" in tried
    assert "tf32" not in tried
    assert "checkpointing-on" not in names()


def test_inference_gets_inference_mode_and_no_optimizer():
    tried = names(Facts("cuda", trains=False))
    assert "inference-mode" in tried
    assert "fused-optimizer" not in tried
    assert "inference-mode" not in names()


def test_rivals():
    assert rival("fp16", ["tf32", "bf16"]) == "bf16"
    assert rival("bf16", ["bf16", "tf32"]) == ""


def test_facts_come_from_the_first_run():
    steps = (Step(100.0, data_wait_ms=25.0),) * 4
    found = facts_of(Evidence(step_kind="optimizer", steps=steps), cores=2)
    assert found == Facts("cpu", trains=True, wait=0.25, cores=2)
    on_gpu = Evidence(step_kind="loader", steps=steps, memory=(Memory(0.0, gpu_peak_bytes=1),))
    assert facts_of(on_gpu, 2).device == "cuda"
    named = Evidence(steps=steps, settings=Settings(device="cuda:0"))
    assert facts_of(named, 2).device == "cuda"
