# mypy: disable-error-code="no-untyped-def,no-untyped-call"
"""Graphs on a real GPU: equal to the last bit, or the model itself."""

import copy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pitstop.parts.graphs import Graphs, Reason

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SIDE = 32


class Network(nn.Module):
    """Many small operations, as launch-bound models have."""

    def __init__(self, dropout=0.0):
        super().__init__()
        widths = (3, 16, 16, 16)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in pairwise(widths)
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for each in self.layers:
            x = each(x)
        return self.head(self.dropout(x.mean((2, 3))))


class Waits(Network):
    def forward(self, x):
        y = super().forward(x)
        return y * 2 if y.sum().item() > 0 else y


class Copies(Network):
    """A copy from the CPU that torch's watch lets pass, but no capture does, or both refuse."""

    def forward(self, x):
        return super().forward(x) + torch.ones(4).to(x.device)


@pytest.fixture(autouse=True)
def _repeatable():
    torch.manual_seed(0)
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    yield
    torch.backends.cudnn.deterministic = before


def pair(model):
    model = model.cuda()
    twin, said = copy.deepcopy(model), []
    graphs = Graphs(model, say=said.append)

    def run(*given):
        return graphs.around(model, *given)

    return run, graphs, twin, said


def pictures(count, side=SIDE):
    return [torch.randn(4, 3, side, side, device="cuda") for _ in range(count)]


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(*each) for each in pairs)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("training", [False, True])
def test_inference_is_equal_to_the_last_bit_and_results_may_be_held(context, training):
    run, graphs, twin, said = pair(Network().train(training))
    twin.train(training)
    with context():
        kept = [(run(x), twin(x)) for x in pictures(20)]
    assert all(torch.equal(*each) for each in kept), said
    assert same(graphs._model, twin)
    assert graphs.replayed == 18, said


def test_two_shapes_in_turn_share_a_pool():
    run, graphs, twin, said = pair(Network().eval())
    with torch.no_grad():
        for one, other in zip(pictures(6), pictures(6, 48), strict=True):
            assert torch.equal(run(one), twin(one))
            assert torch.equal(run(other), twin(other))
    assert graphs.replayed == 2 * 4, said


def train(call, model, batches, autocast=None, accumulate=1):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for number, x in enumerate(batches, 1):
        with torch.autocast("cuda", autocast or torch.bfloat16, enabled=autocast is not None):
            loss = F.mse_loss(call(x).float(), torch.zeros(4, 4, device="cuda"))
        loss.backward()
        losses.append(loss.detach())
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return torch.stack(losses)


@pytest.mark.parametrize("autocast", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_training_has_the_same_losses_weights_and_buffers(autocast, accumulate):
    run, graphs, twin, said = pair(Network())
    batches = pictures(24)
    found = train(run, graphs._model, batches, autocast, accumulate)
    assert torch.equal(found, train(twin, twin, batches, autocast, accumulate)), said
    assert same(graphs._model, twin)
    assert graphs.replayed == 22, said


def test_dropout_draws_the_same_numbers_as_without_graphs():
    run, graphs, twin, said = pair(Network(dropout=0.5))
    answers = []
    for call in (run, twin):
        torch.manual_seed(7)
        with torch.no_grad():
            answers.append([call(x) for x in [torch.ones(4, 3, SIDE, SIDE, device="cuda")] * 8])
    assert all(torch.equal(*each) for each in zip(*answers, strict=True)), said
    assert not torch.equal(answers[0][-1], answers[0][-2])
    assert graphs.replayed == 6, said


def test_train_and_evaluate_in_turn():
    run, graphs, twin, said = pair(Network())
    for _ in range(3):
        batches = pictures(4)
        graphs._model.train(), twin.train()
        found = train(run, graphs._model, batches)
        assert torch.equal(found, train(twin, twin, batches)), said
        graphs._model.eval(), twin.eval()
        with torch.no_grad():
            for x in batches:
                assert torch.equal(run(x), twin(x))
    assert graphs.replayed == graphs.calls - 4, said


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [(Waits, {Reason.WAITS}), (Copies, {Reason.WAITS, Reason.FAILED})],
)
def test_what_cannot_be_captured_runs_as_it_is_and_leaves_the_gpu_well(kind, reasons):
    run, graphs, twin, said = pair(kind())
    batches = pictures(8)
    found = train(run, graphs._model, batches)
    assert torch.equal(found, train(twin, twin, batches)), said
    assert graphs.replayed == 0
    assert reasons & set(graphs.reasons), said
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    after, others, other_twin, _ = pair(Network().eval())  # a failed capture spoils no later one
    with torch.no_grad():
        for x in pictures(5):
            assert torch.equal(after(x), other_twin(x))
    assert others.replayed == 3


def test_a_capture_that_fails_on_the_way_draws_nothing():
    class Breaks(Network):
        def forward(self, x):
            y = F.dropout(super().forward(x), 0.5)
            if torch.cuda.is_current_stream_capturing():
                y.sum().item()
            return y

    run, graphs, twin, said = pair(Breaks())
    answers = []
    batches = pictures(6)
    for call in (run, twin):
        torch.manual_seed(3)
        with torch.no_grad():
            answers.append([call(x) for x in batches])
    assert all(torch.equal(*each) for each in zip(*answers, strict=True)), said
    assert graphs.reasons[Reason.FAILED] > 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_eight_shapes_reserve_little_more_than_one():
    model = nn.Sequential(*[nn.Conv2d(64, 64, 3, padding=1) for _ in range(8)], nn.Flatten(2))
    run, graphs, _, said = pair(nn.Sequential(nn.Conv2d(3, 64, 1), model).eval())
    with torch.no_grad():
        for side in range(256, 128, -16):
            for x in pictures(4, side):
                run(x)
            if side == 256:
                torch.cuda.empty_cache()
                first = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    held = sum(4 * 64 * side * side * 4 for side in range(256, 128, -16))  # results of all graphs
    assert graphs.replayed == 8 * 2, said
    assert torch.cuda.memory_reserved() < 1.2 * first + 1.2 * held
