from dataclasses import replace

import pytest

from pitstop.core.evidence import (
    Evidence,
    Gap,
    Kernel,
    Line,
    ModuleCall,
    Operation,
    Sampled,
    Settings,
    Step,
    Zeroed,
)
from pitstop.core.machine import Limits
from pitstop.diagnose.ledger.ledger import account

HERE, THERE = Line("/a/model.py", 10, "forward"), Line("/a/train.py", 20, "main")
GPU = Limits("cuda:0", copy_bytes_per_s=1e12, fp32_flops=1e12, tf32_flops=4e12, bf16_flops=1e13)
CPU = Limits("cpu", copy_bytes_per_s=1e9, fp32_flops=1e9)


def run(total_ms=10.0, wait_ms=0.0, dry_ms=None, **fields):
    step = Step(total_ms, data_wait_ms=wait_ms, dry_ms=dry_ms)
    return Evidence(step_kind="optimizer", steps=(step,) * 5, **fields)


def operation(name="aten.mm.default", device_us=None, micros=0.0, **fields):
    shapes = fields.pop("shapes", "float32[8,8]@cuda")
    return Operation(name, HERE, shapes, 1, micros, device_us, **fields)


def by_cause(ledger):
    return {cause: pytest.approx(ledger.total(cause)) for cause in {r.cause for r in ledger.rows}}


def test_rows_add_up_to_the_step_whatever_was_recorded():
    busy = operation(device_us=4000.0, flops=10**9, moved_bytes=10**6)
    gaps = (Gap("sync", 9000.0, 3, THERE), Gap("launch", 9000.0, 80))
    for evidence in (
        run(),
        run(wait_ms=3.0),
        run(wait_ms=11.0),
        run(operations=(busy,), gaps=gaps, dry_ms=2.0),
        run(operations=(replace(busy, device_micros=40_000.0),), dry_ms=2.0),
        run(operations=(busy,), kernels=(Kernel("gemm", 1, 5000.0),)),
        run(operations=(operation(micros=30_000.0),), sampled=(Sampled(THERE, 3),)),
    ):
        for limits in (GPU, CPU, None):
            ledger = account(evidence, limits)
            assert ledger.total() == pytest.approx(10.0)
            assert all(row.ms > 0 for row in ledger.rows)


def test_a_product_is_split_into_floor_precision_and_the_rest():
    product = operation(device_us=4000.0, flops=10**9)
    ledger = account(run(operations=(product,)), GPU)
    assert by_cause(ledger) == {"floor": 0.1, "precision": 0.9, "above": 3.0, "idle": 6.0}


def test_tf32_where_it_is_on_leaves_less_precision_unused():
    product = operation(device_us=4000.0, flops=10**9)
    settings = Settings("cuda", tf32_matmul=True)
    ledger = account(run(operations=(product,), settings=settings), GPU)
    assert ledger.total("precision") == pytest.approx(0.15)


def test_an_operation_that_only_moves_bytes_has_them_as_its_floor():
    norm = operation("aten.native_group_norm.default", 2000.0, moved_bytes=10**8)
    ledger = account(run(operations=(norm,)), GPU)
    assert by_cause(ledger) == {"floor": 0.1, "above": 1.9, "idle": 8.0}


def test_work_for_nobody_is_no_floor():
    call = ModuleCall("head", "Linear", HERE, -1, "", parameters=9, unused=True)
    inner = ModuleCall("head.0", "Linear", HERE, 0, "", parameters=9)
    product = operation(device_us=4000.0, flops=10**9, call=1)
    ledger = account(run(operations=(product,), calls=(call, inner)), GPU)
    assert by_cause(ledger) == {"unused": 4.0, "idle": 6.0}
    zeroed = run(operations=(product,), calls=(replace(call, unused=False), inner))
    zeroed = replace(zeroed, zeroed=(Zeroed(HERE, (0,)),))
    assert account(zeroed, GPU).total("unused") == pytest.approx(4.0)


def test_only_what_batching_can_save_counts_as_repeated():
    call = ModuleCall("encoder", "Encoder", HERE, -1, "f[8]", parameters=9)
    products = tuple(operation(device_us=3000.0, flops=10**9, call=place) for place in range(2))
    evidence = run(operations=products, calls=(call, call))
    assert account(evidence, GPU).total("repeated") == pytest.approx(2.0)
    chained = replace(evidence, calls=(call, replace(call, chained=True)))
    assert account(chained, GPU).total("repeated") == 0


def on_cpu(step, *operations):
    return Evidence(step_kind="optimizer", steps=(step,) * 5, operations=operations)


