"""What the machine did besides, read from outside."""

import json
import os
from types import SimpleNamespace

import psutil

from pitstop.profile.collect import collect
from pitstop.profile.host import HostMeter


def process(*times):
    return SimpleNamespace(cpu_times=lambda: (*times, 9.0), children=lambda recursive: [])


def test_the_work_of_others_is_what_is_left_of_all_work(tmp_path, monkeypatch):
    """A child that has ended is counted with its parent, and so is nobody else's."""
    meter = HostMeter(os.getpid(), tmp_path)
    moments = [
        (0.0, 100.0, [process(10.0, 1.0, 0.0, 0.0), process(5.0, 0.0, 0.0, 0.0)]),
        (2.0, 107.0, [process(12.0, 1.0, 7.0, 0.0)]),  # 4 of 7 are ours: 1.5 of others a second
    ]
    found = []
    for now, user, family in moments:
        times = SimpleNamespace(user=user, idle=50.0)
        monkeypatch.setattr(psutil, "cpu_times", lambda times=times: times)
        found.append(meter._cores.used_by_others(now, family))
    assert found == [None, 1.5]


def test_the_usual_second_counts(tmp_path):
    assert collect(tmp_path, 0)[0].others is None
    samples = [{"at": at, "memory": [], "gpus": []} for at in range(4)]  # of an older release
    for sample, others in zip(samples[1:], (None, 0.2, 1.8), strict=True):
        sample["others"] = others
    (tmp_path / "host.jsonl").write_text("\n".join(map(json.dumps, samples)))
    assert collect(tmp_path, 0)[0].others == 1.0


def test_a_real_sample_has_it(tmp_path):
    meter = HostMeter(os.getpid(), tmp_path)
    meter._every = 0.0
    for _ in range(3):
        meter.sample()
    samples = [json.loads(line) for line in (tmp_path / "host.jsonl").read_text().splitlines()]
    assert samples[0]["others"] is None
    assert all(each["others"] >= 0 for each in samples[1:])
