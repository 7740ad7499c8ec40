"""What is put around the calls of one module stays with that module."""

import pytest

torch = pytest.importorskip("torch")

from pitstop.parts.blocks import wrap  # noqa: E402
from pitstop.profile.hooks.modules import compiled_anything  # noqa: E402
from pitstop.tune.change import find_change  # noqa: E402
from pitstop.tune.inside.made import Made  # noqa: E402
from pitstop.tune.inside.models import Models  # noqa: E402
from pitstop.tune.inside.script import Script  # noqa: E402
from pitstop.tune.plan import Plan, Wanted  # noqa: E402


class Wrapper(torch.nn.Module):
    """Sets attributes on what it wraps as well, as Lightning Fabric's modules do."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name != "inner" and "_modules" in vars(self) and hasattr(self.inner, name):
            setattr(self.inner, name, value)

    def forward(self, x):
        return self.inner(x)


def test_a_module_that_hands_on_its_attributes_is_called_once():
    inner = torch.nn.Linear(2, 2)
    outer, seen = Wrapper(inner), []

    def around(call, module, x):
        seen.append(type(module))
        return call(x)

    x = torch.ones(1, 2)
    expected = outer(x)
    undo = wrap(outer, around)
    assert torch.equal(outer(x), expected)
    assert seen == [Wrapper]
    undo()
    outer(x)
    assert seen == [Wrapper]


def test_a_model_whose_compiling_is_off_leaves_dynamo_alone():
    undos = []
    models = Models(undos)
    wanted = Wanted("compile", {"backend": "eager"})
    compiling = Script(wanted, Plan(), Made(undos), models, undos)
    compiling.toggled, compiling.on = True, False
    try:
        find_change("compile").apply(compiling)
        model = torch.nn.Linear(2, 2)
        model(torch.ones(1, 2))
        assert not compiled_anything()
        compiling.turn(True)
        model(torch.ones(1, 2))
        assert compiled_anything()
    finally:
        compiling.turn(False)
        for undo in reversed(undos):
            undo()
        torch._dynamo.reset()


def test_weights_laid_out_anew_go_back_to_where_they_lay():
    undos = []
    laid_out = Script(Wanted("channels-last"), Plan(), Made(undos), Models(undos), undos)
    laid_out.toggled, laid_out.on = True, False
    try:
        find_change("channels-last").apply(laid_out)
        model = torch.nn.Conv2d(2, 2, 3)
        model(torch.ones(1, 2, 4, 4))
        places = []
        for on in (True, False, True, False):
            laid_out.turn(on)
            places.append((model.weight.data_ptr(), model.weight.is_contiguous()))
            model.weight.data += 1
        assert places[:2] == places[2:]
        assert [contiguous for _, contiguous in places] == [False, True, False, True]
        assert laid_out.outcome().applied == 1
    finally:
        for undo in reversed(undos):
            undo()


def test_weights_that_were_learned_in_one_layout_are_there_in_the_other():
    undos = []
    laid_out = Script(Wanted("channels-last"), Plan(), Made(undos), Models(undos), undos)
    laid_out.toggled, laid_out.on = True, False
    try:
        find_change("channels-last").apply(laid_out)
        model = torch.nn.Conv2d(2, 2, 3)
        model(torch.ones(1, 2, 4, 4))
        wanted = model.weight.detach().clone()
        for on in (True, False, True, False):
            laid_out.turn(on)
            model.weight.data += 1
            wanted += 1
            assert torch.equal(model.weight, wanted)
    finally:
        for undo in reversed(undos):
            undo()


def test_a_model_whose_class_is_patched_is_the_outermost_one_in_each_call():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x)

    original = torch.nn.Module.__call__
    undos, met, called = [], [], []
    models = Models(undos)
    models.on_model(lambda module: met.append(type(module)))
    models.around(lambda call, module, x: called.append(type(module)) or call(x))
    model, x = Network(), torch.ones(1, 2)
    try:
        model(x)
        Network.__call__ = original  # as where steps are counted
        model(x)
        assert met == [Network]
        assert called == [Network, Network]
    finally:
        for undo in reversed(undos):
            undo()
    assert torch.nn.Module.__call__ is original