def test_a_phase_on_the_cpu_takes_what_it_takes_when_nobody_looks():
    step = Step(10.0, forward_ms=2.5, backward_ms=5.0, optimizer_ms=2.0, other_ms=0.5)
    small = Operation("aten.add_.Tensor", HERE, "float32[8]@cpu", 900, 9000.0, phase="optimizer")
    forward, backward = replace(small, phase="", micros=6000.0), replace(small, phase="backward")
    ledger = account(on_cpu(step, small, forward, backward), CPU)
    assert by_cause(ledger) == {"optimizer": 2.0, "start": 8.0}  # of 9 and 15


def test_to_start_a_small_operation_is_most_of_it_on_a_cpu_only():
    small = Operation("aten.add.Tensor", HERE, "float32[8]@cpu", 100, 3000.0)
    large = Operation("aten.mul.Tensor", HERE, "float32[8]@cpu", 100, 6000.0)
    ledger = account(on_cpu(Step(10.0, other_ms=10.0), small, large), CPU)
    assert by_cause(ledger) == {"start": 3.0, "above": 6.0, "idle": 1.0}
    kernels = run(operations=(replace(small, device_micros=3000.0),))
    assert by_cause(account(kernels, GPU)) == {"above": 3.0, "idle": 7.0}


def test_copies_layouts_and_the_optimizer_have_rows_of_their_own():
    operations = (
        operation("aten.copy_.default", 1000.0),
        operation("aten.convolution.default", 2000.0, layout_micros=500.0, moved_bytes=10**9),
        operation("aten._foreach_add_.List", 3000.0, phase="optimizer"),
    )
    ledger = account(run(operations=operations), GPU)
    assert by_cause(ledger) == {
        "copy": 1.0, "layout": 0.5, "floor": 1.0, "above": 0.5, "optimizer": 3.0, "idle": 4.0,
    }  # fmt: skip


def test_idle_time_of_a_gpu_goes_to_data_first_then_to_the_gaps():
    gaps = (Gap("sync", 2000.0, 3, THERE), Gap("launch", 1000.0, 80))
    ledger = account(run(operations=(operation(device_us=4000.0),), gaps=gaps, dry_ms=2.0), GPU)
    assert ledger.total("data") == pytest.approx(2.0)
    assert ledger.total("sync", where=THERE) == pytest.approx(2.0)
    assert ledger.total("launch") == pytest.approx(1.0)
    assert ledger.total("idle") == pytest.approx(1.0)


def test_on_a_cpu_a_line_is_charged_with_its_time_outside_torch():
    product = operation(micros=2000.0, shapes="float32[8,8]@cpu", flops=10**6)
    sampled = (
        Sampled(THERE, 30),
        Sampled(HERE, 20),
        Sampled(THERE, 20, "torch/autograd/graph.py:_engine_run_backward"),
        Sampled(THERE, 30, waiting=True),
    )
    evidence = run(wait_ms=3.0, operations=(product,), sampled=sampled)
    ledger = account(evidence, CPU)
    assert ledger.total("data") == pytest.approx(3.0)
    assert ledger.total("python", where=THERE) == pytest.approx(3.0)
    assert ledger.total("python", where=HERE) == 0
    assert ledger.total("idle") == pytest.approx(2.0)


def test_on_a_cpu_compiled_code_is_no_python_and_where_nothing_was_inspected_the_rest_may_not_be():
    """A line that calls torch itself looks like Python to a sampler."""
    sampled = (
        Sampled(HERE, 50, f"et/cet{'a' * 49}.py:call"),
        Sampled(THERE, 20, "PIL/ImageFile.py:load"),
        Sampled(THERE, 30, "mine/train.py:<module>"),
    )
    ledger = account(run(sampled=sampled), CPU)
    assert ledger.total("unmeasured", where=HERE) == pytest.approx(5.0)
    assert ledger.total("unmeasured", where=THERE) == pytest.approx(3.0)
    assert ledger.total("python", where=THERE) == pytest.approx(2.0)


def test_a_batch_put_together_while_waiting_is_not_counted_twice():
    stacked = operation("aten.stack.default", micros=2000.0, phase="wait")
    ledger = account(run(wait_ms=3.0, operations=(stacked,)), CPU)
    assert by_cause(ledger) == {"data": 3.0, "idle": 7.0}


def test_one_thread_of_two_cores_has_half_the_rate():
    product = operation(micros=9000.0, shapes="float32[8,8]@cpu", flops=10**6)
    one = run(operations=(product,), settings=Settings("cpu", threads=1))
    assert account(one, CPU, cores=2).total("floor") == pytest.approx(2.0)
    assert account(one, CPU, cores=1).total("floor") == pytest.approx(1.0)


