"""Twin steps of programs as people write them: the null is equal to the last bit."""

import sys
import time

import pytest

pytest.importorskip("torch")

from pitstop.tune.bench.bench import Kind, LiveBench, Pace
from pitstop.tune.bench.process import Start
from pitstop.tune.bench.questions import CALL, STEP, BenchPlan
from pitstop.tune.checked import RunError

pytestmark = pytest.mark.slow  # real processes: `make test-slow`

HEAD = """
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
loader = DataLoader(TensorDataset(torch.randn(2000, 16)), batch_size=20, shuffle=True)
"""
ADVERSARIES = """
critic = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(), nn.Linear(32, 1))
maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
first = torch.optim.Adam(critic.parameters(), 1e-3)
second = torch.optim.Adam(maker.parameters(), 1e-3)
while True:
    for (x,) in loader:
        fake = maker(torch.randn(20, 8))
        first.zero_grad()
        said = critic(x), critic(fake.detach())
        (bce(said[0], torch.ones(20, 1)) + bce(said[1], torch.zeros(20, 1))).backward()
        first.step()
        second.zero_grad()
        bce(critic(fake), torch.ones(20, 1)).backward()
        second.step()
"""
SCALER = """
optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=2)
while True:
    for number, (x,) in enumerate(loader):
        with torch.autocast("cpu", torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        if number % 4 == 3:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
CLOSURE = """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
while True:
    x = torch.randn(20, 16)
    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""
READS_AHEAD = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
while True:
    for (x,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
"""
RANKS = """
import torch.distributed as distributed
distributed.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
while True:
    for (x,) in loader:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, place):
        draw = torch.Generator().manual_seed(place)
        return {"x": torch.randn(16, generator=draw), "labels": torch.tensor(float(place % 2))}
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = model
    def forward(self, x, labels):
        said = self.layers(x).squeeze(-1)
        return {"loss": bce(said, labels), "logits": said}
options = TrainingArguments(
    "trained", max_steps=100_000, per_device_train_batch_size=4, gradient_accumulation_steps=2,
    use_cpu=True, report_to=[], save_strategy="no", logging_steps=3, lr_scheduler_type="cosine",
    disable_tqdm=True,
)
Trainer(Judge(), options, train_dataset=Rows()).train()
"""
LIGHTNING = """
import lightning
class Judge(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = model
    def training_step(self, batch, number):
        loss = self.layers(batch[0]).square().mean()
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
        return {
            "optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }
lightning.Trainer(
    max_steps=100_000, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=0.5,
    accumulate_grad_batches=2,
).fit(Judge(), loader)
"""
COMPILED = """
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
compiled = torch.compile(model)
while True:
    for (x,) in loader:
        optimizer.zero_grad()
        compiled(x).square().mean().backward()
        optimizer.step()
"""
IN_A_LIST = """
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
batches = [(torch.randn(8, 16), torch.rand(8, 1).round()) for _ in range(50)]
while True:
    for x, y in batches:
        optimizer.zero_grad()
        bce(model(x), y).backward()
        optimizer.step()
"""
IN_MEMORY = """
import numpy
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
data, wanted = torch.randn(500, 16), numpy.random.rand(500, 1).astype("float32")
average = [each.detach().clone() for each in model.parameters()]
while True:
    order = numpy.random.permutation(500)
    for first in range(0, 500, 8):
        rows = order[first : first + 8]
        x = data[rows] + 0.1 * torch.randn(len(rows), 16)
        optimizer.zero_grad()
        loss = (model(x) - torch.from_numpy(wanted[rows])).square().mean() * x[:, 0].mean().item()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for mean, each in zip(average, model.parameters()):
                mean.mul_(0.99).add_(each, alpha=0.01)
"""
OF_A_COUNTER = """
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
count = 0
while True:
    count += 1
    optimizer.zero_grad()
    (model(torch.ones(8, 16)).square().mean() * (count % 7)).backward()
    optimizer.step()
"""
INFERS = """
model.eval()
x = torch.randn(4, 16)
while True:
    x = x - 0.01 * model(x)
"""
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2")


@pytest.fixture
def twins(tmp_path):
    """Two null twins of a program."""
    benches = []

    def run(source, events=1, level=STEP, words=()):
        script = tmp_path / "script.py"
        script.write_text(HEAD + source)
        plan = BenchPlan((), (), "", "", level == STEP, level)
        kind = "optimizer" if level == STEP else "module"
        command = (sys.executable, *words, str(script))
        start = Start(command, tmp_path / "bench", plan, (kind, events))
        benches.append(LiveBench(start, Pace(20.0, 0.1), time.monotonic() + 500))
        return benches[0].twins((), 2, Kind())

    yield run
    for each in benches:
        each.close()


@pytest.mark.parametrize(
    ("source", "events"),
    [(ADVERSARIES, 2), (SCALER, 1), (CLOSURE, 1)],
    ids=["adversaries", "scaler", "closure"],
)
def test_a_step_that_happens_twice_gives_the_same_numbers(source, events, twins):
    found = twins(source, events)
    assert found.losses[0]
    assert found.losses[0] == found.losses[1]
    assert set(found.worst.values()) == {0.0}


@pytest.mark.parametrize(
    ("library", "source"),
    [("accelerate", READS_AHEAD), ("transformers", TRAINER), ("lightning", LIGHTNING)],
)
def test_a_library_that_trains_takes_the_same_step_twice(library, source, twins):
    pytest.importorskip(library)
    found = twins(source)
    assert found.losses[0] == found.losses[1] != []
    assert set(found.worst.values()) == {0.0}


def test_a_script_that_compiles_takes_the_same_step_twice(twins):
    assert set(twins(COMPILED).worst.values()) == {0.0}


@pytest.mark.parametrize("source", [IN_A_LIST, IN_MEMORY], ids=["list", "memory"])
def test_batches_of_no_loader_are_the_same_twice(source, twins):
    found = twins(source)
    assert found.losses[0] == found.losses[1] != []
    assert len(set(found.losses[0])) == 2  # another batch in each twin
    assert set(found.worst.values()) == {0.0}


def test_a_step_that_is_another_one_each_time_cannot_be_repeated(twins):
    with pytest.raises(RunError, match="cannot be repeated"):
        twins(OF_A_COUNTER)


def test_two_ranks_take_the_same_steps_twice(twins):
    assert set(twins(RANKS, words=TORCHRUN).worst.values()) == {0.0}


def test_a_call_of_a_model_happens_twice_where_nothing_is_learned(twins):
    worst = twins(INFERS, level=CALL).worst
    assert worst["output 0"] == 0.0
