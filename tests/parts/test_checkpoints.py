"""Which blocks are checkpointed for how many bytes; nothing else about a training changes."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pitstop.parts.checkpoints import Block, Checkpoints, Room, selective_checkpoints
from pitstop.parts.checkpoints.choose import keeping

ROWS = 5


class Wide(nn.Module):
    """Holds the result of its ReLU, of ``width`` numbers a row, and little else."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(8, width), nn.Linear(width, 8)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.down(torch.relu(self.up(x))))


class Net(nn.Module):
    def __init__(self, *widths, inside=nn.Module.__call__):
        super().__init__()
        self.blocks = nn.ModuleList(map(Wide, widths))
        self.inside = inside

    def forward(self, x):
        for block in self.blocks:
            x = self.inside(block, x)
        return x


def held_bytes(run):
    """What autograd keeps for the backward pass of a call: each piece of memory once."""
    found = {}

    def pack(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    return sum(found.values()), result


def steps(model, number=3):
    """Losses, gradients and the generator's state behind some steps."""
    torch.manual_seed(0)
    seen = []
    for _ in range(number):
        x = torch.randn(ROWS, 8)
        loss = model(x).square().mean()
        loss.backward()
        seen += [loss.detach().clone(), *(each.grad.clone() for each in model.parameters())]
        with torch.no_grad():
            for each in model.parameters():
                each.sub_(0.1 * each.grad)
                each.grad = None
    return [*seen, torch.get_rng_state()]


def trained(widths=(16, 64, 32), **options):
    torch.manual_seed(1)
    model = Net(*widths)
    undo = selective_checkpoints(model, **options)
    return steps(model), undo, model


@pytest.mark.parametrize("keep", [0.0, 0.4, 1.0])
def test_a_training_with_dropout_is_the_same_to_the_last_bit(keep):
    torch.manual_seed(1)
    expected = steps(Net(16, 64, 32))
    found, _, _ = trained(keep=keep)
    assert all(map(torch.equal, found, expected))


def test_a_block_holds_what_autograd_saves_beside_weights_and_inputs():
    _, undo, _ = trained()
    hidden = [ROWS * width * 4 for width in (16, 64, 32)]  # bytes of float32
    noise = ROWS * 8 * 4  # of the dropout
    blocks = list(undo.checkpoints.blocks.values())
    assert [each.held_bytes for each in blocks] == [each + noise for each in hidden]
    assert all(each.calls == 1 for each in blocks)


@pytest.mark.parametrize(("keep_bytes", "kept"), [(0, 0), (600, 1), (10**6, 3)])
def test_no_more_is_kept_than_there_is_room_for(keep_bytes, kept):
    _, undo, model = trained(keep_bytes=keep_bytes)
    checkpoints = undo.checkpoints
    assert len(checkpoints.kept) == kept
    assert sum(checkpoints.blocks[each].held_bytes for each in checkpoints.kept) <= keep_bytes
    x = torch.randn(ROWS, 8)
    with_some, _ = held_bytes(lambda: model(x))
    undo()
    without_any, _ = held_bytes(lambda: model(x))
    spared = sum(
        block.held_bytes for key, block in checkpoints.blocks.items() if key not in checkpoints.kept
    )
    assert without_any - with_some >= spared - 2 * ROWS * 8 * 4  # inputs are kept in their place


def test_those_keep_their_results_that_spare_most_time_for_the_bytes():
    blocks = {"dear": Block(100, 10.0, 1), "cheap": Block(100, 1.0, 1), "small": Block(10, 0.5, 1)}
    assert keeping(blocks, 0) == set()
    assert keeping(blocks, 100) == {"dear"}
    assert keeping(blocks, 115) == {"dear", "small"}
    assert keeping(blocks, 210) == {"dear", "small", "cheap"}


def test_half_of_the_bytes_gives_back_most_of_the_time_where_blocks_differ():
    products = {f"product {number}": Block(100, 8.0, 1) for number in range(10)}
    scores = {f"scores {number}": Block(300, 2.0, 1) for number in range(10)}
    every = {**products, **scores}
    room = Room(keep=0.5).bytes(every.values(), 0, lambda: None)
    kept = keeping(every, room)
    assert sum(every[each].ms for each in kept) >= 0.8 * sum(each.ms for each in every.values())
    assert sum(every[each].held_bytes for each in kept) <= 2000


def test_a_gpu_is_filled_up_to_its_budget_with_room_for_what_is_computed_again():
    blocks = [Block(100, 1.0, 1), Block(300, 1.0, 1)]
    assert Room(peak_bytes=1000).bytes(blocks, 400, lambda: 5000) == 1000 - 400 - 300
    assert Room().bytes(blocks, 400, lambda: 1000) == 850 - 400 - 300
    assert Room().bytes(blocks, 900, lambda: 1000) == 0
    assert Room().bytes(blocks, 0, lambda: None) == 400  # no GPU: all


@pytest.mark.parametrize("reentrant", [True, False])
def test_calls_of_torchs_own_checkpoint_are_replaced_one_by_one(reentrant):
    def by_hand(block, x):
        return checkpoint(block, x.requires_grad_(), use_reentrant=reentrant)

    torch.manual_seed(1)
    expected = steps(Net(16, 64, 32, inside=by_hand))
    checkpoints = Checkpoints(Room(keep_bytes=600))
    torch.manual_seed(1)
    model = Net(16, 64, 32, inside=lambda block, x: checkpoints(block, x.requires_grad_()))
    assert all(map(torch.equal, steps(model), expected))
    assert len(checkpoints.kept) == 1
    assert str(checkpoints).startswith("1 of 3 blocks keep")


def test_functions_are_told_apart_by_the_module_that_they_call():
    checkpoints = Checkpoints(Room(keep_bytes=600))

    def wrapped(block, x):
        return checkpoints(lambda y: block(2 * y), x.requires_grad_())

    model = Net(16, 64, 32, inside=wrapped)
    steps(model)
    assert len(checkpoints.blocks) == 3


def test_a_block_that_comes_later_is_measured_then_and_the_others_are_not_measured_again():
    model = Net(16, 64, 32)
    undo = selective_checkpoints(model, keep=1.0)
    blocks = list(model.blocks)
    model.blocks = nn.ModuleList(blocks[:2])
    steps(model)
    before = undo.checkpoints.blocks
    model.blocks = nn.ModuleList(blocks)
    steps(model)
    after = undo.checkpoints.blocks
    assert len(before) == 2
    assert len(after) == len(undo.checkpoints.kept) == 3
    assert all(after[key] == block for key, block in before.items())


def test_what_learns_nothing_and_blocks_with_batch_norm_are_left_alone():
    model = Net(16, 64)
    undo = selective_checkpoints(model, keep=0.0)
    with torch.no_grad():
        model(torch.randn(ROWS, 8))
    model.eval()(torch.randn(ROWS, 8)).sum().backward()
    assert undo.checkpoints.blocks == {}
    for block in model.blocks:
        block.norm = nn.BatchNorm1d(8)
    undo = selective_checkpoints(model.train(), keep=0.0)
    steps(Net(4, 4))
    assert str(undo) == "blocks are measured in their first step"


def test_a_state_dict_and_a_copy_know_nothing_of_it():
    _, undo, model = trained(keep=0.0)
    names = set(model.state_dict())
    other = copy.deepcopy(model)
    undo()
    assert set(model.state_dict()) == names
    assert held_bytes(lambda: other(torch.randn(ROWS, 8)))[0] > 0
