"""`cuda-graphs` as a change: it replays, switches, and declines where little is replayed."""

import pytest
import torch
from torch import nn

from parts.taped import Taped
from pitstop.parts.graphs import Graphs, calls
from pitstop.tune.changes import cuda_graphs as file
from pitstop.tune.changes.cuda_graphs import ENOUGH, cuda_graphs


class Script:
    """What the change asks of a script, for one model."""

    def __init__(self):
        self.times, self.reasons, self.on = 0, [], True

    def on_cuda_model(self, callback):
        self.set_up = callback

    def needs(self, _):
        pass

    def wrap(self, _, around):
        self.around = around

    def applied(self, times=1):
        self.times += times

    def decline(self, reason):
        self.reasons.append(reason)
        self.on = False

    def call(self, model, x):
        return self.around(model, model, x) if self.on else model(x)


@pytest.fixture
def script(monkeypatch):
    def graphs(model, **options):
        return Graphs(model, device=lambda _: Taped(model), **options)

    monkeypatch.setattr("pitstop.parts.graphs.Graphs", graphs)
    script = Script()
    cuda_graphs.apply(script)
    return script


def test_takes_hold_with_the_first_replay(script):
    model = nn.Linear(3, 2)
    script.set_up(model)
    with torch.no_grad():
        for number in range(2 * ENOUGH):
            x = torch.full((1, 3), float(number))
            assert torch.equal(script.call(model, x), model(x))
            assert script.times == (number >= calls.FIRST_CALLS)
    assert script.reasons == []


def test_declines_where_few_calls_are_replayed(script):
    model = nn.Linear(3, 2)
    script.set_up(model)
    with torch.no_grad():
        for number in range(2 * ENOUGH):
            x = torch.ones(number + 1, 3)
            assert torch.equal(script.call(model, x), model(x))
    first = calls.Reason.FIRST.value
    assert script.reasons == [f"replayed 0 of {ENOUGH} calls: {first}"]
    assert file.FEW == 0.5
