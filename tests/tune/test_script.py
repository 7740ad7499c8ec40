"""What changes ask of a running script: it happens, it is undone, and nobody else notices."""

import array
import json
import sys
from statistics import fmean

import pytest

pytest.importorskip("torch")

from pathlib import Path

import pitstop.tune.changes
from pitstop.core import plugins
from pitstop.core.errors import PitstopError
from pitstop.tune import change as changes
from pitstop.tune.plan import (
    OUTPUTS,
)
from tune.running import TRAIN, TRAINS, run

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

PROFILED = Path(__file__).parents[1] / "profile" / "scripts"
EVERYTHING = [
    "bf16",
    "fp16",
    "channels-last",
    "fused-optimizer",
    "inference-mode",
    "checkpointing-off",
    "checkpointing-on",
    "non-blocking",
    "no-attention-weights",
    "no-empty-cache",
    "tf32",
    "cudnn-benchmark",
    "fused-group-norm",
    "allocator",
    "batch-size",
    ("loader", {"workers": 1}),
    ("threads", {"threads": 2}),
    ("compile", {"backend": "aot_eager"}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_every_change_undoes_itself(folder):
    source = """
import copy, json, sys, torch
from torch import nn
from pitstop.tune.plan import Plan, Wanted
from pitstop.tune.inside.script import begin

def snapshot():
    owners = [torch, torch.cuda, torch.Tensor, torch.autograd, torch.autocast, nn.Module, nn.utils,
        nn.functional, nn.utils.clip_grad, torch.utils.checkpoint, torch.utils.data.DataLoader,
        torch.utils.data.dataloader._BaseDataLoaderIter, torch.amp.GradScaler,
        torch.utils.data.dataloader._MultiProcessingDataLoaderIter, torch.optim.Optimizer,
        torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD]
    import torch._dynamo.config as dynamo, torch._inductor.config as inductor
    flags = [torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"), dynamo.suppress_errors, inductor.fallback_random]
    return [dict(vars(owner)) for owner in owners], flags

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 1)
    def forward(self, x):
        return self.convolution(x)

torch.compile(nn.Linear(1, 1), backend="eager")(torch.ones(1))  # Dynamo settles in, for good
untouched = snapshot()
for name, options in json.loads(sys.argv[1] if len(sys.argv) > 1 else CHANGES):
    model = nn.Sequential(Block(), Block())
    model(torch.ones(1, 3, 4, 4))
    before = {each: dict(vars(each)) for each in model.modules()}
    run = begin(Plan((Wanted(name, options),), folder="HERE").to_json())
    model(torch.ones(1, 3, 4, 4))
    took_hold = snapshot() != untouched or {each: vars(each) for each in model.modules()} != before
    run.close()
    for (old, new) in zip(untouched[0], snapshot()[0]):
        keys = old if "__path__" in old else old.keys() | new.keys()  # packages import more
        changed = [key for key in keys if old.get(key) is not new.get(key)]
        assert not changed, (name, changed)
    assert snapshot()[1] == untouched[1], name
    for each, vars_before in before.items():
        assert dict(vars(each)) | {"_compiled_call_impl": None} == vars_before | {
            "_compiled_call_impl": None}, name
        assert vars(each).get("_compiled_call_impl") is None, name
    assert all(p.is_contiguous() for p in model.parameters())
    print(name, took_hold)
"""
    pairs = [(each, {}) if isinstance(each, str) else each for each in EVERYTHING]
    source = source.replace("CHANGES)", f"{json.dumps(json.dumps(pairs))})")
    ran = run(folder, source.replace("HERE", str(folder)), record=False)
    assert ran.code == 0, ran.complained
    assert [line.split()[0] for line in ran.printed] == [name for name, _ in pairs]


def test_a_change_that_cannot_be_applied_ends_the_run(folder):
    ran = run(folder, "import torch\nprint('ran')", "no-such-change")
    assert (ran.code, ran.printed) == (97, [])
    assert ran.complained.startswith("pitstop: ")
    assert "no-such-change: no such change" in ran.complained
    assert len(ran.complained.splitlines()) == 1


def test_a_change_that_breaks_later_ends_the_run_too(folder):
    ran = run(folder, TRAIN, ("compile", {"scope": "somewhere"}))
    assert ran.code == 97
    assert ran.complained == "pitstop: change compile failed: KeyError: 'somewhere'\n"
    ran = run(folder, TRAIN, ("threads", {"threads": -1}))
    assert ran.code == 97
    assert "change threads failed: " in ran.complained


# What each of its steps was taken with: bf16, and seven threads.
TELLS = (
    TRAINS.replace("((model(x) - y) ** 2)", "((model(x) - y) ** 2 + 0 * look())")
    + """
def look():
    print(torch.is_autocast_enabled("cpu"), torch.get_num_threads() == 7)
    return 0
train(Model(), epochs=5)
"""
)


def test_without_a_recorder_the_changes_are_applied_all_the_same(folder):
    ran = run(folder, TRAIN, "bf16", record=False)
    assert ran.outcome.applied == 8
    assert not list(ran.folder.glob("rank*.jsonl"))


@pytest.mark.parametrize("name", ["compiled.py", "inference.py"])
def test_what_the_script_compiles_itself_stays_one_graph(name, folder):
    source = (PROFILED / name).read_text().replace("sys.argv", "['', 'compile']")
    plain, tuned = run(folder, source), run(folder, source, "bf16")
    assert plain.code == tuned.code == 0, tuned.complained
    assert plain.printed[-1] == tuned.printed[-1]
    assert tuned.outcome.applied > 0
    assert plain.printed[0] != tuned.printed[0]


def test_models_beside_a_compiled_function_are_met_and_what_that_returns_is_kept(folder):
    source = f"""{TRAINS}
model, other = Model().eval(), Model().eval()

@torch.compile(backend="eager", fullgraph=True)
def decode(x):
    return other(x) * 2

for _ in range(4):
    with torch.no_grad():
        decode(torch.ones(1, 3, 8, 8))
        model(torch.ones(1, 3, 8, 8))
"""
    ran = run(folder, source, "bf16", outputs=True)
    assert (ran.code, ran.outcome.applied) == (0, 4), ran.complained
    index = json.loads((ran.folder / OUTPUTS).read_text())
    assert [each["module"] for each in index] == ["decode", "Model"] * 4


def test_models_can_still_be_copied_pickled_and_freed(folder):
    source = (
        TRAINS
        + """
import copy, gc, io, weakref
model = Model().eval()
model(torch.ones(1, 3, 8, 8))
assert model._compiled_call_impl is not None
copied = copy.deepcopy(model)
assert copied._compiled_call_impl is None
torch.save(model, io.BytesIO())
copied(torch.ones(1, 3, 8, 8))
gc.disable()
gone = weakref.ref(copied)
del copied
print(gone() is None)
"""
    )
    ran = run(folder, source, "bf16")
    assert ran.printed == ["True"], ran.complained
    assert ran.outcome.applied == 2


def test_the_search_for_models_ends_and_leaves_calls_as_they_were(folder):
    source = """
import torch
from torch import nn
from torch.nn.modules.module import Module
def mine():
    return Module.__call__.__qualname__ != "Module._wrapped_call_impl"
print(mine())
class Outer(nn.Linear):
    def forward(self, x):
        self.seen = mine()
        return super().forward(x)
model = Outer(2, 2)
model(torch.ones(1, 2))
print(model.seen, mine())
for _ in range(64):
    model(torch.ones(1, 2))
    nn.ReLU()(torch.ones(1))
print(mine())
"""
    ran = run(folder, source, ("threads", {"threads": 2}))
    assert ran.printed == ["True", "False True", "False"]


def test_the_same_seed_gives_the_same_run_and_the_scripts_own_prevails(folder):
    source = (
        "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1))"
    )
    one, same, other = (run(folder, source, seed=seed).printed for seed in (1, 1, 2))
    assert one == same != other
    assert run(folder, TRAIN, seed=0).numbers == run(folder, TRAIN).numbers


SEEDS_ITSELF = """
import random, numpy, torch
large = 2**32 - 1
for seed, given in (
    (random.seed, 1), (numpy.random.seed, large), (torch.manual_seed, 3),
    (torch.random.manual_seed, -4),
):
    seed(given)
    print(random.random(), numpy.random.rand(), torch.rand(1).item())
random.seed(a=5, version=2)
print(random.random())
numpy.random.seed(seed=numpy.int64(6))
print(numpy.random.rand())
random.seed("seven")
print(random.random())
numpy.random.seed([8, 9])
print(numpy.random.rand())
"""


def test_other_seeds_move_the_script_s_own(folder):
    """Else what draws otherwise could not be held against how far seeds part."""
    own, null, one, again, two = (
        run(folder, SEEDS_ITSELF, seed=seed).printed for seed in (None, 0, 1, 1, 2)
    )
    assert own[3:] == null[3:]  # all is seeded by then
    assert one == again
    moved = [len({*each}) for each in zip(null, one, two, strict=True)]
    assert moved == [3] * 6 + [1] * 2  # a word or a list is no number to move


def test_a_perturbed_run_differs_by_a_hair_of_the_precision(folder):
    plain = run(folder, TRAIN).numbers
    drifts = []
    for precision in ("float32", "tfloat32", "bfloat16"):
        moved = run(folder, TRAIN, perturb=precision, outputs=True).numbers
        drifts.append(fmean(abs(a - b) / b for a, b in zip(moved, plain, strict=True)))
    assert 0 < drifts[0] < 1e-5 < min(drifts[1:]) <= max(drifts) < 0.02


def test_outputs_are_kept_as_samples(folder):
    source = """
import torch
model = torch.nn.Linear(2, 3)
with torch.no_grad():
    model.weight.fill_(1.0)
    model.bias.fill_(0.5)
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, x):
        return {"y": self.inner(x), "n": torch.ones(2, dtype=torch.int64)}
Outer()(torch.ones(4, 2))
"""
    ran = run(folder, source, outputs=True)
    assert json.loads((ran.folder / "outputs.json").read_text()) == [
        {"module": "Outer", "shape": [4, 3], "values": 12},
        {"module": "Outer", "shape": [2], "values": 2},
    ]
    values = array.array("f", (ran.folder / "outputs.f32").read_bytes())
    assert list(values) == [2.5] * 12 + [1.0] * 2


def test_changes_of_others_are_found_and_a_broken_one_is_a_line(monkeypatch):
    @changes.change("exact")
    def from_elsewhere(script):
        """Do nothing. It never helps."""

    class Entry:
        def __init__(self, name, found):
            self.name = name
            self.found = found

        def load(self):
            if isinstance(self.found, Exception):
                raise self.found
            return self.found

    entries = [
        Entry("good", from_elsewhere),
        Entry("broken", ImportError("no such thing")),
        Entry("other", print),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    plugins.load_plugins.cache_clear()
    loaded = changes.change_plugins()
    assert [each.name for each in loaded.found] == ["from-elsewhere"]
    assert loaded.problems == (
        "plugin broken: cannot be loaded (ImportError: no such thing)",
        "plugin other: cannot be loaded (TypeError: it is no function decorated with @change)",
    )
    assert changes.find_change("from-elsewhere") is from_elsewhere
    with pytest.raises(PitstopError, match="no such change"):
        changes.find_change("nothing")
    plugins.load_plugins.cache_clear()


def test_changes_are_listed_without_torch(tmp_path):
    import subprocess

    code = (
        "import sys, pitstop.tune.changes; from pitstop.tune.change import load_changes; "
        "print(len(load_changes(pitstop.tune.changes)), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    files = Path(pitstop.tune.changes.__path__[0]).glob("[!_]*.py")
    assert done.stdout.split() == [str(len(list(files))), "False"]
