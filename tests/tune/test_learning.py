"""What optimizers do is seen from outside, whoever scales, skips or freezes."""

import json

import pytest

pytest.importorskip("torch")

import torch

from pitstop.core.evidence import Evidence
from pitstop.tune.guard import readings
from pitstop.tune.guard.drift import learning_apart
from pitstop.tune.inside import learning
from pitstop.tune.inside.made import Made
from pitstop.tune.plan import LEARNING


@pytest.fixture
def trained(tmp_path):
    """Train in this process, and read what was recorded of it."""
    numbers = iter(range(9))

    def train(
        edit=lambda _: None,
        steps=3,
        kind=torch.float32,
        done=None,
        rate=1e-5,
        scaler=None,
        **options,
    ):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        undos = []
        made = Made(undos)
        made.watch_optimizers()
        now = [0]
        learning.record(made, folder, done or (lambda: now[0]))
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)).to(kind)
        optimizer = torch.optim.Adam(model.parameters(), rate, **options)
        scaler = torch.amp.GradScaler("cpu", enabled=scaler is not None, init_scale=scaler or 1.0)
        for step in range(steps):
            now[0] = step
            optimizer.zero_grad()
            scaler.scale(model(torch.randn(8, 64, dtype=kind)).square().mean()).backward()
            edit(model)
            scaler.step(optimizer)
            scaler.update()
        for undo in reversed(undos):
            undo()
        return readings.read(folder, Evidence())

    return train


def test_gradients_and_the_way_of_the_weights_are_told_step_by_step(trained):
    found = trained().learning
    assert len(found) == 3
    (gradients, way), *_ = found
    assert gradients > 0.1
    assert way == pytest.approx(1e-5 * (64 * 64 + 64 + 64 + 1) ** 0.5, rel=0.1)


def test_only_the_first_steps_and_those_that_count_are_told(trained):
    assert len(trained(steps=9).learning) == 3
    assert trained(done=lambda: None).learning == ()


def test_a_layer_that_has_lost_its_gradients_is_seen(trained):
    def freeze(model):
        model[1].weight.grad = None

    found, plain = trained(freeze), trained()
    assert max(learning_apart(found, plain)) > 0.1
    assert found.idle == {(0, 2)}
    assert (0, 2) in plain.learns
    assert not plain.idle


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_weights_of_any_precision_are_told(trained, kind):
    assert len(trained(kind=kind).learning) == 3


def test_a_gradient_of_rounding_alone_is_no_loss(trained):
    """As that of a bias before a BatchNorm, which may be nothing or next to nothing."""

    def edit(model):
        model[0].bias.grad.fill_(1e-12)

    assert (0, 1) not in trained(edit).learns


def test_a_failure_of_ours_does_not_end_the_script(trained, monkeypatch):
    monkeypatch.setattr(learning, "_length", lambda _: 1 / 0)
    assert trained().learning == ()


def test_an_optimizer_that_does_not_move_is_seen(trained):
    plain = trained()
    assert max(learning_apart(trained(rate=0.0), plain)) == 1.0
    assert not any(learning_apart(trained(), plain))


@pytest.mark.parametrize("fused", [False, True])
def test_scaled_gradients_are_told_unscaled_and_a_skipped_step_not_at_all(trained, fused):
    def overflow(model):
        model[0].weight.grad[0, 0] = float("inf")

    plain, scaled = trained(fused=fused), trained(fused=fused, scaler=1024.0)
    assert len(scaled.learning) == 3
    assert max(learning_apart(scaled, plain)) < 1e-3
    assert trained(overflow, fused=fused, scaler=1024.0).learning == ()


def test_a_compiled_step_is_compiled_once_and_tells_nothing(trained, monkeypatch):
    torch._dynamo.reset()
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    steps = {}

    def step(scaler, optimizer):
        steps.setdefault(optimizer, torch.compile(optimizer.step, backend=backend))()

    monkeypatch.setattr(torch.amp.GradScaler, "step", step)
    assert trained(steps=6).learning == ()
    assert len(compiled) <= 2  # as without: the first step makes the averages


def test_a_skipped_step_leaves_the_others_in_their_places(trained):
    calls = []

    def overflow_once(model):
        calls.append(1)
        if len(calls) == 1:
            model[0].weight.grad[0, 0] = float("inf")

    first, *rest = trained(overflow_once, scaler=1024.0).learning
    assert first == (None, None)
    assert len(rest) == 2


def test_lines_are_of_one_rank(trained, monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    assert trained().learning == ()
    monkeypatch.setenv("RANK", "0")
    assert len(trained().learning) == 3
    first = json.loads((tmp_path / "1" / LEARNING).read_text().splitlines()[0])
    assert first[:2] == [0, 0]
