"""The report of a recording: its answer, its paths, and tables that agree with its ledger."""

from dataclasses import replace

from diagnose.builders import line, recording, steps, without_ledger
from pitstop.core.evidence import Evidence, Headspace, Kernel, Loader, Memory, Step
from pitstop.core.finding import Finding, Span
from pitstop.core.ledger import Row
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import relative_to
from pitstop.diagnose.told.report import build_report


def table(report, title):
    (found,) = [each for each in report.tables if each.title == title]
    return {name: cells for name, *cells in found.rows}


def test_says_what_is_to_be_gained_at_most():
    found = Finding(saving=0.4, span=Span("/home/ann/train.py", 3, 1, 3, 1), cure="mend it")
    report = build_report(recording(Row("data", 60)), [found], "train.py", 0, "/home/ann")
    assert report.gain == "at most 40 % of each step: 100 ms would be 60.0 ms, 1.7 times as fast"
    assert report.where == "train.py:3"


def test_a_path_is_told_from_the_folder_that_the_command_was_started_in():
    span = Span("/home/ann/src/train.py", 3, 1, 3, 1)
    assert relative_to(span, "/home/ann").path == "src/train.py"
    assert (
        relative_to(span, "/other").path == relative_to(span, "").path == "/home/ann/src/train.py"
    )
    assert relative_to(None, "/home/ann") is None


def test_the_table_of_phases_is_of_the_usual_step_and_a_note_tells_of_the_others():
    long = Step(900.0, data_wait_ms=800.0, forward_ms=100.0)
    made = recording(steps=(*steps(8, forward_ms=100.0), long, long))
    report = build_report(made, [], "train.py", 0)
    phases = table(report, "a typical step")
    assert phases == {"forward": ["100 ms", "100 %"], "step": ["100 ms", "100 %"]}
    assert "some steps are far longer, up to 900 ms: the mean is 260 ms" in report.notes


def test_a_machine_that_others_used_is_called_busy():
    for others, said in ((0.75, True), (0.15, False), (None, False)):
        report = build_report(recording(others=others), (), "train.py", 0, "/")
        assert any("others used 75 % of the cores" in note for note in report.notes) is said
        assert report.verdict.startswith("Other programs use 75 %") is said
        assert ("100 ms to 100 ms per step, 100 ms in the middle" in report.verdict) is said


def test_what_comes_next_is_about_a_finding_or_what_is_left_to_try():
    note = Finding(severity="note", cure="x", span=Span("train.py", 3, 1, 3, 1))
    tried = build_report(
        recording(Row("above", 60)), [note], "train.py", 0, typed="train.py --lr 1"
    )
    assert tried.next.startswith("pitstop tune train.py --lr 1 tries")
    assert tried.where == ""
    assert build_report(recording(Row("above", 20)), [], "t", 0).next.startswith(
        "nothing: the step is near"
    )
    assert build_report(recording(Row("core", 40)), [], "t", 0).next.startswith(
        "run it again when other"
    )


def test_a_run_on_a_cpu_has_no_row_for_the_memory_of_a_gpu():
    made = recording(memory=(Memory(1.0, host_bytes=2**30),))
    assert list(table(build_report(made, [], "train.py", 0), "memory")) == [
        "host, script and workers"
    ]
    on_gpu = recording(device="cuda", memory=(Memory(1.0, gpu_peak_bytes=2**30),))
    assert table(build_report(on_gpu, [], "t", 0), "memory")["GPU, allocated"] == ["1.0 GiB"]


def test_a_run_without_steps_has_a_report_too():
    report = build_report(without_ledger(), [], "train.py", 1)
    assert report.verdict == "train.py: no step could be timed."
    assert report.gain == ""
    assert report.next.startswith("mend the script first")
    for interrupted in (-2, 130):
        report = build_report(without_ledger(), [], "train.py", interrupted)
        assert report.next.startswith("let it run until some steps are done")


def run_of(count, device_ms=None, **evidence):
    made = tuple(Step(100.0, device_ms=device_ms) for _ in range(count))
    return Recording((Evidence(steps=made, warmup_steps=1, step_kind="loader", **evidence),))


def test_a_gpu_that_was_not_measured_is_said_to_be_so_and_how_to_measure_it():
    report = build_report(run_of(8, device_ms=99.0), [], "train.py", -15)
    assert report.verdict == "train.py: 100 ms per step."
    assert report.why.startswith("The GPU was not measured: the run ended before the step that is ")
    assert report.next == "let it run for 3 more steps, or begin sooner with a smaller --warmup"


def test_where_some_steps_are_far_longer_the_mean_is_told_as_well():
    steps = (*[Step(100.0)] * 9, Step(1000.0), Step(1000.0))
    (run,) = run_of(1).ranks
    report = build_report(Recording((replace(run, steps=steps),)), [], "train.py", 0)
    assert report.verdict == "train.py: 100 ms per step, 280 ms on average."


def test_what_makes_a_step_is_said_with_how_many_of_it():
    assert build_report(run_of(4), [], "t", 0).why.endswith("a step is the work on one batch.")
    assert build_report(run_of(4, step_events=2), [], "t", 0).why.endswith("the work on 2 batches.")


def test_a_run_that_was_never_inspected_says_so():
    assert build_report(run_of(4), [], "t", 0).why.startswith("Not inspected: the run ended before")
    assert build_report(run_of(4), [], "t", 0).next.startswith("let it run for 4 more steps")
    long = build_report(run_of(60), [], "t", 0)
    assert long.why.startswith("Not inspected: no step was looked into")
    assert long.next == "run it again with --inspect 2, and without a profiler of its own"


def test_a_floor_that_nobody_knows_is_not_told():
    kernels = (Kernel("gemm", 1, 5e4),)
    assert build_report(run_of(20, kernels=kernels), [], "t", 0).verdict == "t: 100 ms per step."


def test_a_place_that_is_not_known_is_left_out():
    made = recording(Row("python", 50.0, "", line(3)))
    assert (
        build_report(made, [replace(Finding("x", saving=0.1), code="PIT703")], "t", 0).where == ""
    )


def test_a_run_that_hangs_is_told_what_to_look_at_and_a_run_too_short_to_go_on():
    hangs = Finding("x", severity="error", cure="look there", span=Span("t.py", 3, 1, 3, 1))
    report = build_report(without_ledger(), [hangs], "t", -2)
    assert (report.next, report.where) == ("look there (pitstop explain )", "t.py:3")
    assert build_report(without_ledger(), [hangs], "t", 1).where == ""
    short = build_report(run_of(4), [hangs], "t", -2)
    assert short.next.startswith("let it run for")
    assert short.where == ""


def test_an_interval_is_told_of_four_steps_or_more():
    run = run_of(3, others=0.9)
    assert ": 100 ms per step" in build_report(run, [], "t", 0).verdict
    assert "half of them" not in build_report(run, [], "t", 0).why


def test_a_perfect_loader_saves_no_more_than_the_wait_where_no_worker_reads():
    waits = (Step(100.0, data_wait_ms=10.0),) * 8
    found = Headspace(70.0, 8, 4, 1.0)
    for workers, words in ((0, "takes 90.0 ms, 10 % less"), (2, "takes 70.0 ms, 30 % less")):
        loader = Loader("Set", workers, trains=True)
        run = recording(steps=waits, loaders=(loader,), headspace=found)
        assert words in build_report(run, [], "train.py", 0).why
