"""Graphs of a model: the same numbers as the model itself, or the model itself."""

import copy
import pickle
import random
from threading import Thread

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from parts.taped import Taped, tensors
from pitstop.parts.graphs import Graphs, Reason, graphed, graphs_of_blocks
from pitstop.parts.graphs.calls import put_in_place


class Network(nn.Module):
    """Convolution, batch norm, a head: what trainings are made of."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)
        self.gain = 1.0

    def forward(self, x, scale=None):
        h = F.relu(self.norm(self.conv(x))).mean((2, 3)) * self.gain
        return self.head(h if scale is None else h * scale)


def pair(model, **options):
    """The model with graphs, its handle, and a twin without."""
    twin, said = copy.deepcopy(model), []
    graphs = Graphs(model, say=said.append, device=lambda _: Taped(model), **options)
    graphs.said = said

    def run(*arguments, **named):
        return graphs.around(model, *arguments, **named)

    return run, graphs, twin


def pictures(count, size=(2, 3, 5, 5)):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, generator=generator) for _ in range(count)]


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(*each) for each in pairs)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_replays_are_the_model_and_results_may_be_kept(context):
    run, graphs, twin = pair(Network().eval())
    with context():
        kept = [(run(x), twin(x)) for x in pictures(6)]
    assert all(torch.equal(*each) for each in kept)
    assert (graphs.replayed, graphs.calls) == (4, 6)
    assert str(graphs).startswith("replayed 4 of 6 calls; 2 not, as the first calls")
    with context():
        kept[4][0].add_(1)  # the caller's own
    assert torch.equal(*kept[5])


def test_batch_statistics_are_as_if_there_had_been_no_warm_up():
    model = Network()
    run, graphs, twin = pair(model)
    with torch.no_grad():
        for x in pictures(7):
            assert torch.equal(run(x), twin(x))
            assert same_weights(model, twin)
    assert graphs.replayed == 5
    assert int(model.norm.num_batches_tracked) == 7


def test_each_shape_has_its_graph_and_rare_ones_have_none():
    run, graphs, twin = pair(Network().eval(), most=2)
    sizes = [(2, 3, side, 5) for side in (4, 6, 8)] * 4
    with torch.no_grad():
        for size in sizes:
            (x,) = pictures(1, size)
            assert torch.equal(run(x), twin(x))
    assert graphs.replayed == 2 * 2
    assert graphs.reasons[Reason.RARE] == 2
    assert graphs.said == [f"Network runs as it is: {Reason.RARE.value}"]


def learn(run, model, optimizer, batches, accumulate=1):
    """The losses of a training."""
    losses = []
    for number, x in enumerate(batches, 1):
        loss = run(x).square().sum()
        loss.backward()
        losses.append(loss.item())
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_a_training_learns_the_same(accumulate):
    model = Network()
    run, graphs, twin = pair(model)
    losses = [
        learn(call, own, torch.optim.Adam(own.parameters(), 1e-2), pictures(12), accumulate)
        for call, own in ((run, model), (twin, twin))
    ]
    assert losses[0] == losses[1]
    assert same_weights(model, twin)
    assert graphs.replayed == 10


def test_results_of_a_training_may_be_kept():
    run, graphs, twin = pair(Network())
    kept = []
    for x in pictures(6):
        kept.append([call(x) for call in (run, twin)])
        for each in kept[-1]:
            each.sum().backward()
    assert all(torch.equal(*each) for each in kept)
    assert graphs.replayed == 4


def test_evaluation_in_between_has_graphs_of_its_own():
    model = Network()
    run, graphs, twin = pair(model)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, twin)]
    for _ in range(4):
        model.train(), twin.train()
        found = learn(run, model, optimizers[0], pictures(3))
        assert found == learn(twin, twin, optimizers[1], pictures(3))
        model.eval(), twin.eval()
        with torch.no_grad():
            for x in pictures(3):
                assert torch.equal(run(x), twin(x))
    assert graphs.replayed == graphs.calls - 4


def test_two_calls_before_one_backward_pass():
    run, graphs, twin = pair(Network())
    for real, fake in zip(pictures(6), pictures(6, (2, 3, 6, 6)), strict=True):
        for call, own in ((run, graphs._model), (twin, twin)):
            own.zero_grad()
            (call(real).sum() - call(fake).square().sum()).backward()
        grads = [[p.grad for p in own.parameters()] for own in (graphs._model, twin)]
        assert all(torch.equal(*each) for each in zip(*grads, strict=True))
    assert graphs.reasons[Reason.PENDING] == 4
    assert graphs.replayed == 4


def test_a_result_that_is_never_differentiated_blocks_nothing_once_it_is_gone():
    run, graphs, _ = pair(Network())
    learn(run, graphs._model, torch.optim.SGD(graphs._model.parameters(), 0.0), pictures(3))
    held = run(pictures(1)[0])
    run(pictures(1)[0])
    assert graphs.reasons[Reason.PENDING] == 1
    del held
    replayed = graphs.replayed
    run(pictures(1)[0])
    assert graphs.replayed == replayed + 1


def trained():
    """A network whose training has a graph already."""
    model = Network()
    run, graphs, twin = pair(model)
    for call, own in ((run, model), (twin, twin)):
        learn(call, own, torch.optim.SGD(own.parameters(), 0.1), pictures(4))
    return run, graphs, twin


class Aside(Network):
    """Keeps its head's weights in a list as well, as torch's LSTM does."""

    def __init__(self):
        super().__init__()
        self.aside = [self.head.weight, self.head.bias]

    def forward(self, x, scale=None):
        h = F.relu(self.norm(self.conv(x))).mean((2, 3))
        return F.linear(h, *self.aside)


def test_weights_used_from_elsewhere_are_seen_and_the_model_learns_as_it_is():
    model = Aside()
    run, graphs, _ = pair(model)
    twin = Aside()
    twin.load_state_dict(model.state_dict())
    for call, own in ((run, model), (twin, twin)):
        learn(call, own, torch.optim.SGD(own.parameters(), 0.1), pictures(6))
    assert same_weights(model, twin)
    assert (graphs.replayed, graphs.reasons[Reason.ELSEWHERE]) == (0, 4)
    assert all(type(each) is nn.Parameter for each in model.parameters())


def test_a_graph_kept_for_a_second_backward_pass_gives_the_same_again():
    run, graphs, twin = trained()
    for call in (run, twin):
        loss = call(pictures(1)[0]).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    grads = [[p.grad for p in own.parameters()] for own in (graphs._model, twin)]
    assert all(torch.equal(*each) for each in zip(*grads, strict=True))


def test_what_is_kept_for_a_second_backward_pass_is_waited_for():
    run, graphs, _ = trained()
    loss = run(pictures(1)[0]).sum()
    loss.backward(retain_graph=True)
    before = graphs.replayed
    run(pictures(1)[0])
    assert graphs.replayed == before
    loss.backward()


def test_gradients_of_inputs_arrive():
    run, graphs, twin = pair(Network().requires_grad_(False).eval())
    for x in pictures(5):
        leaves = [x.clone().requires_grad_() for _ in range(2)]
        for call, leaf in zip((run, twin), leaves, strict=True):
            call(leaf).square().sum().backward()
        assert torch.equal(leaves[0].grad, leaves[1].grad)
    assert graphs.replayed == 3


def penalised(call, x):
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    return slope.square().sum()


def test_a_gradient_penalty_is_taken_of_the_model_itself():
    run, graphs, twin = pair(Network().eval())
    for x in pictures(5):
        for call, own in ((run, graphs._model), (twin, twin)):
            own.zero_grad()
            penalised(call, x).backward()
        grads = [own.conv.weight.grad for own in (graphs._model, twin)]
        assert torch.equal(*grads)
    assert graphs.replayed == 0
    assert graphs.reasons[Reason.TWICE] == 3


def test_a_late_gradient_penalty_is_an_error_and_no_wrong_number():
    run, graphs, _ = pair(Network().eval())
    for x in pictures(4):
        run(x.requires_grad_()).sum().backward()
    assert graphs.replayed == 2
    with pytest.raises(RuntimeError, match="does not require grad"):
        penalised(run, pictures(1)[0]).backward()


class Two(Network):
    """Two results, one of which may lead nowhere."""

    def __init__(self):
        super().__init__()
        self.side = nn.Linear(4, 1)

    def forward(self, x):
        h = self.norm(self.conv(x)).mean((2, 3))
        return {"loss": self.head(h), "side": [self.side(h), 3]}


@pytest.mark.parametrize(("both", "replayed"), [(True, 3), (False, 0)])
def test_results_that_lead_nowhere_leave_no_gradients_of_zero(both, replayed):
    model = Two()
    run, graphs, twin = pair(model)
    for x in pictures(5 if both else 11):
        for call, own in ((run, model), (twin, twin)):
            own.zero_grad()
            found = call(x)
            assert found["side"][1] == 3
            loss = found["loss"].sum() + (found["side"][0].square().sum() if both else 0)
            loss.backward()
        assert torch.equal(model.conv.weight.grad, twin.conv.weight.grad)
        assert (model.side.weight.grad is None) == (not both)
    assert graphs.replayed == replayed


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "gain", 2.0),
        lambda model: setattr(model.conv.weight, "data", model.conv.weight.data * 2),
        lambda model: setattr(model, "head", nn.Linear(4, 2).requires_grad_(False).eval()),
        lambda model: setattr(model.conv, "weight", nn.Parameter(torch.ones(4, 3, 3, 3))),
        lambda model: model.norm.train(),
        lambda model: setattr(model.norm, "running_mean", torch.ones(4)),
        lambda model: model.double().float(),
        lambda model: model.conv.register_forward_hook(lambda *_: torch.zeros(2, 4, 5, 5)),
    ],
)
def test_a_changed_model_is_never_replayed_as_it_was(change):
    model = Network().eval()
    run, graphs, _ = pair(model)
    with torch.no_grad():
        for x in pictures(4):
            run(x)
        torch.manual_seed(0)
        change(model)
        for x in pictures(4):
            twin = copy.deepcopy(model)
            assert torch.equal(run(x), twin(x))
    assert graphs.replayed >= 2


def test_weights_that_are_changed_in_place_are_seen():
    model = Network().eval()
    run, graphs, twin = pair(model)
    with torch.no_grad():
        for x in pictures(5):
            for own in (model, twin):
                own.conv.weight.mul_(1.1)
            assert torch.equal(run(x), twin(x))
    assert graphs.replayed == 3


@pytest.mark.parametrize(("come_back", "replayed"), [(False, 2), (True, 4)])
def test_graphs_of_weights_that_lie_elsewhere_are_kept_only_where_those_come_back(
    come_back, replayed
):
    model = Network().eval()
    run, graphs, twin = pair(model, come_back=come_back)
    here, there = (model.conv.weight.data, model.conv.weight.data.clone())
    with torch.no_grad():
        for place in (here, there, here):
            model.conv.weight.data = place
            for x in pictures(2 if place is there else 3):
                assert torch.equal(run(x), twin(x))
    assert graphs.replayed == replayed


class Odd(Network):
    """Does something that a replay would leave out, or do wrong."""

    def __init__(self, what):
        super().__init__()
        self.what, self.count, self.last, self.list = what, 0, None, []

    def forward(self, x, given=None):
        y = self.head(self.conv(x).mean((2, 3)))
        return self.what(self, x, y, given)


def counts(model, x, y, given):
    model.count += 1
    return y * model.count


def keeps(model, x, y, given):
    model.list.append(y)
    return y + len(model.list)


def prints(model, x, y, given):
    print("norm")  # noqa: T201
    return y


def draws(model, x, y, given):
    return y * random.random()


def drops(model, x, y, given):
    return F.dropout(y, 0.5, training=True)


def changes_x(model, x, y, given):
    x.add_(1)
    return y


def fills_list(model, x, y, given):
    given[0] = y
    return y


def returns_x(model, x, y, given):
    return y, x


def returns_views(model, x, y, given):
    return y.chunk(2, 1)


def returns_object(model, x, y, given):
    return Holder(y)


def fails(model, x, y, given):
    if torch._C._len_torch_dispatch_stack():
        raise RuntimeError("operation not permitted when stream is capturing\nand more")
    return y


class Holder:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("what", "given", "reason"),
    [
        (counts, None, Reason.CHANGES_ITSELF),
        (keeps, None, Reason.CHANGES_ITSELF),
        (prints, None, Reason.PRINTS),
        (draws, None, Reason.DRAWS),
        (drops, None, Reason.DRAWS),
        (changes_x, None, Reason.CHANGES_INPUTS),
        (fills_list, [None], Reason.CHANGES_INPUTS),
        (returns_x, None, Reason.RETURNS),
        (returns_views, None, Reason.RETURNS),
        (returns_object, None, Reason.RETURNS),
        (prints, Holder(1), Reason.ARGUMENT),
        (fails, None, Reason.FAILED),
    ],
)
def test_a_model_that_does_more_runs_as_it_is(what, given, reason, capsys):
    answers = []
    for graphs_too in (True, False):
        torch.manual_seed(0), random.seed(0)
        run, graphs, twin = pair(Odd(what).eval())
        call = run if graphs_too else twin
        inputs, lists = pictures(8), [copy.copy(given) for _ in range(8)]
        with torch.no_grad():
            found = [call(*each) for each in zip(inputs, lists, strict=True)]
        flat = [value(each) for each in found]
        answers.append((flat, inputs, [None if isinstance(e, Holder) else e for e in lists]))
        if graphs_too:
            assert graphs.replayed == 0
            assert graphs.reasons[reason] > 0
            assert len(graphs.said) == 1
            printed = capsys.readouterr().out
    assert all(map(torch.equal, *[tensors(each) for each in answers]))
    assert printed == capsys.readouterr().out


def value(result):
    return result.value if isinstance(result, Holder) else result


def test_what_waits_for_the_gpu_is_not_captured():
    model = Network().eval()
    device = Taped(model)
    device.waited = ["train.py:7"]
    said = []
    graphs = Graphs(model, say=said.append, device=lambda _: device)
    with torch.no_grad():
        for x in pictures(4):
            graphs.around(model, x)
    assert graphs.replayed == 0
    assert said == ["Network runs as it is: it waits for the GPU on its way (train.py:7)"]


def test_another_thread_and_another_stream_get_the_model_itself():
    model = Network().eval()
    device = Taped(model)
    graphs = Graphs(model, say=lambda _: None, device=lambda _: device)
    with torch.no_grad():
        for x in pictures(3):
            graphs.around(model, x)
        device.current = 5
        graphs.around(model, x)
        device.current = 0
    other = Thread(target=graphs.around, args=(model, x))
    other.start()
    other.join()
    assert graphs.replayed == 1
    assert graphs.reasons[Reason.THREAD] == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_recompute_the_model_itself(reentrant):
    run, graphs, twin = trained()
    for call, own in ((run, graphs._model), (twin, twin)):
        own.zero_grad()
        for x in pictures(3):
            checkpoint(call, x.requires_grad_(), use_reentrant=reentrant).square().sum().backward()
    grads = [[p.grad for p in own.parameters()] for own in (graphs._model, twin)]
    assert all(torch.equal(*each) for each in zip(*grads, strict=True))


def test_autocast_is_a_kind_of_its_own():
    model = Network().eval()
    run, graphs, twin = pair(model)
    for cast in (True, True, True, False, False, False):
        (x,) = pictures(1)
        for _ in range(3):
            answers = []
            for call in (run, twin):
                with torch.autocast("cpu", torch.bfloat16, enabled=cast):
                    answers.append(call(x))
                answers[-1].float().sum().backward()
            assert torch.equal(*answers)
    assert torch.equal(model.conv.weight.grad, twin.conv.weight.grad)
    assert graphs.replayed == graphs.calls - 4


def test_plain_values_expanded_inputs_and_names_are_kinds():
    run, graphs, twin = pair(Network().eval())
    (x,) = pictures(1)
    with torch.no_grad():
        for scale in (2, 2, 2, 3, torch.ones(1, 1).expand(2, 4), None) * 3:
            assert torch.equal(run(x, scale=scale), twin(x, scale=scale))
        wide = torch.randn(1, 3, 1, 5)
        for each in (wide, wide * 2, wide * 3, wide * 4):
            spread = each.expand(2, 3, 5, 5)
            assert torch.equal(run(spread), twin(spread))
    assert graphs.replayed == 7 + 1 + 1 + 1 + 2  # scale 2, 3, a tensor, none; expanded


def test_graphed_model_is_copied_saved_and_undone_as_it_is(monkeypatch):
    model = Network().eval()
    names, (x,) = list(model.state_dict()), pictures(1)
    handle = graphed(model)
    assert torch.equal(copy.deepcopy(model)(x), model(x))  # on a CPU, as it is
    assert list(model.state_dict()) == names
    assert handle.calls == 1
    assert handle.reasons == {Reason.NOT_CUDA: 1}
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))
    handle()
    model(x)
    assert handle.calls == 2


def test_says_once_why_it_runs_as_it_is(capsys):
    model = Network()
    graphed(model)
    for x in pictures(2):
        model(x)
    said = capsys.readouterr().err
    assert said == f"pitstop: graphed: Network runs as it is: {Reason.NOT_CUDA.value}\n"


class Stage(nn.Module):
    """A block with a wide result inside, which others may write over."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 16), nn.Linear(16, 4)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Talkative(nn.Module):
    """Cannot be captured as a whole; its blocks can."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Stage() for _ in range(3))

    def forward(self, x):
        print("called")  # noqa: T201
        for each in self.blocks:
            x = each(x)
        return x


def with_blocks(model):
    """Blocks with graphs on tapes, one for all blocks from which nothing is learned."""
    said = []
    every = graphs_of_blocks(model, said.append, device=lambda _: Taped(model))
    for block, graphs in every:
        put_in_place(block, graphs)
    return [graphs for _, graphs in every], said


def test_blocks_of_a_model_that_prints_are_replayed_from_one_pool():
    model = Talkative().eval()
    twin = copy.deepcopy(model)
    every, said = with_blocks(model)
    with torch.no_grad():
        kept = [(model(x), twin(x)) for x in pictures(6, (2, 4))]
    assert all(torch.equal(*each) for each in kept)
    assert [each.replayed for each in every] == [4, 4, 4]
    assert (
        len(
            {
                id(kind.graph._replay.__self__.device)
                for each in every
                for kind in each._kinds.values()
            }
        )
        == 1
    )
    assert said == []


def test_blocks_learn_what_they_learn_without_graphs():
    model = Talkative()
    twin = copy.deepcopy(model)
    every, _ = with_blocks(model)
    for x in pictures(7, (2, 4)):
        for each in (model, twin):
            each(x).square().sum().backward()
            with torch.no_grad():
                for weight in each.parameters():
                    weight.sub_(0.01 * weight.grad)
                    weight.grad = None
        assert same_weights(model, twin)
    assert all(each.replayed >= 4 for each in every)


def test_what_blocks_of_one_class_cannot_do_is_said_once():
    model = Talkative().eval()
    for block in model.blocks:
        block.register_forward_hook(lambda *_: None)
    _, said = with_blocks(model)
    with torch.no_grad():
        for x in pictures(3, (2, 4)):
            model(x)
    assert said == ["Stage runs as it is: it has hooks, which a replay would leave out"]


def test_graphs_of_blocks_are_undone_together(capsys):
    model = Talkative().eval()
    undo = graphed(model, blocks=True)
    with torch.no_grad():
        model(torch.ones(2, 4))
    assert str(undo).startswith("3 blocks: replayed 0 of 3 calls; 3 not, as its weights are not")
    undo()
    with torch.no_grad():
        model(torch.ones(2, 4))
    assert str(undo).startswith("3 blocks: replayed 0 of 3 calls")