@pytest.mark.parametrize("settings", [Settings("cpu", threads=0), None])
def test_where_the_threads_are_not_known_all_cores_count(settings):
    product = operation(micros=9000.0, shapes="float32[8,8]@cpu", flops=10**6)
    ledger = account(run(operations=(product,), settings=settings), CPU, cores=2)
    assert ledger.total("floor") == pytest.approx(1.0)


def test_the_batches_of_an_accumulated_step_are_not_repeated():
    call = ModuleCall("model", "Net", HERE, -1, "f[8]", parameters=9)
    products = tuple(operation(device_us=3000.0, flops=10**9, call=place) for place in range(2))
    begins = operation("aten.ones_like.default", 0.0, shapes="float32[]@cuda")
    passes = replace(begins, calls=2)
    evidence = run(operations=(*products, passes), calls=(call, call))
    assert account(evidence, GPU).total("repeated") == 0
    once = replace(evidence, operations=(*products, begins))
    assert account(once, GPU).total("repeated") > 0


def test_a_wait_for_data_that_the_timeline_saw_as_python_is_told_once():
    gaps = (Gap("python", 3000.0, 3), Gap("launch", 2000.0, 80))
    busy = operation(device_us=4000.0)
    ledger = account(run(operations=(busy,), gaps=gaps, dry_ms=3.0), GPU)
    assert ledger.total("python") == 0
    assert (ledger.total("data"), ledger.total("launch")) == (3.0, pytest.approx(2.0))


def steps_waiting(*waits_ms):
    return tuple(Step(10.0 + wait, data_wait_ms=wait, dry_ms=wait) for wait in waits_ms)


@pytest.mark.parametrize("sampled", [(), (Sampled(THERE, 3),)])
def test_where_epochs_are_short_their_beginnings_do_not_outweigh_the_step(sampled):
    """As with epochs of four batches, whose workers start anew each time."""
    steps = steps_waiting(0.1, 0.0, 90.0, 0.1, 0.2, 90.0, 0.0, 90.0)
    ledger = account(replace(run(sampled=sampled), steps=steps), CPU)
    assert ledger.step_ms == pytest.approx(10.15)
    assert ledger.total("data") == pytest.approx(0.15)


def test_the_long_waits_of_a_few_steps_are_not_the_median_steps():
    steps = steps_waiting(*[0.2] * 12, 400.0, 400.0)
    evidence = replace(run(operations=(operation(device_us=4000.0),)), steps=steps)
    assert account(evidence, GPU).total("data") == pytest.approx(0.2)


def test_where_every_other_step_waits_the_median_step_waits_half_as_long():
    evidence = replace(run(operations=(operation(device_us=4000.0),)), steps=steps_waiting(
        *[0.0, 4.0] * 8))  # fmt: skip
    ledger = account(evidence, GPU)
    assert (ledger.step_ms, ledger.total("data")) == (12.0, pytest.approx(2.0))


def test_without_ceilings_there_is_no_floor():
    ledger = account(run(operations=(operation(device_us=4000.0, flops=10**9),)), None)
    assert ledger.floor_ms is None
    assert by_cause(ledger) == {"unmeasured": 4.0, "idle": 6.0}


WAITS = operation("aten._to_copy.default", 0.0, micros=10.0, waits=True, moved_bytes=2000)
PNG = Line("/a/data.py", 79, "write")
SAVES = "PIL/ImageFile.py:_encode_tile"
RATES = replace(GPU, pageable_bytes_per_s=1e9)


def samples(at_copy, at_png, elsewhere):
    rest = Sampled(THERE, elsewhere, "modules/conv.py:_conv_forward")
    return Sampled(HERE, at_copy, "a/model.py:forward"), Sampled(PNG, at_png, SAVES), rest


def test_a_line_that_waits_explains_no_more_than_the_time_spent_at_it():
    """It was found there for a tenth of the step; a twentieth may have escaped the samples."""
    busy = operation(device_us=2000.0)
    evidence = run(operations=(busy,), gaps=(Gap("copy", 6000.0, 3, HERE),))
    found = replace(evidence, sampled=samples(20, 0, 180))
    assert account(evidence, GPU).total("transfer", where=HERE) == pytest.approx(6.0)
    ledger = account(found, GPU)
    assert ledger.total("transfer", where=HERE) == pytest.approx(1.5)
    assert ledger.total("idle") == pytest.approx(6.5)
    few = replace(evidence, sampled=samples(2, 0, 18))
    assert account(few, GPU).total("transfer", where=HERE) == pytest.approx(6.0)


