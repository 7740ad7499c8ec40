import pytest

from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.accumulation_without_no_sync import accumulation_without_no_sync
from pitstop.scan.source import Source

TRAIN = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(model)
for i, batch in enumerate(train_loader):
    loss = model(batch).mean()
    loss.backward()
    if (i + 1) % accum_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_finds_the_backward():
    (finding,) = accumulation_without_no_sync(Source(TRAIN))
    assert (finding.code, finding.span.line) == ("PIT804", 6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DistributedDataParallel as DDP\nmodel = DDP(", "DataParallel as D\nmodel = D("),
        ("    loss.backward()", "    with model.no_sync():\n        loss.backward()"),
        (
            "    loss.backward()\n    if (i + 1) % accum_steps == 0:",
            "    if (i + 1) % accum_steps == 0:\n        loss.backward()",
        ),
        ("    loss = ", "    model.require_backward_grad_sync = last\n    loss = "),
        ("(i + 1) % accum_steps == 0", "i % log_every == 0"),  # a second optimizer's turn
        (
            "    if (i + 1) % accum_steps == 0:\n        optimizer",
            "    if True:\n        optimizer",
        ),
        ("import torch\n", "import torch, deepspeed\n"),
        ("for i, batch in", "with accelerator.accumulate(model):\n  for i, batch in"),
    ],
)
def test_leaves_alone(old, new):
    assert old in TRAIN
    assert accumulation_without_no_sync(Source(TRAIN.replace(old, new))) == []


def test_follows_a_flag_and_a_scaler():
    text = TRAIN.replace("    loss = ", "    last = (i + 1) % accum_steps == 0\n    loss = ")
    text = text.replace("if (i + 1) % accum_steps == 0", "if last")
    text = text.replace("loss.backward()", "scaler.scale(loss).backward()")
    assert len(accumulation_without_no_sync(Source(text))) == 1


def test_quiet_when_the_wrapper_is_of_another_script():
    text = TRAIN.replace("from torch.nn.parallel import DistributedDataParallel as DDP\n", "")
    alone = Source(text.replace("model = DDP(model)\n", ""), "tune.py")
    project = Project.of([read_facts(alone), read_facts(Source(TRAIN, "train.py"))])
    assert accumulation_without_no_sync(alone.in_project(project)) == []


def test_sees_the_scaler_that_steps_now_and_then():
    text = (
        "import torch\nfor i, batch in enumerate(data_loader):\n    loss = model(batch)\n"
        "    loss_scaler(loss, optimizer, update_grad=(i + 1) % accum_iter == 0)\n"
    )
    engine = Source(text, "engine.py")
    main = Source("import torch\nm = torch.nn.parallel.DistributedDataParallel(m)\n", "main.py")
    assert accumulation_without_no_sync(engine) == []  # nobody distributes
    project = Project.of([read_facts(engine), read_facts(main)])
    assert len(accumulation_without_no_sync(engine.in_project(project))) == 1
