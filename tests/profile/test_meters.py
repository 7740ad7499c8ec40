"""What is read from a GPU, and when: made-up events on a made-up clock."""

import pytest

torch = pytest.importorskip("torch")

from pitstop.profile.record import meters  # noqa: E402


class Gpu:
    """A device that works off a queue; ``now`` is the time on it and on the host, in ms."""

    def __init__(self):
        self.now = 0.0
        self.done_at = 0.0

    def launch(self, milliseconds):
        self.done_at = max(self.now, self.done_at) + milliseconds

    def event(self):
        return Event(self)


class Event:
    """Happens when all that was queued before it is done."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.at = max(gpu.now, gpu.done_at)

    def query(self):
        return self.gpu.now >= self.at

    def elapsed_time(self, other):
        return other.at - self.at


@pytest.fixture
def gpu(monkeypatch):
    device = Gpu()
    monkeypatch.setattr(meters, "_event", device.event)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 3)
    return device


def wait(meter, gpu, milliseconds):
    meter.wait_begins()
    gpu.now += milliseconds
    meter.wait_ends()


@pytest.mark.parametrize(
    ("queued", "waited", "dry_us"),
    [(0, 10, 10_000), (4, 10, 6000), (10, 10, 0), (25, 10, 0), (4, 0, 0)],
)
def test_the_gpu_runs_dry_when_the_wait_outlasts_its_queue(queued, waited, dry_us, gpu):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    gpu.launch(queued)
    wait(meter, gpu, waited)
    gpu.launch(1)
    meter.complete([0], [None])
    gpu.now = 100
    ((*_, dry),) = meter.finish()
    assert dry == dry_us


def test_several_waits_of_one_slice_add_up_and_the_next_slice_starts_anew(gpu):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    wait(meter, gpu, 3)
    wait(meter, gpu, 4)
    rows = meter.complete([0], []) + meter.complete([0], [])
    assert [row[-1] for row in rows] == [7000, 0]


def test_a_slice_with_too_many_waits_says_that_it_does_not_know(gpu):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    for _ in range(meters.MOST_WAITS + 1):
        wait(meter, gpu, 1)
    ((*_, dry),) = meter.complete([0], [])
    assert dry is None


def test_rows_wait_for_the_device_and_come_in_order(gpu):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    gpu.launch(5)
    assert meter.complete([0, "first"], [1.0]) == []
    gpu.launch(5)
    gpu.now = 7
    assert meter.complete([0, "second"], [2.0]) == [[0, "first", None, None, 1.0, 5000, 0]]
    gpu.now = 20
    assert meter.complete([0, "third"], [3.0])[0] == [0, "second", None, None, 2.0, 5000, 0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        3.0,
        torch.zeros(2),
        torch.zeros((), device="meta"),
        torch.zeros((), dtype=torch.complex64),
    ],
)
def test_what_is_no_single_number_is_not_kept(value):
    assert meters.Meter().keep(value) is None
    assert meters.Meter().keep(torch.tensor(2.5)) == 2.5


def test_at_the_end_the_device_may_work_off_its_queue_but_not_hang(gpu, monkeypatch):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    clock = iter(range(99))
    monkeypatch.setattr(meters.time, "monotonic", lambda: next(clock) / 10)
    monkeypatch.setattr(meters.time, "sleep", lambda _: setattr(gpu, "now", gpu.now + 5))
    gpu.launch(50)
    meter.complete([0, "soon"], [1.0])
    assert meter.finish() == [[0, "soon", None, None, 1.0, 50_000, 0]]
    gpu.launch(1e9)
    meter.complete([0, "never"], [2.0])
    assert meter.finish() == [[0, "never", None, None, *meters.UNKNOWN]]
    assert next(clock) > 10 * meters.PATIENCE_SECONDS


def test_memory_is_read_when_it_is_asked_for_however_soon(gpu):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    meter.read_memory()
    assert meter.complete([1_000_001], [])[0][1:3] == [2, 3]


def test_our_own_work_between_two_slices_is_no_time_of_the_device(gpu):
    meter = meters.Meter()
    meter.complete([1_000_000], [])
    gpu.now += 700
    meter.skip()
    gpu.launch(5)
    gpu.now += 5
    ((*_, device_us, _dry),) = meter.complete([0], [])
    assert device_us == 5000
