"""Limits: the cache with a fake measurement, and one real measurement of the CPU."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from pitstop.core.machine import Gpu, Limits, Machine, Package
from pitstop.doctor import limits
from pitstop.doctor.limits import Measured, cache_path, limits_of, measure_in_child

MACHINE = Machine(cpu="a CPU", cores=2, packages=(Package("torch", "2.13.0+cpu"),))


class Measurement:
    """A measurement that counts how often it is made."""

    def __init__(self, *found, doubt=""):
        self.found, self.doubt, self.times = found, doubt, 0

    def __call__(self):
        self.times += 1
        return Measured(self.found, self.doubt)


@pytest.fixture(autouse=True)
def idle_machine_with_an_empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path))
    monkeypatch.setattr(limits, "others_busy", lambda cores: False)


def test_measured_once_then_kept():
    measure = Measurement(Limits("cpu", launch_us=1.5))
    first = limits_of(MACHINE, measure=measure)
    assert limits_of(MACHINE, measure=measure) == first
    assert measure.times == 1
    limits_of(MACHINE, remeasure=True, measure=measure)
    assert measure.times == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(MACHINE, cpu="another CPU"),
        replace(MACHINE, packages=(Package("torch", "2.12.0+cpu"),)),
        replace(MACHINE, gpus=(Gpu("H200", "9.0", driver="580.1"),)),
        replace(MACHINE, gpus=(Gpu("H200", "9.0", driver="580.2"),)),
    ],
)
def test_another_device_driver_or_torch_is_measured_anew(other):
    assert cache_path(other) != cache_path(MACHINE)


@pytest.mark.parametrize("text", ["", "{", '{"schema": 999}', '{"schema": 1, "kind": "Report"}'])
def test_broken_cache_is_measured_anew(text):
    path = cache_path(MACHINE)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    measure = Measurement(Limits("cpu", launch_us=1.5))
    assert limits_of(MACHINE, measure=measure).limits == measure.found
    assert limits_of(MACHINE, measure=measure).limits == measure.found
    assert measure.times == 1


def test_cache_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "file"))
    measure = Measurement(Limits("cpu", launch_us=1.5))
    assert limits_of(MACHINE, measure=measure).limits == measure.found


def test_what_a_busy_machine_gives_is_doubted_and_not_kept(monkeypatch):
    monkeypatch.setattr(limits, "others_busy", lambda cores: True)
    measure = Measurement(Limits("cpu", launch_us=1.5))
    assert "may be low" in limits_of(MACHINE, measure=measure).doubt
    assert not cache_path(MACHINE).exists()


def test_failed_measurement_says_why_and_is_not_kept():
    found = limits_of(MACHINE, measure=Measurement(doubt="limits: measuring failed: no driver"))
    assert found == Measured((), "limits: measuring failed: no driver")
    assert not cache_path(MACHINE).exists()


@pytest.mark.parametrize(
    ("packages", "word"),
    [((), "not installed"), ((Package("torch", "2.7", error="OSError"),), "cannot be imported")],
)
def test_without_torch_nothing_is_measured(packages, word):
    measure = Measurement(Limits("cpu"))
    assert word in limits_of(Machine(packages=packages), measure=measure).doubt
    assert measure.times == 0


def test_measurement_that_hangs_or_breaks_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcuda is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert measure_in_child().doubt == "limits: measuring failed: OSError: libcuda is broken"
    (tmp_path / "torch" / "__init__.py").write_text("import time\ntime.sleep(600)")
    assert "did not finish in 1 s" in measure_in_child(1.0).doubt


@pytest.mark.skipif(find_spec("torch") is None, reason="no torch to measure with")
def test_real_measurement_of_the_cpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    measured = measure_in_child()
    (cpu,) = measured.limits
    assert (cpu.device, measured.doubt) == ("cpu", "")
    for value in (cpu.copy_bytes_per_s, cpu.fp32_flops, cpu.launch_us):
        assert value is not None
        assert value > 0
    assert cpu.tf32_flops is None
    assert cpu.pinned_bytes_per_s is None
