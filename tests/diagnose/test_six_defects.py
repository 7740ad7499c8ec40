"""Six defects in short scripts, one each, run unedited on one thread: named with their line.

A line that may be named ends with ``# here``. The same script without its defect must not be
blamed for it. Nothing else may be found in either.
"""

import sys

import pytest

from pitstop.core.machine import Machine
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.profile.read.collect import collect
from pitstop.profile.start import launch
from pitstop.profile.start.options import Options

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

pytest.importorskip("torch")

WARMUP = 3
BEGIN = """
import io
import time
import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 32),
        )
        self.head = nn.Linear(32, 10)
    def forward(self, *frames):
        return self.head(self.encoder(frames[0]))
"""
TRAIN = """
BEFORE
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
def update(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for step in range(60):
    x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    STEP
"""
LOAD = """
class Clips(Dataset):
    def __init__(self):
        BEFORE
    def __len__(self):
        return 480
    def __getitem__(self, index):
        STEP
        return image, index % 10
loader = DataLoader(Clips(), batch_size=8)  # here
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for x, y in loader:
    loss = functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
RANKS = """
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
def augment(x):
    for _ in range(TIMES):
        x = torch.sort(x, dim=-1)[0]  # here
    return x
images = torch.randn(320, 3, 32, 32)
class Clips(Dataset):
    def __len__(self):
        return 320
    def __getitem__(self, index):
        if SLEEP:
            time.sleep(SLEEP)  # here
        return images[index], index % 10
net = nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for x, y in DataLoader(Clips(), batch_size=8):
    loss = functional.cross_entropy(net(augment(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""
COLLATE = """
images = torch.randn(480, 3, 32, 32)
def together(numbers):
    batch = torch.zeros(len(numbers), 3, 32, 32)
    for place, number in enumerate(numbers):
        COPY
    return batch, torch.tensor(numbers) % 10
loader = DataLoader(range(480), batch_size=8, collate_fn=together)  # here
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for x, y in loader:
    loss = functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
COPY_ROWS = """
        for row in range(32):
            for column in range(32):
                batch[place, :, row, column] = images[number, :, row, column]
"""
GENERATOR = """
def batches():
    for _ in range(60):
        time.sleep(0.03)  # here
        yield torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
for x, y in batches():
    loss = functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STARTED = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp
def draw():
    time.sleep(0.02)  # here
def train(rank, meeting):
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=2)
    net = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(60):
        x, y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
        if WHO:
            draw()  # here
        loss = functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(train, (os.path.abspath(__file__) + ".meeting",), nprocs=2)
"""
PICTURE = """
        from PIL import Image
        stream = io.BytesIO()
        noise = numpy.random.randint(0, 256, (192, 192, 3), numpy.uint8)
        Image.fromarray(noise).save(stream, "PNG")
        self.png = stream.getvalue()
"""
DECODE = """
        from PIL import Image
        pixels = numpy.asarray(Image.open(io.BytesIO(self.png)))[:32, :32]
        image = torch.from_numpy(pixels.astype("f4")).permute(2, 0, 1)
"""
SORT = """
        image = numpy.random.default_rng(index).normal(size=(3, 32, 32)).astype("f4")
        for _ in range(200):
            image = numpy.sort(image, axis=-1)[..., ::-1].copy()
"""
THREE = """
class Three(Net):
    def forward(self, a, b, c):
        first = self.encoder(a)  # here
        second = self.encoder(b)  # here
        third = self.encoder(c)  # here
        return self.head(first + second + third)
Net = Three
"""
THREE_IN_A_HELPER = """
class Three(Net):
    def encode(self, frame):
        return self.encoder(frame - frame.mean())
    def forward(self, a, b, c):
        first = self.encode(a)  # here
        second = self.encode(b)  # here
        third = self.encode(c)  # here
        return self.head(first + second + third)
Net = Three
"""
STACKED = """
class Three(Net):
    def forward(self, *frames):
        return self.head(self.encoder(torch.cat(frames)).unflatten(0, (3, -1)).sum(0))
Net = Three
"""
FRAMES = "    update(functional.cross_entropy(net(x, x + 1, x - 1), y))"
LOSS = "    loss = functional.cross_entropy(net(x), y)\n    update(loss)\n"
OUT = "    out = net(x)\n    update(functional.cross_entropy(out, y))\n"
SCALED = """
    blank = x * float(step < 30)
    scale = blank.abs().mean()
    weight = torch.log(scale)  # here
    out = net(x)
    update(functional.cross_entropy(out, y) + 0.1 * weight * out.mean())
"""
COUNTED = """
    mask = (y >= 0) if step < 30 else (y < 0)
    losses = functional.cross_entropy(net(x), y, reduction="none")
    mean = (losses * mask).sum() / mask.sum()  # here
    update(mean)
"""
ROOTED = """
    error = (net(x) - 1.0) * float(step < 30)
    distance = error.square().sum(1).sqrt()  # here
    update(distance.mean())
"""


BRANCH = """
    out = net(x)
    if step >= 30:
        out = out / (out - out)  # here
    update(functional.cross_entropy(out, y))
"""
WRITTEN = """
    if step == 30:
        with torch.no_grad():
            net.head.weight[0, 0] = float("nan")  # here
    update(functional.cross_entropy(net(x), y))
"""
METER = """
class Meter:
    def __init__(self):
        self.sum, self.count, self.mean = 0.0, 0, 0.0
    def update(self, value, count):
        self.sum += value * count  # here
        self.count += count
        self.mean = self.sum / self.count
meter = Meter()
"""
RECORDS = """
class Record:
    def __init__(self, step, loss):
        self.step, self.loss = step, loss
records = []
"""
CLOSURES = """
shown = []
def later(loss):
    return lambda: print(loss)
"""


def train(before, step):
    return TRAIN.replace("BEFORE", before).replace("    STEP", step.strip("\n"))


def load(before, step):
    text = LOAD.replace("        BEFORE", before.strip("\n"))
    return text.replace("        STEP", step.strip("\n"))


def ranks(times="1", sleep="0"):
    return RANKS.replace("TIMES", times).replace("SLEEP", f"({sleep})")


def numbers(read):
    loop = f"    total = 0.0\n    flat = x.flatten()\n    for i in range(2000):\n        {read}\n"
    return train("", LOSS + loop)


NOTHING = "        pass"
NOISE = "        image = torch.randn(3, 32, 32)\n"
READS = (
    "        self.images = torch.randn(480, 3, 32, 32)\n",
    "        image = self.images[index]\n",
)
FOUND = {
    "loader-sleeps": ("PIT102", load(NOTHING, "        time.sleep(0.004)\n" + NOISE)),
    "loader-decodes": ("PIT102", load(PICTURE, DECODE)),
    "loader-sorts": ("PIT102", load(NOTHING, SORT)),
    "loader-collates": ("PIT102", COLLATE.replace("        COPY", COPY_ROWS.strip("\n"))),
    "generator-sleeps": ("PIT212", GENERATOR),
    "encoder-three-times": ("PIT601", train(THREE, FRAMES)),
    "encoder-three-times-by-a-helper": ("PIT601", train(THREE_IN_A_HELPER, FRAMES)),
    "item": ("PIT201", numbers("total += flat[i].item()  # here")),
    "float": ("PIT201", numbers("total += float(flat[i])  # here")),
    "numpy": ("PIT201", numbers("total += flat[i].cpu().numpy()  # here")),
    "log-of-zero": ("PIT701", train("", SCALED)),
    "division-by-no-sample": ("PIT701", train("", COUNTED)),
    "slope-of-a-root": ("PIT701", train("", ROOTED)),
    "division-in-a-branch": ("PIT701", train("", BRANCH)),
    "weight-overwritten": ("PIT701", train("", WRITTEN)),
    "list-of-losses": ("PIT501", train("history = []", LOSS + "    history.append(loss)  # here")),
    "sum-of-losses": ("PIT501", train("total = 0.0", LOSS + "    total += loss  # here")),
    "pairs-of-outputs": (
        "PIT501",
        train("seen = []", OUT + "    seen.append((out, y))  # here"),
    ),
    "meter-of-losses": ("PIT501", train(METER, LOSS + "    meter.update(loss, 8)")),
    "records-of-losses": (
        "PIT501",
        train(RECORDS, LOSS + "    records.append(Record(step, loss))  # here"),
    ),
    "closures-of-losses": (
        "PIT501",
        train(CLOSURES, LOSS + "    shown.append(later(loss))  # here"),
    ),
    "rank-computes": ("PIT801", ranks(times="40 if rank else 1")),
    "rank-reads": ("PIT801", ranks(sleep="0.004 if rank else 0")),
    "rank-draws": ("PIT801", STARTED.replace("WHO", "rank == 0")),
}
HEALTHY = {
    "loader": load(*READS),
    "encoder": train(STACKED, FRAMES),
    "numbers": train("", LOSS + "    total = sum(x.flatten().tolist())\n    mean = loss.item()\n"),
    "finite": train("", ROOTED.replace(".sqrt()", ".add(1e-6).sqrt()")),
    "history": train(
        "history, total = [], 0.0",
        LOSS + "    history.append(loss.detach())\n    total += loss.item()\n",
    ),
    "ranks": ranks(times="8"),
    "collating": COLLATE.replace("COPY", "batch[place] = images[number]"),
    "generating": GENERATOR.replace("time.sleep(0.03)", "pass"),
    "meter": train(METER, LOSS + "    meter.update(loss.item(), 8)"),
    "started": STARTED.replace("WHO", "False"),
}
ALSO = {"loader-decodes": {"PIT110"}}  # the same defect, seen closer


def run(text, folder):
    """What is found in a script, and the lines that may be named."""
    script = folder / "script.py"
    script.write_text(BEGIN + text)
    together = "dist.get_rank()" in text
    command = launch.command_line((str(script),), module=False, processes=2 if together else None)
    command[0] = sys.executable
    options = Options(str(folder), warmup=WARMUP)
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        assert launch.run(command, options, (out, err)) == 0, (folder / "err").read_text()
    lines = script.read_text().splitlines()
    here = {number for number, line in enumerate(lines, 1) if line.endswith("# here")}
    return diagnose(Recording(collect(folder, WARMUP), Machine(cores=2))), here


@pytest.mark.parametrize("name", FOUND)
def test_the_defect_is_named_with_its_line_and_nothing_else(name, tmp_path):
    code, text = FOUND[name]
    findings, here = run(text, tmp_path)
    named = {each.code for each in findings}
    assert named - ALSO.get(name, set()) == {code}, [each.message for each in findings]
    (found,) = [each for each in findings if each.code == code]
    assert found.span.line in here, found.message


@pytest.mark.parametrize("name", HEALTHY)
def test_without_its_defect_nothing_is_found(name, tmp_path):
    findings, _ = run(HEALTHY[name], tmp_path)
    assert findings == (), [each.message for each in findings]
