"""Which events end a step: pure arithmetic on made-up runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.core.evidence import Step
from pitstop.profile.read.collect import lines
from pitstop.profile.record.writer import FULL_ROWS, WINDOW_ROWS, Writer, hidden
from pitstop.profile.steps.group import Slice, by_the_gpus_clock, group
from pitstop.profile.steps.pattern import Cycle, cycle_ends, shortest_cycle


@pytest.mark.parametrize(
    ("calls", "length"),
    [("AAAA", 1), ("ABABAB", 2), ("AAAAABAAAAAB", 6), ("AAB", 3), ("ABABA", 2), ("A", 1), ("", 1)],
)
def test_the_step_is_the_shortest_cycle(calls, length):
    assert shortest_cycle(calls) == length


@pytest.mark.parametrize(
    ("calls", "ends"),
    [
        ("ABABABAABABAB", [1, 3, 5, 8, 10, 12]),  # a step of B was skipped
        ("AABABABAB", [2, 4, 6, 8]),
        ("AAAAAAAAA" + "DG" * 20, list(range(10, 49, 2))),  # a short fit came first
        ("AAABBBCCC", list(range(9))),  # an optimizer for each epoch
        ("ABABABABABCBCB", list(range(1, 14, 2))),  # the model was loaded again for a test
        ("AAB", [2]),
        ("AAAAABAAAAABAAA", [5, 11]),
    ],
)
def test_calls_that_fit_into_no_cycle_do_not_spoil_the_others(calls, ends):
    assert list(cycle_ends(calls)) == ends


def test_a_cycle_is_found_however_late_it_begins():
    follower = Cycle()
    for call in "A" * 500 + "DG" * 400:
        follower.add(call)
    assert follower.length == 2


@pytest.mark.parametrize("skipped", range(1, 8))
def test_while_it_runs_a_step_ends_where_it_does_afterwards(skipped):
    """As where the script leaves out the first steps of the second of two optimizers."""
    calls = "D" * skipped + "DG" * 9
    follower = Cycle()
    ends = [place for place, call in enumerate(calls) if follower.add(call)]
    assert ends[-5:] == list(cycle_ends(calls))[-5:]
    assert all(calls[end] == "G" for end in ends[-5:])


@given(st.text("AB", min_size=1, max_size=5), st.integers(2, 8))
def test_following_call_by_call_comes_to_the_same_end(cycle, times):
    calls = cycle * times
    follower = Cycle()
    for call in calls:
        follower.add(call)
    assert follower.length == shortest_cycle(calls)
    assert follower.complete == len(calls) // follower.length


def piece(kind="optimizer", number=0, loader=-1, **times):
    phases = dict.fromkeys(("wait", "forward", "backward", "optimizer", "saving", "other"), 0.0)
    return Slice(0.0, kind, number, loader, False, **(phases | times))


def test_accumulated_batches_make_one_step_and_their_times_add_up():
    batch = piece("loader", loader=0, wait=1.0, forward=2.0, backward=3.0)
    last = piece("optimizer", 1, loader=0, wait=1.0, forward=2.0, backward=3.0, optimizer=4.0)
    grouped = group([piece("start", other=500.0), batch, batch, last, batch, batch, last])
    assert [step.total_ms for step in grouped.steps] == [22.0, 22.0]
    assert [step.data_wait_ms for step in grouped.steps] == [3.0, 3.0]
    assert grouped.start_s == 0.5


def test_every_loss_of_a_step_counts_and_is_found_from_its_last():
    critic, generator = piece(number=1, losses=(0.5,)), piece(number=2, losses=(2.0,))
    first, second = group([critic, generator, piece("epoch"), critic, generator]).steps
    assert first.loss == second.loss == 2.0
    assert first.losses == (2.0, 0.5)
    broken = group([piece(number=1, losses=(float("nan"),)), generator] * 2).steps
    assert [step.loss_finite for step in broken] == [False, False]
    assert broken[0].losses == (2.0, None)


def test_validation_is_kept_apart_from_the_step():
    train = piece("optimizer", 1, loader=0, forward=2.0, backward=3.0)
    check = piece("loader", 2, loader=2, wait=50.0, other=50.0)
    grouped = group([check, train, check, check, train], {0})
    assert [step.total_ms for step in grouped.steps] == [5.0, 5.0]
    assert grouped.validation_s == pytest.approx(0.2)
    assert grouped.start_s == pytest.approx(0.1)  # what came before the first step


def test_training_from_memory_after_a_validation_is_a_step_of_its_own():
    read = piece("loader", 0, loader=0, wait=90.0)
    check = piece("epoch", -1, loader=2, wait=50.0, other=50.0)
    train = piece("optimizer", 1, loader=2, forward=2.0, backward=3.0)
    grouped = group([read, read, train, train, check, train], set())
    assert [step.total_ms for step in grouped.steps] == [5.0, 5.0, 5.0]
    assert (grouped.start_s, grouped.validation_s) == pytest.approx((0.18, 0.1))


def test_model_calls_before_the_first_optimizer_step_are_start_up():
    cached = piece("module", 3, forward=40.0)
    grouped = group([piece("start"), cached, cached, piece(forward=2.0, backward=3.0)])
    assert [step.total_ms for step in grouped.steps] == [5.0]
    assert grouped.start_s == pytest.approx(0.08)


def test_of_two_loaders_in_every_step_both_count_as_its_wait():
    first = piece("loader", 0, loader=0, wait=3.0)
    second = piece("optimizer", 1, loader=2, wait=4.0, backward=5.0)
    grouped = group([first, second, first, second], {0, 2})
    assert [step.data_wait_ms for step in grouped.steps] == [7.0, 7.0]


def test_saving_is_kept_apart_from_the_step():
    grouped = group([piece(forward=2.0, backward=3.0, saving=900.0)])
    assert grouped.steps[0].total_ms == 5.0
    assert grouped.saving_s == 0.9


def test_a_run_without_events_has_no_step():
    assert group([piece("end", other=1000.0)]).steps == ()


def test_a_loss_that_is_not_finite_is_said_so():
    (step,) = group([piece(backward=1.0, losses=(float("nan"),))]).steps
    assert (step.loss, step.loss_finite) == (None, False)


def test_a_million_steps_stay_small_and_what_is_kept_is_kept_whole(tmp_path):
    writer = Writer(str(tmp_path))
    row = [123456789, "optimizer", 1, 0, 0, *([12345] * 7), None, None, 0.123456789, *[None] * 4]
    for _ in range(1_000_000):
        writer.row(row)
    writer.close()
    (path,) = tmp_path.iterdir()
    notes = list(lines(path))
    kept = [row for note in notes for row in note.get("slices", ())]
    gaps = [note["gap"] for note in notes if "gap" in note]
    assert path.stat().st_size < 20e6
    assert len(kept) + sum(gaps) == 1_000_000
    assert len(kept) > FULL_ROWS
    assert all(gap % WINDOW_ROWS == 0 for gap in gaps[:-1])


def test_hidden_values_hold_no_path():
    value = {"a": ["/home/me/train.py", 3], "b": ("C:\\x", "conv1")}
    text = str(hidden(value))
    assert "home" not in text
    assert "conv1" in text
    assert hidden("/a.py") == hidden("/a.py") != hidden("/b.py")


def times(*steps, warmup=0):
    made = tuple(Step(total, other_ms=total, device_ms=device) for total, device in steps)
    return [(step.total_ms, step.queued_ms) for step in by_the_gpus_clock(made, warmup)]


def test_a_script_that_runs_ahead_of_its_gpu_is_timed_by_the_gpu():
    """It reads its loss in every twentieth step, which then takes as long as twenty."""
    ahead = [(2.0, None), *[(2.0, 50.0)] * 18, (962.0, 50.0)]
    assert times(*ahead) == [(2.0, 0.0), *[(50.0, 48.0)] * 18, (50.0, -912.0)]


def test_what_only_some_steps_show_does_not_count_as_running_ahead():
    saves = [*[(10.0, 10.1)] * 12, *[(10.0, 500.0)] * 8]
    assert {total for total, _ in times(*saves)} == {10.0}
    assert {total for total, _ in times(*[(10.0, None)] * 12, *[(10.0, 50.0)] * 8)} == {10.0}
    assert {total for total, _ in times(*[(10.0, 50.0)] * 2, *[(10.0, 10.0)], warmup=2)} == {10.0}
