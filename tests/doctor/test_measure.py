"""The measuring process itself; what it measures is in test_limits and tests/gpu."""

import pytest

from pitstop.core.machine import Limits
from pitstop.doctor import limits

torch = pytest.importorskip("torch")


def test_gpu_that_cannot_run_leaves_the_cpu_measured(monkeypatch, capsys):
    from pitstop.doctor import measure

    def broken(index):
        raise RuntimeError("no kernel image is available\nand more lines")

    monkeypatch.setattr(measure, "measure_cpu", lambda: Limits("cpu", launch_us=1.0))
    monkeypatch.setattr(measure, "measure_gpu", broken)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "RTX 5070")
    measure.main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(limits.MARK)
    assert '"device": "cpu"' in last
    assert "RTX 5070 could not be measured: no kernel image is available" in last
    assert "more lines" not in last


def test_both_sides_agree_on_the_mark():
    from pitstop.doctor import measure

    assert measure.MARK == limits.MARK
