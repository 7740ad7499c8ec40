import pytest

from pitstop.scan.rules.device_synchronized_each_step import device_synchronized_each_step
from pitstop.scan.source import Source

LOOP = """\
import time
import torch
for step, batch in enumerate(train_loader):
    model(batch).mean().backward()
    {line}
"""


def found_in(line, path="train.py"):
    return device_synchronized_each_step(Source(LOOP.format(line=line), path))


@pytest.mark.parametrize("call", ["torch.cuda.synchronize()", "torch.cuda.synchronize(device)"])
def test_finds(call):
    (finding,) = found_in(call)
    assert (finding.code, finding.span.line) == ("PIT213", 5)
    assert "loop over train_loader at train.py:3" in finding.message


@pytest.mark.parametrize(
    "line",
    [
        "if step % 100 == 0: torch.cuda.synchronize()",
        "torch.cuda.synchronize(); end = time.time()",  # whoever takes the time has to wait
        "start.record(); torch.cuda.synchronize(); ms = start.elapsed_time(end)",
        "torch.cuda.current_stream().wait_stream(other)",
        "if args.debug: torch.cuda.synchronize()",
    ],
)
def test_leaves_alone(line):
    assert found_in(line) == []


@pytest.mark.parametrize("path", ["tests/test_a.py", "benchmark.py", "tools/measure_speed.py"])
def test_what_measures_may_wait(path):
    assert found_in("torch.cuda.synchronize()", path) == []


def test_outside_of_loops_it_is_fine():
    assert device_synchronized_each_step(Source("import torch\ntorch.cuda.synchronize()\n")) == []
