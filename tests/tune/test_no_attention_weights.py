"""Attention is asked for its weights no more where the line that calls it drops them."""

import pytest

pytest.importorskip("torch")

from pitstop.core.evidence import Evidence, Line, ModuleCall, Operation
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Wanted
from tune.running import run

CHANGE = "no-attention-weights"
TRAIN = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, dropout=dropout, batch_first=True)
        self.among = nn.Sequential(Both(self.attention), First())

class Both(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = [inner]
    def forward(self, x):
        return self.inner[0](x, x, x)

class Scripted(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
    def forward(self, x):
        return self.attention(x, x, x)[0]

class First(nn.Module):
    def forward(self, pair):
        return pair[0] * pair[1].sum(), 0

def train(kind, dropout=0.0, prepare=lambda model: None):
    torch.manual_seed(0)
    model = kind(dropout)
    prepare(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        loss = model(torch.randn(2, 8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    return model
"""
LAYER = """
class Layer{}(Layer):
    def forward(self, x):
        {}
        return x + out
"""
DROPS = "out = self.attention(x, x, x)[0]"
READ = "lambda *given: isinstance(given[2], tuple) and given[2][1].sum() and None"
HOOK = f"lambda model: model.attention.register_forward_hook({READ})"
HOOK_OF_ALL = f"lambda _: nn.modules.module.register_module_forward_hook({READ})"
EXPORT = """
import warnings
warnings.simplefilter("ignore")
print(model.eval()(torch.ones(1, 8, 16)).sum().item())
print(torch.jit.script(Scripted(model.attention))(torch.ones(1, 8, 16)).sum().item() and 1)
"""


def trained(*lines, rest="", options=""):
    """A script that trains a layer for each line that calls attention, in turn."""
    layers = [LAYER.format(*each) for each in enumerate(lines)]
    calls = [f"model = train(Layer{number}{options})" for number in range(len(lines))]
    return "\n".join([TRAIN, *layers, *calls, rest])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_takes_hold_where_the_source_shows_that_nobody_reads_them(folder):
    lines = [
        DROPS,
        "out, _ = self.attention(x, x, value=x)",
        "out, weights = (self\n            .attention(x, x,\n                x))",
        "pair = self.attention(x, x, x); out = pair[0]",
    ]
    plain = run(folder, trained(DROPS)).numbers
    ran = run(folder, trained(*lines, rest=EXPORT), CHANGE)
    assert ran.code == 0, ran.complained
    outcome = ran.outcome
    assert (outcome.applied, outcome.declined, outcome.effect) == (17, "", "")  # one in EXPORT
    *numbers, _, scripted = ran.numbers
    assert scripted == 1  # a model can be, still
    for begin in range(0, 16, 4):
        assert numbers[begin : begin + 4] == pytest.approx(plain, rel=1e-5)
        assert numbers[begin : begin + 4] != plain  # another kernel


READS = [
    "out, weights = self.attention(x, x, x); out = out * weights.sum()",
    "out, weights = self.attention(x, x, x, None, True)",
    "out, weights = self.attention(x, x, x, need_weights=True)",
    "pair = self.attention(x, x, x); out, _ = pair",
    "out, weights = Both(self.attention)(x)",  # which hands them on
    "out = self.among(x)[0]",  # a container of torch's calls, and so does it
    "out, weights = list(map(self.attention, [x], [x], [x]))[0]; out = out * weights.sum()",
]


@pytest.mark.parametrize(
    "source",
    [
        trained(*READS),
        pytest.param(trained(DROPS, options=f", 0.0, {HOOK}"), marks=pytest.mark.slow),
        trained(DROPS, options=f", 0.0, {HOOK_OF_ALL}"),
    ],
    ids=["lines", "hook", "hook-of-all"],
)
def test_leaves_alone_what_may_be_read(source, folder):
    ran = run(folder, source, CHANGE)
    assert ran.outcome.declined == "no MultiheadAttention whose weights nobody reads"
    assert ran.numbers == run(folder, source).numbers


def test_dropout_of_the_weights_falls_elsewhere(folder):
    source = trained(DROPS, options=", 0.1")
    assert run(folder, source, CHANGE).outcome.effect == "other-randomness"


def patch_of(folder, line, path="attention", *others):
    """The patch of a script that calls attention in this line, and modules of other kinds."""
    script = folder / "train.py"
    script.write_text(trained(line))
    number = script.read_text().splitlines().index(f"        {line}") + 1
    where = Line(str(script), number, "forward")
    kinds = {path: "MultiheadAttention", **dict.fromkeys(others, "Other")}
    calls = tuple(ModuleCall(each, kind, where, -1, "") for each, kind in kinds.items())
    softmax = Operation("aten._softmax.default", where, "", 1, 1.0, call=0)
    evidence = Evidence(calls=calls, operations=(softmax,))
    return make_patch((Wanted(CHANGE),), evidence, ["train.py"], folder)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (DROPS, "out = self.attention(x, x, x, need_weights=False)[0]"),
        (
            "out = self.attention(x, x, x.topk(2, 1, True)[0])[0]",
            "out = self.attention(x, x, x.topk(2, 1, True)[0], need_weights=False)[0]",
        ),
        ("out = self.attention(x, x, x, need_weights=False)[0]", ""),
        ("out, weights = self.attention(x, x, x); show(weights)", ""),
    ],
)
def test_the_patch_gives_the_argument_to_that_call(line, after, tmp_path):
    patch = patch_of(tmp_path, line)
    added = [each[1:].strip() for each in patch.text.splitlines() if each.startswith("+  ")]
    assert added == [after] * bool(after)
    assert bool(patch.unplaced) != bool(after)


@pytest.mark.parametrize(
    ("line", "path", "other", "placed"),
    [
        (
            "out = self.norm(self.attention(x, x, x)[0])",
            "layers.*.attention",
            "layers.*.norm",
            True,
        ),
        ("out = self.a.mix(x, x, x)[0] + self.b.mix(x, x, x)[0]", "a.mix", "b.mix", False),
        ("for mix in self.mixers: out = mix(x, x, x)[0]", "mixers.0", "mixers.1", False),
        ("out = self.layers[0](self.turn(x, 1, 2)[0], x, x)[0]", "layers.0", "turn", False),
    ],
)
def test_no_other_call_of_the_line_gets_the_argument(line, path, other, placed, tmp_path):
    patch = patch_of(tmp_path, line, path, other)
    assert patch.text.count("need_weights=False)[0])") == placed
    assert bool(patch.unplaced) != placed
