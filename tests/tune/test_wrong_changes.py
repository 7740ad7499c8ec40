"""Changes of other packages: what is wrong is refused, what is right is kept."""

import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pitstop.core.plugins import load_plugins
from pitstop.tune.bench.bench import LiveBench, Pace
from pitstop.tune.bench.process import Start
from pitstop.tune.bench.questions import CALL, STEP, BenchPlan
from pitstop.tune.change import change_plugins
from pitstop.tune.checked import RunError
from pitstop.tune.plan import Wanted
from pitstop.tune.search.numbers import Numbers

pytestmark = pytest.mark.slow  # real processes: `make test-slow`

PLUGINS = Path(__file__).parent / "plugins"
OF_INFERENCE = {"output-off", "nothing-at-all", "sums-in-another-order"}
TRAINS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1),
    nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
data = TensorDataset(torch.randn(4000, 3, 8, 8), torch.arange(4000) % 10)
for epoch in range(1000):
    for number, (x, y) in enumerate(DataLoader(data, batch_size=16, shuffle=True)):
        nn.functional.cross_entropy(model(x), y).backward()
        if number % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
"""
IN_MEMORY = TRAINS.replace(
    "DataLoader(data, batch_size=16, shuffle=True)",
    "[[each[rows] for each in data.tensors] for rows in torch.randperm(4000).split(16)]",
)
INFERS = """
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).eval()
x = torch.randn(8, 64)
with torch.no_grad():
    while True:
        x = x + 0.01 * model(x)
"""


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """Numbers of all plugins on a script that runs."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(PLUGINS), before])))
    load_plugins.cache_clear()
    changes = {each.name: each for each in change_plugins().found}
    benches = []

    def build(source, level, only=None):
        script = tmp_path / "script.py"
        script.write_text(source)
        wanted = tuple(Wanted(name) for name in changes if only is None or name in only)
        plan = BenchPlan(wanted, (), "", "", level == STEP, level)
        kind = "optimizer" if level == STEP else "module"
        start = Start((sys.executable, str(script)), tmp_path / "bench", plan, (kind, 1))
        bench = LiveBench(start, Pace(20.0, 0.1), time.monotonic() + 500)
        benches.append(bench)
        found = Numbers(bench, changes, "float32")
        found.begin()
        return found, [each.name for each in wanted], bench

    yield build
    for each in benches:
        each.close()


def verdicts(numbers, names):
    found = {}
    for name in names:
        try:
            found[name] = numbers.of((Wanted(name),)).ok
        except RunError as error:
            found[name] = error.verdict != "failed"
    return found


@pytest.mark.parametrize("source", [TRAINS, IN_MEMORY], ids=["loader", "memory"])
def test_what_is_wrong_in_a_training_is_refused_and_what_is_right_kept(source, numbers):
    found, names, bench = numbers(source, STEP)
    assert found.repeats
    import wrong

    said = verdicts(found, [each for each in names if each != "output-off"])
    assert {name for name, ok in said.items() if ok} == set(wrong.RIGHT)
    assert bench.starts == 2  # one of them kills the process


def test_an_output_that_is_slightly_off_is_refused(numbers):
    found, names, _ = numbers(INFERS, CALL, OF_INFERENCE)
    said = verdicts(found, names)
    assert said == {name: name != "output-off" for name in OF_INFERENCE}
