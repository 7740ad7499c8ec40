"""Steps of scripts that compile a function around their models and optimizers."""

import sys

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._dynamo.testing import CompileCounter  # noqa: E402

from pitstop.profile.read.collect import collect  # noqa: E402
from pitstop.profile.record.sampler import _inside  # noqa: E402
from pitstop.profile.source.lines import origin_of  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x).relu()

    def decode(self, x):
        return self.body(x) * 2


@pytest.fixture(autouse=True)
def anew():
    """Each test compiles for itself, and leaves nothing of that to others."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def evidence(recording, folder):
    recording.close()
    return collect(folder, 0)[0]


def steps(recording, folder, call, times=8):
    for _ in range(times):
        call(torch.ones(2, 4))
    return evidence(recording, folder)


def function(net):
    return torch.compile(lambda x: net(x).mean(), backend="eager", fullgraph=True)


def decorated(net):
    @torch.compile(backend="eager")
    def generate(x):
        return net(x).mean()

    return generate


def method(net):
    net.decode = torch.compile(net.decode, backend="eager")
    return net.decode


def in_place(net):
    net.compile(backend="eager")
    return net


def inner(net):
    net.body.compile(backend="eager")
    return net


def eager_within(net):
    """Of two graphs, with a module between them that is called as ever."""

    def forward(x):
        torch._dynamo.graph_break()
        return net(x)

    return torch.compile(forward, backend="eager")


@pytest.mark.parametrize("compiled", [function, decorated, method, in_place, inner, eager_within])
def test_each_call_of_what_was_compiled_is_a_step(compiled, recording, tmp_path):
    found = steps(recording, tmp_path, compiled(Net()))
    assert (found.step_kind, len(found.steps)) == ("module", 7)  # the last has no end


def test_an_optimizer_that_steps_in_a_compiled_function_ends_a_step(recording, tmp_path):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)

    @torch.compile(backend="eager")
    def train_step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    found = steps(recording, tmp_path, train_step)
    assert (found.step_kind, len(found.steps)) == ("optimizer", 8)
    assert all(step.loss is not None for step in found.steps)


def test_an_optimizer_that_steps_outside_is_not_counted_twice(recording, tmp_path):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 1e-2)
    loss_of = torch.compile(lambda x: net(x).square().mean(), backend="eager")
    for _ in range(6):
        loss_of(torch.ones(2, 4)).backward()
        optimizer.step()
    found = evidence(recording, tmp_path)
    assert (found.step_kind, len(found.steps)) == ("optimizer", 6)


def test_a_function_that_fails_raises_as_ever_and_the_next_call_is_a_step(recording, tmp_path):
    def fails(x):
        if len(x) == 3:
            raise KeyError("mine")
        return x + 1

    call = torch.compile(fails, backend="eager")
    call(torch.ones(2))
    with pytest.raises(KeyError, match="mine"):
        call(torch.ones(3))
    for _ in range(4):
        call(torch.ones(2))
    assert len(evidence(recording, tmp_path).steps) == 5


def test_a_function_called_by_another_one_is_still_one_graph_with_it(recording):
    counter = CompileCounter()
    double = torch.compile(lambda x: x * 2, backend=counter)
    both = torch.compile(lambda x: double(x) + 1, backend=counter, fullgraph=True)
    assert both(torch.ones(2)).tolist() == [3.0, 3.0]
    assert counter.frame_count == 1


def test_what_is_not_compiled_is_left_alone(recording):
    def plain(x):
        return x

    assert torch.compile(plain, disable=True)(3) == 3
    assert torch.compile(plain, backend="eager").__name__ == "plain"
    assert isinstance(torch.compile(Net(), backend="eager"), nn.Module)


def test_code_that_a_compiler_wrote_is_torchs(tmp_path):
    name = "a" * 49
    path = str(tmp_path / "et" / f"cet{name}.py")
    assert origin_of(path) == "hidden"
    assert origin_of(str(tmp_path / "et" / f"cat{name}.py")) == "user"
    made = {}
    exec(compile("def call(ask):\n    return ask()\n", path, "exec"), made)  # as inductor does
    assert made["call"](lambda: _inside(sys._getframe())).endswith("<locals>.<lambda>")
    assert _inside(made["call"](sys._getframe)) == f"et/cet{name}.py:call"
