"""Whether others use the machine."""

import pytest

from pitstop.tune.runs import busy


@pytest.mark.parametrize(("use", "said"), [(4.0, ""), (90.0, "others use 1.8 of 2 cores")])
def test_a_busy_machine_is_said_before_anything_is_measured(use, said, monkeypatch):
    monkeypatch.setattr(busy.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(busy.psutil, "cpu_percent", lambda _: use)
    assert said in busy.busy()
    assert bool(busy.busy()) == bool(said)
