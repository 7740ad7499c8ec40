"""Programs run before and after their safe fixes: the same numbers, or the fix was not safe."""

import math

import pytest
import torch

from pitstop.core.rule import example, load_rules
from pitstop.scan import rules
from pitstop.scan.rules.unused_suppression import unused_suppression
from pitstop.scan.run import Options, scan_and_fix
from pitstop.scan.source import Source

TRAINING = """\
import torch
from torch import nn

torch.manual_seed(0)
result = []
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train_loader = [torch.randn(2, 4) for _ in range(3)]
"""

# What uses the line that is fixed; the numbers are in `result`.
PROGRAMS = {
    "PIT202": [
        """\
import torch

result = []
device = torch.device("cpu")
mask = torch.zeros(3, 4).to(device)
full = torch.full((2, 2), 7, dtype=torch.int64).to(mask.device)
ones = torch.ones((8),).to(device) * 2
result += [mask.sum(), full.sum(), ones.mean(), mask.requires_grad, full.dtype == torch.int64]
""",
    ],
    "PIT501": [
        TRAINING
        + """
total, shown, count = 0.0, 0, 0
for batch in train_loader:
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss
    shown += loss * len(batch)
    count += len(batch)
mean = total / len(train_loader)
text = f"{mean:.3f} {shown / count:.3f}"
result += [float(mean), total.item(), float(shown), text]
""",
        TRAINING
        + """
def train_epoch():
    losses = []
    for batch in train_loader:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    print("loss %.3f" % (sum(losses) / len(losses)))
    return float(sum(losses)) / len(losses)

result += [train_epoch(), train_epoch(), float(next(model.parameters()).sum())]
""",
    ],
    "PIT900": [
        "result = [1]  # pitstop: ignore[PIT202]\nresult += [2]  # pitstop: ignore[PIT501] why\n",
    ],
}

# Nothing in these may be called safe; the reason is in the last line of each.
TRAPS = {
    "an int is counted (edm)": TRAINING
    + """
seen, scale, batch_size = 0, 2.0, 2
for batch in train_loader:
    loss = model(batch).square()
    loss.sum().mul(scale / batch_size).backward()
    seen += batch_size
result += [seen]
""",
    "a helper differentiates the sum": TRAINING
    + """
def finish(value):
    value.backward()

total = 0.0
for batch in train_loader:
    loss = model(batch).mean()
    loss.backward(retain_graph=True)
    total += loss
finish(total)
result += [float(total)]
""",
    "the sum is returned and then differentiated": TRAINING
    + """
def collect():
    total = 0.0
    for batch in train_loader:
        loss = model(batch).mean()
        loss.backward(retain_graph=True)
        total += loss
    return total

whole = collect()
whole.backward()
result += [float(whole)]
""",
    "the sum is kept on an object": TRAINING
    + """
class Meter:
    total = 0.0

def collect(meter):
    for batch in train_loader:
        loss = model(batch).mean()
        loss.backward(retain_graph=True)
        meter.total += loss

meter = Meter()
collect(meter)
result += [float(torch.autograd.grad(meter.total, list(model.parameters()))[0].sum())]
""",
    "the loss is a number in some rounds": TRAINING
    + """
total = 0.0
for index, batch in enumerate(train_loader):
    loss = 0.0 if index == 1 else model(batch).mean()
    if index != 1:
        loss.backward()
    total += loss
result += [float(total)]
""",
    "evaluate calls backward in a helper": TRAINING
    + """
def saliency(score):
    score.backward()

def evaluate(model, batches):
    model.eval()
    for batch in batches:
        saliency(model(batch).mean())

evaluate(model, train_loader)
result += [float(model[0].weight.grad.sum())]
""",
    "what validate returns is differentiated": TRAINING
    + """
def validate(model, batch):
    model.eval()
    return model(batch)

validate(model, train_loader[0]).mean().backward()
result += [float(model[0].weight.grad.sum())]
""",
    "a batch is no tensor and knows no non_blocking": TRAINING
    + """
class Batch(list):
    def to(self, device):
        return torch.stack(self).to(device)

device = torch.device("cpu")
loader = [Batch([torch.ones(4)])]
for batch in loader:
    batch = batch.to(device)
    model(batch).mean().backward()
    result += [float(batch.sum())]
""",
}


def run(text):
    names = {}
    exec(compile(text, "program.py", "exec"), names)
    return [each.item() if isinstance(each, torch.Tensor) else each for each in names["result"]]


def fixed(folder, text):
    """The program after `scan --fix`, and the codes that were fixed."""
    path = folder / "program.py"
    path.write_text(text)
    scanned = scan_and_fix([path], Options(use_cache=False), fix=True)
    scanned.write()
    return path.read_text(), {each.code for each in scanned.applied}


def same(before, after):
    return len(before) == len(after) and all(
        math.isclose(one, two, rel_tol=0, abs_tol=0) if isinstance(one, float) else one == two
        for one, two in zip(before, after, strict=True)
    )


@pytest.mark.parametrize(
    ("code", "text"), [(code, text) for code, texts in PROGRAMS.items() for text in texts]
)
def test_a_program_gives_the_same_numbers_after_its_safe_fixes(tmp_path, code, text):
    after, applied = fixed(tmp_path, text)
    assert code in applied
    assert after != text
    assert same(run(text), run(after))


@pytest.mark.parametrize("text", TRAPS.values(), ids=list(TRAPS))
def test_what_would_break_a_program_is_not_called_safe(tmp_path, text):
    before = run(text)
    after, _ = fixed(tmp_path, text)
    assert same(before, run(after))


def test_every_rule_with_a_safe_fix_has_a_program_above():
    every = load_rules(rules)
    with_safe_fix = {
        finding.code
        for rule in every
        for finding in rule(Source("import torch\n" + example(rule.doc, "Bad")))
        if finding.fix and finding.fix.safe
    }
    assert unused_suppression.code in with_safe_fix
    assert with_safe_fix <= PROGRAMS.keys()