def test_python_that_takes_longer_than_the_gpu_can_be_busy_beside_it_leaves_it_idle():
    """2 of 3 ms of kernels were waited for, so 1 ms may have run beside 5 ms of Python."""
    busy = operation(device_us=3000.0)
    gaps = (Gap("copy", 7000.0, 3, HERE),)
    evidence = run(operations=(busy, WAITS), gaps=gaps, sampled=samples(40, 100, 60))
    ledger = account(evidence, RATES)
    assert ledger.total("python", where=PNG) == pytest.approx(4.0, abs=0.01)
    assert ledger.total("transfer", where=HERE) == pytest.approx(2.5)
    assert ledger.total() == pytest.approx(10.0)
    unknown = account(evidence, GPU)  # how long the copies took is not known
    assert unknown.total("python", where=PNG) == 0


def test_python_between_kernels_is_charged_to_the_lines_that_did_work_of_their_own():
    gaps = (Gap("python", 6000.0, 4),)
    evidence = run(
        operations=(operation(device_us=4000.0),), gaps=gaps, sampled=samples(0, 80, 120)
    )
    ledger = account(evidence, GPU)
    assert ledger.total("python", where=PNG) == pytest.approx(4.0)
    (rest,) = [row for row in ledger.rows if row.cause == "python" and not row.where.path]
    assert (rest.ms, rest.calls) == (pytest.approx(2.0), 4)


def test_our_own_work_in_the_timelines_step_is_not_the_scripts_python():
    gaps = (Gap("python", 90_000.0, 5), Gap("launch", 5000.0, 80))
    evidence = run(operations=(operation(device_us=4000.0),), gaps=gaps, timeline_ms=99.0)
    ledger = account(evidence, GPU)
    assert (ledger.total("python"), ledger.total("launch")) == (1.0, pytest.approx(5.0))
    usual = replace(evidence, steps=tuple(Step(ms) for ms in (10, 10, 10, 10, 99, 99, 99)))
    assert account(usual, GPU).total("python") > 4.0  # such steps there are without us


def test_emptying_the_cache_is_work_of_the_host():
    empties = replace(WAITS, name="torch.cuda.empty_cache", shapes="", micros=3000.0)
    freeing = Sampled(HERE, 60, "cuda/memory.py:empty_cache"), Sampled(THERE, 140)
    gaps = (Gap("python", 4000.0, 4),)
    busy = replace(operation(device_us=6000.0), where=THERE)
    ledger = account(run(operations=(busy, empties), gaps=gaps, sampled=freeing), GPU)
    assert ledger.total("python", where=HERE) == pytest.approx(3.0)


@pytest.mark.parametrize("kernels", [(), (Kernel("of preparation", 1, 5000.0),)])
def test_a_gpu_whose_kernels_were_not_timed_has_no_rows_but_the_wait_for_data(kernels):
    slow = operation("aten.copy_.default", micros=9000.0)
    evidence = run(operations=(slow,), settings=Settings("cuda"), dry_ms=2.0, kernels=kernels)
    ledger = account(evidence, GPU)
    assert (ledger.device, ledger.floor_ms) == ("cuda", None)
    assert by_cause(ledger) == {"data": 2.0, "unseen": 8.0}


def test_without_an_inspected_step_or_samples_nobody_looked():
    assert by_cause(account(run(wait_ms=3.0), CPU)) == {"data": 3.0, "unseen": 7.0}
    on_gpu = replace(run(), steps=(Step(10.0, device_ms=9.0),) * 5)
    assert (account(on_gpu, GPU).device, account(on_gpu, GPU).total("unseen")) == ("cuda", 10.0)


def test_a_thread_that_waits_for_a_core_runs_no_python():
    """21.6 ms on a core, most of it in torch, of a step of 160 ms: others had the cores."""
    product = operation("aten.mm.default", device_us=None, micros=19_000.0)
    steps = (Step(160.0, other_ms=160.0, core_wait_ms=138.0),) * 9
    seen = (Sampled(HERE, 100, "model.py:forward"),)
    evidence = Evidence(steps=steps, operations=(product,), sampled=seen, settings=Settings("cpu"))
    ledger = account(evidence, None)
    assert ledger.total("core") == pytest.approx(138.0)
    assert ledger.total("python") == pytest.approx(3.0)
    assert ledger.total() == pytest.approx(160.0)


def test_waiting_for_a_core_while_a_batch_is_read_is_waiting_for_data():
    steps = (Step(100.0, data_wait_ms=50.0, other_ms=50.0, core_wait_ms=40.0),) * 9
    seen = (Sampled(HERE, 9),)
    ledger = account(Evidence(steps=steps, sampled=seen, settings=Settings("cpu")), None)
    assert (ledger.total("data"), ledger.total("core")) == (50.0, pytest.approx(20.0))
