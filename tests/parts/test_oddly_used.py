"""However a model is used, a lever computes what the model computes, or lets it run as it is."""

import copy
import random
import threading
from functools import partial

import pytest
import torch

from parts.oddly_used import Net, counts, decides, nothing, prints
from parts.taped import Taped
from pitstop.parts import fuse_attention, fuse_group_norm, selective_checkpoints
from pitstop.parts.attention import scores
from pitstop.parts.graphs import Graphs
from pitstop.parts.windows.twin import window_attention_twin
from pitstop.parts.windows.ways import Way

pytest.importorskip("triton")
SHAPES = [(2, 3, 6, 6), (1, 3, 4, 8), (3, 3, 5, 5), (2, 3, 6, 6), (2, 3, 7, 4), (2, 3, 6, 6)]


@pytest.fixture
def fused(monkeypatch):
    """Calls of fused attention, which is taken wherever it may be."""
    calls = []

    def part(*arguments):
        calls.append(1)
        return window_attention_twin(*arguments)

    monkeypatch.setattr(scores, "choose", lambda *_: Way.KERNEL)
    monkeypatch.setitem(scores.RUNS, Way.KERNEL, part)
    return calls


def by_attention(model):
    undo = fuse_attention(model)
    assert undo.steps
    return model, undo


def by_norms(model):
    undo = fuse_group_norm(model)
    assert undo.steps
    return model, undo


def by_checkpoints(model):
    return model, selective_checkpoints(model, keep_bytes=0)


def by_graphs(model):
    graphs = Graphs(model, say=lambda _: None, device=lambda _: Taped(model))
    return (lambda x: graphs.around(model, x)), lambda: None


def by_all(model):
    undos = [lever(model)[1] for lever in (by_attention, by_norms, by_checkpoints)]
    return by_graphs(model)[0], lambda: [undo() for undo in reversed(undos)]


LEVERS = [by_attention, by_norms, by_checkpoints, by_graphs, by_all]


@pytest.fixture(params=LEVERS, ids=lambda each: each.__name__)
def levered(request, fused):
    """Makes a call with the lever, its model, and a twin without."""
    undos = []

    def make(oddity):
        torch.manual_seed(0)
        model = Net(oddity)
        twin = copy.deepcopy(model)
        call, undo = request.param(model)
        undos.append(undo)
        return call, model, twin

    yield make
    for undo in undos:  # the code of a class is everybody's
        undo()


def inputs(shapes=SHAPES):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def learned(call, model, x):
    """The result and all gradients of one step."""
    model.zero_grad()
    result = call(x)
    result.square().sum().backward()
    return [result.detach(), *(each.grad.clone() for each in model.parameters())]


def close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def plainly(twin, x):
    return without_fusing(partial(learned, twin, twin, x))


def without_fusing(run):
    """As it was written: the twin has the classes of the model, whose code is exchanged."""
    chosen = scores.choose
    scores.choose = lambda *_: Way.TWIN
    try:
        return run()
    finally:
        scores.choose = chosen


@pytest.mark.parametrize("oddity", [nothing, decides, counts])
def test_shapes_that_change_and_control_flow_on_numbers(levered, fused, oddity):
    call, model, twin = levered(oddity)
    for x in inputs() + inputs():
        found = learned(call, model, x)
        close(found, plainly(twin, x))
    model.eval(), twin.eval()
    with torch.no_grad():
        for x in inputs():
            close([call(x)], [without_fusing(partial(twin, x))])


def test_what_a_model_prints_is_printed_as_often(levered, capsys):
    call, model, twin = levered(prints)
    printed = []
    for run, of in ((call, model), (twin, twin)):
        for x in inputs():
            learned(run, of, x)
        printed.append(capsys.readouterr().out)
    assert printed[0].count("\n") == len(SHAPES)
    assert printed[0] == printed[1]


def test_two_threads_use_one_model(levered):
    call, _, twin = levered(decides)
    batches = inputs()
    with torch.no_grad():
        expected = [without_fusing(partial(twin, x)) for x in batches]
    failures = []

    def work(seed):
        order = random.Random(seed)
        try:
            with torch.no_grad():
                for _ in range(20):
                    at = order.randrange(len(batches))
                    close([call(batches[at])], [expected[at]])
        except Exception as error:  # noqa: BLE001 whatever a thread meets
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    work(9)
    for each in threads:
        each.join()
    assert not failures
