"""Averages of all weights at once are those of the loop, but for rounding."""

import pytest

pytest.importorskip("torch")

import torch

from pitstop.parts import ema_update
from pitstop.parts.ema import ema_update_twin

SHAPES = [(3, 5), (7,), (), (0, 4), (129, 3)]
TYPES = [
    (torch.float32, torch.float32),
    (torch.float64, torch.float64),
    (torch.bfloat16, torch.bfloat16),
    (torch.float32, torch.bfloat16),  # averages are kept in more bits than the weights
]


def pairs(average=torch.float32, value=torch.float32):
    torch.manual_seed(0)
    return [(torch.randn(s).to(average), torch.randn(s).to(value)) for s in SHAPES]


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999, 1.0, torch.tensor(0.9)])
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_it_computes_what_the_loop_does(types, decay):
    ours, theirs = pairs(*types), pairs(*types)
    for _ in range(5):
        ema_update(ours, decay)
        ema_update_twin(theirs, decay)
    for (a, value), (b, _) in zip(ours, theirs, strict=True):
        assert a.dtype == types[0]
        close = {} if types[1] != torch.bfloat16 else {"rtol": 0.02, "atol": 0.02}
        torch.testing.assert_close(a, b, **close)
        if decay == 0.0:
            torch.testing.assert_close(a, value.to(a.dtype))


def test_parameters_are_moved_in_place_and_no_graph_hears_of_it():
    model, average = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    before, address = average.weight.clone(), average.weight.data_ptr()
    y = average(torch.ones(2, 4)).sum()
    ema_update(zip(average.parameters(), model.parameters(), strict=True), 0.5)
    y.backward()
    assert average.weight.data_ptr() == address
    assert average.weight.requires_grad
    torch.testing.assert_close(average.weight, (before + model.weight) / 2)


def test_what_comes_twice_is_moved_twice():
    average, value = torch.ones(3), torch.zeros(3)
    ema_update([(average, value), (average.view(3), value)], 0.5)
    torch.testing.assert_close(average, torch.full((3,), 0.25))


def test_layouts_may_differ():
    average = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    value = torch.randn(2, 3, 4, 4)
    wanted = 0.9 * average + 0.1 * value
    ema_update([(average, value)], 0.9)
    torch.testing.assert_close(average, wanted)
    assert average.is_contiguous(memory_format=torch.channels_last)


def test_nothing_to_move_is_fine():
    ema_update([], 0.9)
