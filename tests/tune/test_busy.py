"""Whether others use the machine."""

import pytest

from pitstop.tune import busy


@pytest.mark.parametrize(("load", "said"), [(0.4, ""), (9.0, "load 9.0, cores 2")])
def test_a_busy_machine_is_said_before_anything_is_measured(load, said, monkeypatch):
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(busy.psutil, "getloadavg", lambda: (load, 0.0, 0.0))
    assert said in busy.busy()
    assert bool(busy.busy()) == bool(said)
