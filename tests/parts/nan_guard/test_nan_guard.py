"""No step is taken with gradients that are not finite."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pitstop.core.errors import PitstopError
from pitstop.parts import nan_guard
from pitstop.parts.nan_guard.guard import NotFiniteError


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))


def batches(count=8, bad=()):
    made = torch.Generator().manual_seed(1)
    for number in range(1, count + 1):
        batch = torch.rand(4, 3, 8, 8, generator=made)
        if number in bad:
            batch[0, 0, 0, 0] = float("nan")
        yield batch


def train(network, optimizer, data, loss_of=lambda output: output.square().mean()):
    for batch in data:
        optimizer.zero_grad()
        loss_of(network(batch)).backward()
        optimizer.step()
    return network


def state(network):
    return [each.clone() for each in network.state_dict().values()]


def equal(left, right):
    return all(a.equal(b) for a, b in zip(left, right, strict=True))


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
    "fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, momentum=0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_clean_run_is_bit_for_bit_the_same(name):
    plain, guarded = model(), model()
    train(plain, OPTIMIZERS[name](plain.parameters()), batches())
    optimizer = OPTIMIZERS[name](guarded.parameters())
    guard = nan_guard(guarded, optimizer)
    train(guarded, optimizer, batches())
    assert equal(state(plain), state(guarded))
    assert guard.events == []


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_bad_step_might_never_have_been(name):
    """Weights, optimizer state and running statistics are those of a run without that batch."""
    without, guarded, lines = model(), model(), []
    clean = [batch for number, batch in enumerate(batches(), 1) if number not in (3, 4)]
    train(without, OPTIMIZERS[name](without.parameters()), clean)
    optimizer = OPTIMIZERS[name](guarded.parameters())
    guard = nan_guard(guarded, optimizer, say=lines.append)
    train(guarded, optimizer, batches(bad=(3, 4)))
    floats = [each for each in state(guarded) if each.is_floating_point()]
    assert equal(floats, [each for each in state(without) if each.is_floating_point()])
    assert [each.step for each in guard.events] == [3, 4]
    assert lines[0] == (
        "step 3: gradients (of 0.weight, 0.bias, 1.weight and 3 more) are not finite: left out"
    )


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_closure_is_judged_by_the_gradients_that_it_makes(name, named):
    """As Lightning steps: before its closure the gradients are those of the step before."""
    without, guarded = model(), model()
    clean = [batch for number, batch in enumerate(batches(), 1) if number != 3]
    train(without, OPTIMIZERS[name](without.parameters()), clean)
    optimizer = OPTIMIZERS[name](guarded.parameters())
    guard = nan_guard(guarded, optimizer, say=lambda _: None)
    calls = []
    for batch in batches(bad=(3,)):

        def closure(batch=batch):
            calls.append(1)
            optimizer.zero_grad()
            loss = guarded(batch).square().mean()
            loss.backward()
            return loss

        result = optimizer.step(closure=closure) if named else optimizer.step(closure)
        assert isinstance(result, torch.Tensor)
    floats = [each for each in state(guarded) if each.is_floating_point()]
    assert equal(floats, [each for each in state(without) if each.is_floating_point()])
    assert [each.step for each in guard.events] == [3]
    assert len(calls) == 8


def test_the_script_still_sees_its_gradients():
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    nan_guard(network, optimizer, say=lambda _: None)
    train(network, optimizer, batches(1, bad=(1,)))
    assert all(each.grad is not None for each in network.parameters())


def test_stop_raises_before_the_step_and_leaves_the_weights_alone():
    network = model()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    nan_guard(network, optimizer, "stop")
    train(network, optimizer, batches(2))
    before = [each.clone() for each in network.parameters()]
    with pytest.raises(NotFiniteError, match=r"step 3: .* stopped before it"):
        train(network, optimizer, batches(1, bad=(1,)))
    assert equal(before, list(network.parameters()))


def test_rewind_goes_back_to_the_last_snapshot():
    network, lines = model(), []
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    guard = nan_guard(network, optimizer, "rewind", every=3, say=lines.append)
    data = list(batches(8, bad=(6,)))
    train(network, optimizer, data[:3])  # the snapshots before were after 1 and 2 steps
    weights = state(network)
    moments = [each["exp_avg"].clone() for each in optimizer.state.values()]
    train(network, optimizer, data[3:5])
    assert not equal(weights, state(network))
    train(network, optimizer, data[5:6])
    assert equal(weights, state(network))
    assert equal(moments, [each["exp_avg"] for each in optimizer.state.values()])
    assert guard.events[0].back_to == 3
    assert lines[0].endswith("went back to step 3")
    train(network, optimizer, data[6:])
    assert all(each.isfinite().all() for each in network.parameters())


def test_rewind_in_the_first_step_goes_back_to_the_start():
    network = model()
    before = state(network)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    nan_guard(network, optimizer, "rewind", say=lambda _: None)
    train(network, optimizer, batches(1, bad=(1,)))
    assert equal(before, state(network))
    assert not optimizer.state


def test_so_many_bad_steps_in_a_row_end_the_training():
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    nan_guard(network, optimizer, limit=3, say=lambda _: None)
    train(network, optimizer, batches(8, bad=(1, 2, 4, 5, 7, 8)))  # never three in a row
    with pytest.raises(NotFiniteError, match="3 bad steps in a row: lower the learning rate"):
        train(network, optimizer, batches(8, bad=(2, 3, 4)))


def test_a_bad_loss_with_finite_gradients_is_seen_where_it_is_given():
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    guard = nan_guard(network, optimizer, say=lambda _: None)
    infinite = torch.tensor(float("inf"))
    train(network, optimizer, batches(1), lambda output: guard.loss(output.mean() + infinite))
    assert len(guard.events) == 1
    train(network, optimizer, batches(1), lambda output: guard.loss(output.mean()))
    assert len(guard.events) == 1


def test_each_optimizer_of_a_gan_is_judged_by_itself():
    makes, judges = model(), model()
    first = torch.optim.Adam(makes.parameters(), 1e-2)
    second = torch.optim.Adam(judges.parameters(), 1e-2)
    guard = nan_guard([makes, judges], [first, second], say=lambda _: None)
    train(makes, first, batches(2))
    train(judges, second, batches(2, bad=(2,)))
    assert [each.step for each in guard.events] == [2]
    assert second.state[next(judges.parameters())]["step"] == 1
    assert first.state[next(makes.parameters())]["step"] == 2


def test_a_scaler_that_leaves_steps_out_by_itself_is_left_alone():
    network = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    guard = nan_guard(network, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = network.weight.clone()
    loss = network(torch.tensor([[float("inf"), 1.0, 1.0]])).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert (scaler.get_scale(), guard.events) == (2.0, [])
    assert network.weight.equal(before)


def test_accumulated_gradients_are_looked_at_once():
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    guard = nan_guard(network, optimizer, say=lambda _: None)
    for batch in batches(4, bad=(2,)):
        F.mse_loss(network(batch), torch.zeros(4, 2)).backward()
    optimizer.step()
    assert len(guard.events) == 1


def test_sparse_and_complex_gradients():
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), 0.1)
    guard = nan_guard(table, optimizer, say=lambda _: None)
    (table(torch.tensor([1, 1])) * float("inf")).sum().backward()
    optimizer.step()
    waves = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    second = torch.optim.SGD([waves], 0.1)
    guard.add(second)
    (waves * complex(float("nan"), 0)).abs().sum().backward()
    second.step()
    assert len(guard.events) == 2
    assert table.weight.isfinite().all()


def test_it_can_be_taken_off():
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    guard = nan_guard(network, optimizer)
    guard.remove()
    train(network, optimizer, batches(1, bad=(1,)))
    assert guard.events == []
    assert not next(network.parameters()).isfinite().all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda m: nan_guard(m, torch.optim.LBFGS(m.parameters())), "LBFGS computes gradients"),
        (lambda m: nan_guard(m, torch.optim.SGD(m.parameters(), 1), "halt"), "pass 'stop', 'skip'"),
    ],
)
def test_refuses_in_one_line(given, words):
    with pytest.raises(PitstopError, match=words):
        given(model())
