"""Idle stretches of the GPU and their causes, made by hand and as recorded on an H200."""

import json
from pathlib import Path

import pytest

from pitstop.profile.inspect.gaps import Event, by_name, gaps, is_transfer, located

RECORDED = Path(__file__).parent / "recorded"


class Host:
    """Writes down what a host and its device do: calls in order, kernels when they are free."""

    def __init__(self):
        self.now = self.free = 0.0
        self.events = []

    def call(self, name, micros):
        number = len(self.events)
        self.events.append(Event(name, self.now, self.now + micros, number, host=True))
        self.now += micros
        return number

    def launch(self, micros, name="kernel", call="cudaLaunchKernel"):
        number = self.call(call, 5)
        start = max(self.free, self.now)
        self.free = start + micros
        self.events.append(Event(name, start, self.free, number))

    def think(self, micros):
        self.now += micros

    def wait(self, call="cudaStreamSynchronize"):
        self.call(call, max(2, self.free - self.now + 2))

    def found(self, begin):
        rows = gaps(self.events, (0.0, begin, self.now))
        sums = {}
        for row in rows:
            sums[row.cause] = sums.get(row.cause, 0) + round(row.micros)
        return sums


def test_a_device_with_work_queued_is_never_idle():
    host = Host()
    for _ in range(50):
        host.launch(40)
    assert host.found(100) == {}


def test_short_kernels_wait_for_their_launches():
    host = Host()
    for _ in range(50):
        host.launch(1)
        host.think(10)
    found = host.found(0)
    assert set(found) == {"launch"}
    assert found["launch"] == pytest.approx(host.now - 50, abs=1)


def test_a_long_silence_of_the_host_is_python():
    host = Host()
    for _ in range(20):
        host.launch(1)
        host.think(10)
    begin = host.now
    host.think(3000)
    host.launch(1)
    found = host.found(begin)
    assert found["python"] == 3000


def test_a_wait_that_cost_the_lead_pays_for_the_idle_time_after_it():
    host = Host()
    for _ in range(100):
        host.launch(50)
    host.wait()
    begin = host.now
    host.think(2000)  # without the wait it would have run while the device was busy
    host.launch(50)
    assert host.found(begin - 1)["sync"] >= 2000


def test_a_wait_for_an_idle_device_pays_for_nothing():
    host = Host()
    for _ in range(100):
        host.launch(1)
        host.think(10)
    host.wait()
    begin = host.now
    host.think(2000)
    host.launch(50)
    found = host.found(begin)
    assert found["python"] == 2000
    assert found["sync"] <= 5


def test_the_time_of_a_transfer_is_a_copy_where_no_kernel_runs():
    host = Host()
    host.launch(10)
    begin = host.now
    host.launch(900, "Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync")
    host.wait()
    host.launch(10)
    found = host.found(begin)
    assert found["copy"] >= 900
    assert set(found) <= {"copy", "launch"}


def test_a_number_read_is_a_synchronisation_and_no_copy():
    host = Host()
    host.launch(500)
    begin = host.now
    host.launch(1, "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync")
    host.wait()
    host.think(50)
    host.launch(10)
    assert set(host.found(begin)) == {"sync"}


def test_what_the_host_does_with_fetched_data_is_python():
    host = Host()
    for _ in range(100):
        host.launch(50)
        host.think(5)
    host.launch(600, "Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync")
    host.wait()
    begin = host.now
    host.think(2000)
    host.launch(50)
    found = host.found(begin)
    assert found["python"] == 2000
    assert "sync" not in found


def test_lines_by_the_order_of_the_waits_and_else_only_if_all_agree():
    host = Host()
    for _ in range(3):
        host.launch(500)
        host.wait()
        host.think(40)
    found = gaps(host.events, (0.0, 0.0, host.now))
    lines = [("a.py", number, "train") for number in (3, 5, 3)]
    assert {tuple(row[3:]) for row in located(found, lines) if row[0] == "sync"} == set(lines)
    assert {row[4] for row in located(found, lines[:2])} == {0}
    assert {row[4] for row in located(found, lines[:1]) if row[0] == "sync"} == {3}


def test_transfers_keep_the_names_that_cuda_has_for_them():
    recorded = json.loads((RECORDED / "copies.json").read_text())
    events = [Event(*row[:4], host=bool(row[4])) for row in recorded["events"]]
    ran = [(each.name, each.end - each.start) for each in events if not each.host]
    (copy,) = by_name(each for each in ran if is_transfer(each[0]))
    assert copy[:2] == ["Memcpy HtoD (Pageable -> Device)", 2]
    assert copy[2] > 20_000


@pytest.mark.parametrize(
    ("name", "shares"),  # of the step, by cause
    [
        ("launch_bound", {"launch": 0.79, "python": 0.14}),
        ("device_bound", {"launch": 0.02}),
        ("item_end", {"sync": 0.03, "launch": 0.02}),
        ("item_python", {"sync": 0.26, "launch": 0.01}),  # three milliseconds that would be hidden
        ("item_loop", {"sync": 0.14, "launch": 0.02}),
        ("python_gap", {"launch": 0.66, "python": 0.27, "sync": 0.0}),
        ("copies", {"copy": 0.68, "launch": 0.01}),
        ("mask", {"sync": 0.05, "launch": 0.02}),
    ],
)
def test_as_recorded(name, shares):
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    marks = recorded["marks_us"]
    events = [Event(*row[:4], host=bool(row[4])) for row in recorded["events"]]
    step = marks[-1] - marks[-2]
    found = gaps(events, marks)
    sums = {}
    for row in found:
        sums[row.cause] = sums.get(row.cause, 0.0) + row.micros / step
    assert sums == pytest.approx(shares, abs=0.01)
    busy = sum(
        max(0.0, min(event.end, marks[-1]) - max(event.start, marks[-2]))
        for event in events
        if not event.host and not event.name.startswith(("Memcpy HtoD", "Memcpy DtoH"))
    )
    assert busy / step + sum(sums.values()) == pytest.approx(1, abs=0.005)  # one stream
