"""`selective-checkpoints` as a change: in both directions the training stays what it was."""

import pytest
import torch
from torch import nn
from torch.utils import checkpoint as torchs

from pitstop.core.evidence import NOWHERE, Evidence, ModuleCall
from pitstop.tune.change import Facts, find_change
from pitstop.tune.inside.script import Run
from pitstop.tune.plan import Plan, Wanted


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + nn.functional.dropout(self.down(torch.relu(self.up(x))), 0.5, self.training)


class Net(nn.Module):
    def __init__(self, checkpoints):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.checkpoints = checkpoints

    def forward(self, x):
        for block in self.blocks:
            if self.checkpoints:
                x = torchs.checkpoint(block, x, use_reentrant=False, preserve_rng_state=True)
            else:
                x = block(x)
        return x


def held_bytes(model):
    """What a step keeps for its backward pass."""
    found = {}

    def pack(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(torch.randn(5, 8, requires_grad=True))
    return sum(found.values())


@pytest.fixture
def put_on(tmp_path):
    runs = []

    def begin(**options):
        change = Wanted("selective-checkpoints", options)
        runs.append(Run(Plan(changes=(change,), folder=str(tmp_path), seed=0)))
        return runs[-1]._scripts[0]

    yield begin
    for each in runs:
        each.close()


def train(checkpoints, each_step=lambda number, model: None):
    torch.manual_seed(0)
    model = Net(checkpoints)
    losses = []
    for number in range(6):
        loss = model(torch.randn(5, 8, requires_grad=True)).square().mean()
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for each in model.parameters():
                each.sub_(0.1 * each.grad)
                each.grad = None
        each_step(number, model)
    return losses, model


@pytest.mark.parametrize(
    ("checkpoints", "options"),
    [(True, {}), (True, {"keep": 0.5}), (False, {"blocks": True, "keep": 0.25})],
)
def test_losses_are_the_same_to_the_last_bit_while_it_is_switched(checkpoints, options, put_on):
    expected, _ = train(checkpoints)
    script = put_on(**options)
    found, _ = train(checkpoints, lambda number, _: script.turn(number % 3 != 2))
    assert found == expected
    assert script.outcome().applied


def test_a_script_that_checkpoints_all_holds_what_there_is_room_for_and_gets_its_own_back(put_on):
    _, alone = train(True)
    none = held_bytes(alone)
    script = put_on(keep=0.5)
    _, model = train(True)
    half = held_bytes(model)
    script.turn(False)
    assert held_bytes(model) == none < half < held_bytes(Net(False))


def test_for_memory_repeated_blocks_are_checkpointed_until_a_quarter_is_held(put_on):
    _, plain = train(False)
    script = put_on(blocks=True, keep=0.25)
    _, model = train(False)
    some = held_bytes(model)
    script.turn(False)
    assert some < 0.6 * held_bytes(model)
    assert held_bytes(model) == held_bytes(plain)


def test_blocks_of_a_script_that_checkpoints_by_itself_are_not_checkpointed_twice(put_on):
    script = put_on(blocks=True, keep=0.25)
    train(True)
    assert script.outcome().declined == "the script checkpoints by itself"


def test_which_way_it_is_tried_depends_on_the_script_and_on_what_is_wanted():
    plain, again = (
        Evidence(calls=(ModuleCall("net", "Net", NOWHERE, -1, "", recomputed=recomputed),))
        for recomputed in (False, True)
    )
    tries = find_change("selective-checkpoints").tries
    assert tries(Facts(again)) == [{}]
    assert tries(Facts(plain)) == []
    assert tries(Facts(plain, goal="memory")) == [{"blocks": True, "keep": 0.25}]
