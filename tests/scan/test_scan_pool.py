import gc
import pickle

from pitstop.scan import pool as pool_module
from pitstop.scan import worker
from pitstop.scan.pool import Pool
from pitstop.scan.worker import Job


def lengths(jobs, extra=0):
    return [len(job.text) + extra for job in jobs]


def broken(jobs):
    raise OSError("no")


JOBS = [Job(f"{number}.py", "x" * number) for number in range(60)]


def test_answers_come_in_the_order_of_the_jobs_and_every_file_is_counted():
    ticks = []
    with Pool(1, ticks.append) as pool:
        assert pool.run(lengths, JOBS, 5) == [number + 5 for number in range(60)]
    assert sum(ticks) == 60
    assert len(ticks) > 1


def test_small_work_starts_no_process_and_the_collector_is_back_afterwards():
    with Pool(8) as pool:
        pool.run(lengths, JOBS)
        assert pool.executors == []
        assert not gc.isenabled()
    assert gc.isenabled()


def test_processes_give_the_same_answers(monkeypatch):
    monkeypatch.setattr(pool_module, "WORTH_A_PROCESS_CHARACTERS", 10)
    jobs = [Job(f"{n}.py", f"import torch\nx{n} = torch.zeros(8).to(device)\n") for n in range(6)]
    jobs.append(Job("bad.py", "x = ("))
    with Pool(2) as pool:
        facts = pool.run(worker.collect, jobs)
        assert len(pool.executors) == 2
        good = tuple(each.data for each in facts[:-1])
        results = pool.run(worker.check, jobs[:-1], frozenset({"PIT202"}), shared=good)
    assert facts == worker.collect(jobs)
    assert facts[-1].problem == "syntax error at line 1: '(' was never closed"
    assert [finding.span.path for each in results for finding in each.findings] == [
        f"{n}.py" for n in range(6)
    ]


def test_what_is_shared_is_not_in_the_messages(monkeypatch):
    monkeypatch.setattr(pool_module, "WORTH_A_PROCESS_CHARACTERS", 10)
    sent = []
    monkeypatch.setattr(
        Pool, "_spread", lambda _, work, jobs, chunks, arguments: sent.append(arguments)
    )
    facts = (b"many facts" * 1000, b"of another file")
    with Pool(2) as pool:
        pool.run(worker.check, JOBS, frozenset(), shared=facts)
    ((shared, _),) = sent
    assert len(pickle.dumps(shared)) < 500


def test_without_processes_the_work_is_done_here(monkeypatch):
    monkeypatch.setattr(pool_module, "WORTH_A_PROCESS_CHARACTERS", 10)
    with Pool(2) as pool:
        monkeypatch.setattr(Pool, "_spread", lambda *_: broken([]))
        assert pool.run(lengths, JOBS) == list(range(60))
