import pytest

from diagnose.builders import line, loader, sampled, steps
from pitstop.core.evidence import Evidence, Settings
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.rules.rank_straggles import rank_straggles

SLEEP, MODEL, READ = line(31), line(20), line(9, "data.py")


def rank(number, wait=5.0, collective=60.0, **more):
    return Evidence(rank=number, steps=steps(data_wait_ms=wait, collective_ms=collective), **more)


def on_gpu(number, forward=20.0, collective=0.0, other=5.0):
    taken = steps(forward_ms=forward, other_ms=other, collective_ms=collective)
    return Evidence(rank=number, steps=taken, settings=Settings("cuda"))


def run(*ranks):
    return Recording(ranks)


def test_names_the_slow_rank_and_its_line_not_the_waiting_one():
    slow = rank(1, collective=20.0, sampled=(sampled(SLEEP, 50), sampled(MODEL, 50)))
    fast = rank(0, sampled=(sampled(MODEL, 30), sampled(line(40), 70)))
    (finding,) = rank_straggles(run(fast, slow))
    assert (finding.code, finding.item, finding.span.line) == ("PIT801", "rank 1", 31)
    assert finding.saving == pytest.approx(0.40)
    assert finding.message == (
        "Rank 1 works 40.0 ms longer than the others in each step, computing, and they wait for "
        "it: 40 % of 100 ms."
    )


def test_a_rank_that_others_on_the_machine_slow_down_now_and_then_is_not_slow():
    noisy = (*steps(4, collective_ms=60.0), *steps(6, collective_ms=20.0))
    assert rank_straggles(run(rank(0), Evidence(rank=1, steps=noisy))) == []


def test_tells_slow_input_from_slow_computing():
    reads = sampled(READ, 50, waiting=True)
    slow = rank(1, wait=45.0, collective=20.0, sampled=(reads, sampled(MODEL, 50)))
    (finding,) = rank_straggles(run(rank(0), slow))
    assert "waiting for its data" in finding.message
    assert (finding.span.path, finding.span.line) == ("data.py", 9)


def test_names_the_loader_where_its_workers_are_slow():
    used = loader(used=line(14), workers=2)
    (finding,) = rank_straggles(run(rank(0), rank(1, wait=45.0, collective=20.0, loaders=(used,))))
    assert finding.span.line == 14


def test_names_no_line_where_none_stands_out():
    seen = [sampled(line(number), 1) for number in range(50, 60)]
    slow = rank(
        1,
        collective=20.0,
        sampled=(*seen, sampled(SLEEP, 11), sampled(READ, 9, waiting=True)),
        loaders=(loader(used=line(14)),),
    )
    fast = rank(0, sampled=(*seen, sampled(SLEEP, 10)))
    (finding,) = rank_straggles(run(fast, slow))
    assert finding.span is None


def test_on_a_gpu_only_what_comes_before_the_backward_pass_tells():
    (finding,) = rank_straggles(run(on_gpu(0), on_gpu(1, forward=60.0)))
    assert (finding.item, finding.saving) == ("rank 1", pytest.approx(0.40))


def test_on_a_gpu_waiting_in_a_collective_of_ones_own_is_no_work():
    waiting = on_gpu(0, other=45.0, collective=40.0)
    (finding,) = rank_straggles(run(waiting, on_gpu(1, forward=60.0)))
    assert finding.item == "rank 1"


@pytest.mark.parametrize(
    "run",
    [
        run(rank(0), rank(1)),
        run(rank(0), rank(1, collective=51.0)),  # ranks always differ a little
        run(rank(0), Evidence(rank=1, steps=steps(total_ms=150.0, collective_ms=60.0))),  # alone
        run(rank(0, collective=20.0)),
        run(Evidence(), Evidence()),
    ],
)
def test_quiet(run):
    assert rank_straggles(run) == []
