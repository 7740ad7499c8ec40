"""`cuda-graphs` as a change: it replays, switches, and declines where little is replayed."""

import pytest
import torch
from torch import nn

from parts.taped import Taped
from pitstop.parts.graphs import Graphs, Reason, graphs_of_blocks
from pitstop.tune.changes.cuda_graphs import ENOUGH, FIRST_CALLS, cuda_graphs


class Talks(nn.Linear):
    def forward(self, x):
        print("called")  # noqa: T201
        return super().forward(x)


class Script:
    """What the change asks of a script, for one model."""

    def __init__(self):
        self.times, self.reasons, self.on, self.toggled = 0, [], True, True
        self.sets, self.graphs, self.options = (), [], {}

    def together(self):
        return self.sets

    def on_cuda_model(self, callback):
        self.set_up = callback

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
    script = Script()

    def graphs(model, **options):
        script.graphs.append(Graphs(model, device=lambda _: Taped(model), **options))
        return script.graphs[-1]

    monkeypatch.setattr("pitstop.parts.graphs.Graphs", graphs)
    cuda_graphs.apply(script)
    return script


def test_replays_from_the_second_call_of_a_kind_on(script):
    model = nn.Linear(3, 2)
    script.set_up(model)
    assert script.times == 1
    with torch.no_grad():
        for number in range(2 * ENOUGH):
            x = torch.full((1, 3), float(number))
            assert torch.equal(script.call(model, x), model(x))
    assert script.reasons == []
    assert script.graphs[0].replayed == 2 * ENOUGH - FIRST_CALLS


def test_other_changes_that_are_switched_meanwhile_are_not_frozen(script):
    model, factor = nn.Linear(3, 2), [1.0]  # which no attribute of the model tells
    script.set_up(model)
    around = script.around

    def call(x):
        return around(lambda value: model(value) * factor[0], model, x)

    x = torch.ones(1, 3)
    with torch.no_grad():
        for number in range(12):
            factor[0] = 1.0 + number % 2
            script.sets = (number % 2,)
            assert torch.equal(call(x), model(x) * factor[0])
    assert script.graphs[0].replayed == 12 - 2 * FIRST_CALLS


@pytest.mark.parametrize(("rows", "reason"), [(True, Reason.RARE), (False, Reason.PRINTS)])
def test_declines_where_few_calls_are_replayed(script, rows, reason):
    model = nn.Linear(3, 2) if rows else Talks(3, 2)
    script.set_up(model)
    with torch.no_grad():
        for number in range(3 * ENOUGH):
            x = torch.ones(number + 1 if rows else 1, 3)
            assert torch.equal(script.call(model, x), model(x))
    (said,) = script.reasons
    assert said.startswith("replayed 0 of ")
    assert said.endswith(reason.value)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(Plain(), nn.ReLU()) for _ in range(20))

    def forward(self, x):
        for each in self.blocks:
            x = each(x)
        return x


class Plain(nn.Linear):
    def __init__(self):
        super().__init__(3, 3)


def test_with_the_scope_of_blocks_each_block_is_replayed_and_no_warm_up_is_taken_for_a_rarity(
    monkeypatch,
):
    script = Blocks()
    of_blocks = graphs_of_blocks

    def taped(model, say, **options):
        return of_blocks(model, say, device=lambda _: Taped(model), **options)

    monkeypatch.setattr("pitstop.parts.graphs.graphs_of_blocks", taped)
    cuda_graphs.apply(script)
    model = Stack()
    script.set_up(model)
    assert script.times == 20
    with torch.no_grad():
        for number in range(ENOUGH + 2):
            x = torch.full((1, 3), float(number))
            expected = model(x)
            for block, around in script.arounds:
                block.around = around
            y = x
            for block in model.blocks:
                (plain, relu) = block
                y = relu(plain.around(plain.forward, plain, y))
            assert torch.equal(y, expected)
    assert script.reasons == []


class Blocks(Script):
    """Keeps what is put around each block."""

    def __init__(self):
        super().__init__()
        self.options, self.arounds = {"scope": "blocks"}, []

    def needs(self, _):
        pass

    def wrap(self, block, around):
        self.arounds.append((block, around))
