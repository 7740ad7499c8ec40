"""What the machine did besides, read from outside."""

import json
import os
from types import SimpleNamespace

import psutil

from pitstop.profile.read.collect import collect
from pitstop.profile.record.host import HostMeter


def process(*times):
    return SimpleNamespace(cpu_times=lambda: (*times, 9.0), children=lambda recursive: [])


def test_the_work_of_others_is_what_is_left_of_all_work(tmp_path, monkeypatch):
    """A child that has ended is counted with its parent; a core that is not ours is left out."""
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda _: [0, 2], raising=False)
    meter = HostMeter(os.getpid(), tmp_path)
    moments = [
        (0.0, 50.0, [process(10.0, 1.0, 0.0, 0.0), process(5.0, 0.0, 0.0, 0.0)]),
        (2.0, 53.5, [process(12.0, 1.0, 7.0, 0.0)]),  # 4 of 7 are ours: others have 3 of 2 s twice
    ]
    found = []
    for now, user, family in moments:
        core, foreign = (SimpleNamespace(user=each, idle=9.0) for each in (user, 99 * now))
        monkeypatch.setattr(psutil, "cpu_times", lambda percpu, c=(core, foreign, core): [*c])
        found.append(meter._cores.used_by_others(now, family))
    assert found == [None, 0.75]


def test_the_usual_second_counts(tmp_path):
    assert collect(tmp_path, 0)[0].others is None
    samples = [{"at": at, "memory": [], "gpus": []} for at in range(4)]  # of an older release
    for sample, others in zip(samples[1:], (None, 0.2, 0.8), strict=True):
        sample["others"] = others
    (tmp_path / "host.jsonl").write_text("\n".join(map(json.dumps, samples)))
    assert collect(tmp_path, 0)[0].others == 0.5


def test_a_real_sample_has_it(tmp_path):
    meter = HostMeter(os.getpid(), tmp_path)
    meter._every = 0.0
    for _ in range(3):
        meter.sample()
    samples = [json.loads(line) for line in (tmp_path / "host.jsonl").read_text().splitlines()]
    assert samples[0]["others"] is None
    assert all(each["others"] >= 0 for each in samples[1:])
