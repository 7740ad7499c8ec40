"""The NaN guard on a GPU: fused optimizers decide on the device, others wait for the answer."""

import pytest
import torch
from torch import nn

from pitstop.parts import nan_guard

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

OPTIMIZERS = {
    "fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "fused-sgd": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, fused=True),
    "foreach": lambda p: torch.optim.AdamW(p, 1e-2),
}


def model():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2)
    return nn.Sequential(*layers).cuda()


def batches(bad):
    made = torch.Generator().manual_seed(1)
    for number in range(1, 13):
        batch = torch.rand(4, 3, 8, 8, generator=made)
        if number in bad:
            batch[0, 0, 0, 0] = float("nan")
        yield batch.cuda()


def train(network, optimizer, data):
    for batch in data:
        optimizer.zero_grad()
        network(batch).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_bad_step_might_never_have_been(name):
    without, guarded = model(), model()
    clean = [batch for number, batch in enumerate(batches(()), 1) if number not in (3, 4)]
    train(without, OPTIMIZERS[name](without.parameters()), clean)
    optimizer = OPTIMIZERS[name](guarded.parameters())
    guard = nan_guard(guarded, optimizer, say=lambda _: None)
    train(guarded, optimizer, batches((3, 4)))
    torch.cuda.synchronize()
    optimizer.zero_grad()
    optimizer.step()  # the last answers are read
    assert [each.step for each in guard.events] == [3, 4]
    for one, other in zip(without.parameters(), guarded.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    assert all(each.isfinite().all() for each in guarded.buffers())


def test_rewind_goes_back_also_where_the_answer_comes_late():
    network = model()
    optimizer = torch.optim.AdamW(network.parameters(), 1e-2, fused=True)
    guard = nan_guard(network, optimizer, "rewind", say=lambda _: None)
    train(network, optimizer, batches((6,)))
    assert guard.events[0].back_to == 4
    assert all(each.isfinite().all() for each in network.state_dict().values())
