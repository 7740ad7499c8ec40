"""Blocks are compiled, all of them, where torch alone fails or gives up half-way."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

from pitstop.compare.record import record
from pitstop.tune.patch.patch import make_patch
from tune.running import run
from tune.sourced import wanted

pytestmark = pytest.mark.slow  # real processes: `make test-slow`

EAGER = {"backend": "aot_eager"}  # Dynamo and autograd as always; no C++ compiler is needed
MODEL = """
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep = 1 - rate
    return x.div(keep) * (keep + torch.rand(x.shape[0], 1)).floor_()

class Block(nn.Module):
    def __init__(self, rate, width):
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width, 8)
        self.rate = rate
    def mix(self, x):
        return drop_path(self.second(torch.relu(self.first(x))), self.rate, self.training)
    def forward(self, x):
        return x + self.run(self.mix, x + self.run(self.mix, x))
    def run(self, function, x):
        return function(x)

class Model(nn.Module):
    def __init__(self, rates, widths):
        super().__init__()
        self.blocks = nn.ModuleList(map(Block, rates, widths))
    def forward(self, x):
        for block in self.blocks:
            x = self.call(block, x)
        return x
    def call(self, block, x):
        return block(x)

def train(rates, widths):
    torch.manual_seed(0)
    model = Model(rates, widths)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(torch.randn(4, 8, requires_grad=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
    print("graphs", counters["stats"]["unique_graphs"])
"""
DROP_PATH = f"{MODEL}\ntrain([0.1, 0.2, 0.3, 0.4], [8] * 4)\n"
INSIDE = DROP_PATH.replace(
    "return function(x)", "return checkpoint(function, x, use_reentrant=True)"
)
AROUND = DROP_PATH.replace("return block(x)", "return checkpoint(block, x, use_reentrant=True)")
WIDTHS = f"{MODEL}\ntrain([0.0] * 12, range(8, 32, 2))\n"
CHECKED = f"""{MODEL}
model = Model([0.0] * 2, [8] * 2)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for step in range(3):
    with torch.no_grad():
        model(torch.ones(4, 8))
    print("graphs", counters["stats"]["unique_graphs"])
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def graphs(ran):
    (line,) = (each for each in ran.printed if each.startswith("graphs"))
    return int(line.split()[1])


@pytest.mark.parametrize("scope", ["blocks", "inside-checkpoints"])
def test_gets_past_checkpoints_with_drop_path_inside_the_blocks(scope, folder):
    ran = run(folder, INSIDE, ("compile", {"scope": scope, **EAGER}))
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == 4
    assert graphs(ran) > 1
    assert ran.numbers == run(folder, INSIDE).numbers


def test_blocks_that_are_alike_are_compiled_once(folder):
    alike = f"{MODEL}\ntrain([0.0] * 6, [8] * 6)\n"
    ran = run(folder, alike, ("compile", {"scope": "blocks", **EAGER}))
    assert (ran.outcome.applied, graphs(ran)) == (6, 1)
    assert ran.numbers == run(folder, alike).numbers


def test_a_checkpoint_around_a_block_is_left_to_the_script(folder):
    ran = run(folder, AROUND, ("compile", {"scope": "blocks", **EAGER}))
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == 4
    assert ran.numbers == run(folder, AROUND).numbers


def test_no_block_is_left_out_where_all_differ(folder):
    ran = run(folder, WIDTHS, ("compile", {"scope": "blocks", **EAGER}))
    assert ran.code == 0, ran.complained
    assert "recompile_limit" not in ran.complained
    assert graphs(ran) == 12


@pytest.mark.parametrize("text", [INSIDE, WIDTHS], ids=["checkpoints", "widths"])
def test_patched_source_gets_past_them_as_well(text, tmp_path):
    text = text.replace("range(3)", "range(12)")
    (script := tmp_path / "train.py").write_text(text)
    words = [sys.executable, str(script)]
    (evidence,) = record(words, tmp_path / "recording", warmup=1, inspect=1).evidences
    (trials := tmp_path / "trials").mkdir()
    change = ("compile", {"scope": "blocks", **EAGER})
    proved = run(trials, text, change)
    patch = make_patch(wanted(change), evidence, words, tmp_path)
    subprocess.run(["git", "apply"], input=patch.text, text=True, cwd=tmp_path, check=True)
    after = subprocess.run(words, check=True, capture_output=True, text=True)
    assert after.stdout.splitlines() == proved.printed  # as many graphs, too
    assert "_limit" not in after.stderr


OWN = """
import torch
from torch import nn
from torch._dynamo.utils import counters
class Block(nn.Sequential):
    pass
torch.manual_seed(0)
model = nn.Sequential(*(Block(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for step in range(3):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
print("graphs", counters["stats"]["unique_graphs"])
"""


@pytest.mark.parametrize(("scope", "parts"), [("whole", 1), ("blocks", 3)])
def test_containers_of_torchs_own_are_compiled_though_dynamo_passes_over_them(scope, parts, folder):
    ran = run(folder, OWN, ("compile", {"scope": scope, **EAGER}))
    assert ran.outcome.applied == parts
    assert graphs(ran) >= 1
    assert ran.numbers == run(folder, OWN).numbers


@pytest.mark.parametrize("scope", ["whole", "blocks"])
def test_what_a_training_checks_before_its_first_step_is_not_compiled_in_trials(scope, folder):
    change = ("compile", {"scope": scope, **EAGER})
    trial, outside = (run(folder, CHECKED, change, trains=each) for each in (True, False))
    assert trial.printed[0] == "graphs 0" != outside.printed[0]
    assert trial.printed[1:] == outside.printed[1:]  # what steps run without gradients is compiled
    assert trial.outcome.applied == outside.outcome.applied > 0
