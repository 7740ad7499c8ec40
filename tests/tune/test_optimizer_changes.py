"""Changes of optimizers take hold, and in twin steps the numbers stay what they were."""

import sys
import time

import pytest

pytest.importorskip("torch")

from pitstop.tune.bench.bench import Kind, LiveBench, Pace
from pitstop.tune.bench.process import Start
from pitstop.tune.bench.questions import STEP, BenchPlan
from pitstop.tune.guard.twins import judge_exact, judge_rounding
from pitstop.tune.plan import Wanted
from tune.running import TRAINS, run

pytestmark = pytest.mark.slow  # real processes: `make test-slow`

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 1))
groups = [{"params": [each], "weight_decay": 0.1 * (each.ndim > 1)} for each in model.parameters()]
"""
TRAIN = """
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, [lambda step, each=each: 0.999 ** (step * (each % 2)) for each in range(6)]
)
for number in range(STEPS):
    @torch.enable_grad()
    def closure():
        optimizer.zero_grad()
        loss = (model(torch.randn(8, 16)) - 1).square().mean()
        loss.backward()
        return loss
    loss = optimizer.step(closure)
    schedule.step()
    optimizer.param_groups[5]["weight_decay"] *= 1.001
    print(loss.item())
print("groups", len(optimizer.param_groups), len(optimizer.state_dict()["param_groups"]))
"""
FUSED = "optimizer = torch.optim.AdamW(groups, 1e-2, fused=True)"
DEFAULT = "optimizer = torch.optim.AdamW(groups, 1e-2)"
OWN = """
class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, foreach=None):
        super().__init__(params, {"lr": lr, "foreach": foreach, "weight_decay": 0.0})
    @torch.no_grad()
    def step(self, closure=None):
        loss = closure()
        for group in self.param_groups:
            taken = [each for each in group["params"] if each.grad is not None]
            if group["foreach"]:
                torch._foreach_add_(taken, [each.grad.sign() for each in taken], alpha=-group["lr"])
            else:
                for each in taken:
                    each.add_(each.grad.sign(), alpha=-group["lr"])
        return loss
optimizer = Lion(groups)
"""


def script(optimizer, steps=20):
    return HEAD + optimizer + TRAIN.replace("STEPS", str(steps))


@pytest.mark.parametrize(
    ("change", "optimizer"),
    [("merge-groups", FUSED), ("merge-groups", DEFAULT), ("fused-optimizer", OWN)],
)
def test_every_loss_of_a_run_is_the_same(change, optimizer, tmp_path):
    plain, ours = (run(tmp_path, script(optimizer), *each) for each in ((), (change,)))
    assert ours.code == 0, ours.complained
    assert (ours.outcome.applied, ours.outcome.declined) == (1, "")
    assert ours.printed == plain.printed
    assert ours.printed[-1] == "groups 6 6"


@pytest.fixture
def twins(tmp_path):
    """Twin steps of a script, off and on."""
    benches = []

    def ask(source, change):
        (tmp_path / "script.py").write_text(source)
        plan = BenchPlan((change,), (), "", "", True, STEP)
        command = (sys.executable, str(tmp_path / "script.py"))
        start = Start(command, tmp_path / "bench", plan, ("optimizer", 1))
        benches.append(LiveBench(start, Pace(20.0, 0.1), time.monotonic() + 500))
        bench = benches[-1]
        return bench.twins((change,), 3, Kind()), bench.twins((), 2, Kind())

    yield ask
    for each in benches:
        each.close()


@pytest.mark.parametrize("optimizer", [FUSED, DEFAULT, "optimizer = torch.optim.NAdam(groups)"])
def test_merged_groups_are_equal_to_the_last_bit_in_twins(optimizer, twins):
    ours, null = twins(script(optimizer, 100_000), Wanted("merge-groups"))
    guarded = judge_exact(ours, null)
    assert guarded.ok, guarded.reason
    assert guarded.reason == "equal to the last bit in twin steps"


@pytest.mark.parametrize("optimizer", [DEFAULT, OWN])
def test_a_fused_optimizer_rounds_in_twins(optimizer, twins):
    ours, null = twins(script(optimizer, 100_000), Wanted("fused-optimizer"))
    guarded = judge_rounding(ours, [null], "float32")
    assert guarded.ok, guarded.reason


def test_groups_that_all_differ_are_left_alone(tmp_path):
    source = script(FUSED).replace("0.1 * (each.ndim > 1)", "0.1 * each.sum().item()")
    ours = run(tmp_path, source, "merge-groups")
    assert ours.outcome.declined == "no optimizer with two parameter groups of equal settings"


def test_who_has_chosen_keeps_the_choice(tmp_path):
    source = (
        TRAINS
        + """
class Mine(torch.optim.Adam):
    def step(self, closure=None):
        return None

class Theirs(torch.optim.Optimizer):
    def __init__(self, params, foreach=False):
        super().__init__(params, {"foreach": foreach})

for make in (
    lambda p: torch.optim.Adam(p, foreach=False),
    lambda p: torch.optim.Adam(p, capturable=True),
    Mine,
    Theirs,
    lambda p: Theirs(p, None),
):
    optimizer = make(Model().parameters())
    print(*[optimizer.param_groups[0].get(each) for each in ("fused", "foreach")])
"""
    )
    ran = run(tmp_path, source, "fused-optimizer")
    assert ran.code == 0, ran.complained
    assert ran.printed == ["None False", "None None", "None True", "None True", "None None"]
    assert ran.outcome.applied == 2  # a step of the user's own may ask for it, but is never fused
