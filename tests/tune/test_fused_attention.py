"""`fused-attention` as a change: the script stays unedited, its numbers what they were."""

import pytest

pytest.importorskip("torch")

from pitstop.core.evidence import Evidence, Line, ModuleCall, Operation
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Wanted
from tune.running import run

CHANGE = "fused-attention"
SCRIPT = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.drop = nn.Dropout(dropout)
        self.proj = nn.Linear(32, 32)

    def forward(self, x):
        n, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, 2, 16).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1)) * 0.25
        a = self.drop({})
        return x + self.proj((a @ v).transpose(1, 2).reshape(n, tokens, 32))

torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Attention({}), Attention({}))

    def forward(self, x):
        return self.layers(x)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    loss = model(torch.randn(2, {}, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
SHAPE = "float32[2,16,32]@cpu"
SOFTMAX = "a.softmax(dim=-1)"


def script(softmax=SOFTMAX, dropout=0.0, tokens="16"):
    return SCRIPT.format(softmax, dropout, dropout, tokens)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("tokens", ["16", "16 + step"])
def test_an_unedited_script_computes_what_it_did(folder, tokens):
    source = script(tokens=tokens)
    ran = run(folder, source, CHANGE)
    assert ran.code == 0, ran.complained
    assert (ran.outcome.applied, ran.outcome.declined, ran.outcome.effect) == (1, "", "")
    assert ran.numbers == pytest.approx(run(folder, source).numbers, rel=1e-5)


def test_dropout_at_work_falls_where_it_fell(folder):
    source = script(dropout=0.1)
    assert run(folder, source, CHANGE).numbers == run(folder, source).numbers


def test_scores_that_are_read_are_left_alone(folder):
    source = script(softmax="a.softmax(dim=-1) + 0 * print(a.shape[-1], float(a.mean()) > 9, '')")
    source = source.replace("+ 0 * print", "if print").replace(", '')", ") is None else a")
    ran = run(folder, source, CHANGE)
    assert ran.code == 0, ran.complained
    reason = "no attention that a model writes out, and whose scores nothing else reads"
    assert ran.outcome.declined == reason
    assert ran.printed == run(folder, source).printed


def test_the_patch_writes_the_part_behind_the_model(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(script())
    lines = path.read_text().splitlines()

    def at(text, function):
        number = next(place for place, each in enumerate(lines, 1) if text in each)
        return Line(str(path), number, function)

    outer = ModuleCall("Net", "Net", at("loss = model", "<module>"), -1, SHAPE, parameters=9)
    inner = ModuleCall("layers.0", "Attention", at("loss = model", "<module>"), 0, SHAPE)
    scores = "float32[2,2,16,16]@cpu"
    operations = (
        Operation(
            "aten.bmm.default", at("a = (q", "forward"),
            "float32[4,16,16]@cpu float32[4,16,16]@cpu", 1, 9.0, call=1,
        ),
        Operation("aten._softmax.default", at("a = self.drop", "forward"), scores, 1, 9.0, call=1),
        Operation(
            "aten.bmm.default", at("(a @ v)", "forward"),
            "float32[4,16,16]@cpu float32[4,16,16]@cpu", 1, 9.0, call=1,
        ),
    )  # fmt: skip
    for found, added in (
        (operations, ["from pitstop.parts import fuse_attention", "fuse_attention(model)"]),
        (operations[:1], []),
    ):
        evidence = Evidence(calls=(outer, inner), operations=found)
        patch = make_patch((Wanted(CHANGE),), evidence, ["train.py"], tmp_path)
        said = [each[1:] for each in patch.text.splitlines() if each.startswith("+")][1:]
        assert [each for each in said if each] == added
