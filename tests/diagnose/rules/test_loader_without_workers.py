import pytest

from diagnose.builders import line, loader, recording, sampled, without_ledger
from pitstop.core.evidence import Settings, Step
from pitstop.core.ledger import Ledger, Row
from pitstop.core.machine import Machine
from pitstop.diagnose.rules.loader_without_workers import loader_without_workers


def test_names_the_loader_and_the_line_that_is_slow():
    seen = (sampled(line(12, "data.py"), 8, waiting=True), sampled(line(13, "data.py"), 2))
    run = recording(Row("data", 30), loaders=(loader(),), sampled=seen)
    (finding,) = loader_without_workers(run)
    assert (finding.code, finding.span.line, finding.saving) == ("PIT102", 5, pytest.approx(0.28))
    assert finding.severity == "warning"
    assert finding.cure.startswith("num_workers=4,")
    assert finding.message == (
        "Each step reads its batch of `Clips` itself: 30.0 ms of 100 ms (30 %), "
        "mostly at data.py:12."
    )


def test_the_users_of_a_trainer_know_its_settings_by_other_names():
    run = recording(Row("data", 30), loaders=(loader(asked_by="transformers"),))
    (finding,) = loader_without_workers(run)
    assert finding.cure.startswith("dataloader_num_workers=4 in TrainingArguments,")


@pytest.mark.parametrize(
    ("computes", "cores", "saving"),
    [
        (1.0, 2, 0.48),  # 90 ms of decoding and 10 of the model take two cores 50 ms
        (1.0, 16, 0.88),  # six are hidden behind the ten that the model takes
        (0.1, 2, 0.88),  # it waits for a disk
        (None, 2, 0.88),  # a recording of before
    ],
)
def test_what_workers_save_is_bounded_by_the_cores_that_decode(computes, cores, saving):
    reads = loader(computes=computes)
    run = recording(Row("data", 90), loaders=(reads,), machine=Machine(cores=cores))
    (finding,) = loader_without_workers(run)
    assert finding.saving == pytest.approx(saving)


@pytest.mark.parametrize(
    ("threads", "others", "saving"),
    [
        (1, None, 0.28),  # 30 ms of decoding are hidden behind the model's one core
        (4, None, 0.205),  # 30 ms on top of 280: 77.5 ms for four cores, and the handover
        (4, 0.5, 0.13),  # others have two of the four
        (4, 0.75, None),  # and now there is but one, for both
    ],
)
def test_cores_that_the_model_or_others_need_decode_nothing(threads, others, saving):
    run = recording(
        Row("data", 30),
        loaders=(loader(computes=1.0),),
        machine=Machine(cores=4),
        settings=Settings("cpu", threads=threads),
        others=others,
    )
    (finding,) = loader_without_workers(run)
    assert finding.saving == (saving and pytest.approx(saving, abs=0.01))
    assert (finding.severity == "warning") == bool(saving)


def test_where_epochs_are_short_workers_are_to_be_kept():
    (finding,) = loader_without_workers(recording(Row("data", 30), loaders=(loader(per_epoch=20),)))
    assert finding.cure.startswith("num_workers=4, persistent_workers=True, or")


@pytest.mark.parametrize("ms", [0, 1.9, 4.9])
def test_quiet_when_the_wait_is_short(ms):
    assert loader_without_workers(recording(Row("data", ms), loaders=(loader(),))) == []


def test_quiet_where_a_worker_would_cost_as_much_as_it_saves():
    run = recording(Row("data", 1.5), loaders=(loader(),))
    run.__dict__["ledger"] = Ledger(5.0, "cpu", (Row("data", 1.5), Row("floor", 3.5)))
    assert loader_without_workers(run) == []


def test_a_real_read_in_a_long_step_is_worth_a_note():
    run = recording(loaders=(loader(),))
    run.__dict__["ledger"] = Ledger(1000.0, "cpu", (Row("data", 20.0), Row("floor", 980.0)))
    (finding,) = loader_without_workers(run)
    assert (finding.severity, finding.saving) == (
        "note",
        pytest.approx(0.018),
    )  # a batch from a worker costs 2 ms itself


@pytest.mark.parametrize(("wait_ms", "step_ms"), [(20.0, 4200.0), (4.9, 200.0)])
def test_a_short_read_or_a_small_share_is_not(wait_ms, step_ms):
    run = recording(loaders=(loader(),))
    rows = Row("data", wait_ms), Row("floor", step_ms - wait_ms)
    run.__dict__["ledger"] = Ledger(step_ms, "cpu", rows)
    assert loader_without_workers(run) == []


def test_a_quick_step_that_waits_for_most_of_its_time_needs_no_long_read():
    run = recording(loaders=(loader(),), machine=Machine(cores=2))
    run.__dict__["ledger"] = Ledger(8.0, "cpu", (Row("data", 5.0), Row("floor", 3.0)))
    (finding,) = loader_without_workers(run)
    assert finding.severity == "warning"
    assert finding.cure.startswith("num_workers=2,")


def test_quiet_with_workers_and_without_evidence():
    assert loader_without_workers(recording(Row("data", 30), loaders=(loader(workers=1),))) == []
    assert loader_without_workers(without_ledger(loaders=(loader(),))) == []


def test_the_loader_that_trains_is_the_one_that_counts():
    validation = loader(dataset="Held", batches=900, trains=False, made=line(6))
    run = recording(Row("data", 30), loaders=(validation, loader(workers=2)))
    assert loader_without_workers(run) == []


def test_bursts_count_and_the_filling_of_a_cache_does_not():
    waiting, quick = Step(62.0, data_wait_ms=60.0), Step(2.0)
    bursts = recording(loaders=(loader(),), steps=(waiting, quick, quick, quick) * 5)
    bursts.__dict__["ledger"] = Ledger(2.0, "cpu", (Row("floor", 2.0),))
    (finding,) = loader_without_workers(bursts)
    assert finding.saving > 0.7
    filled = recording(loaders=(loader(),), steps=(waiting,) * 5 + (quick,) * 15)
    filled.__dict__["ledger"] = bursts.ledger
    assert loader_without_workers(filled) == []


def test_a_tenth_of_a_short_step_is_what_any_loader_takes():
    run = recording(loaders=(loader(),))
    run.__dict__["ledger"] = Ledger(30.0, "cpu", (Row("data", 3.5), Row("floor", 26.5)))
    assert loader_without_workers(run) == []
