import pytest

from pitstop.scan.rules.noise_made_on_cpu import noise_made_on_cpu
from pitstop.scan.source import Source

LOOP = """\
import numpy as np
import torch
from torch.autograd import Variable
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
for step, batch in enumerate(train_loader):
    {line}
    model(batch).mean().backward()
"""


def found_in(line):
    return noise_made_on_cpu(Source(LOOP.format(line=line)))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("z = torch.randn(8, 64).to(device)", "torch.randn"),
        ("z = torch.rand(8).cuda()", "torch.rand"),
        ("t = torch.randint(0, 1000, (8,)).long().to(x.device)", "torch.randint"),
        (
            "z = torch.from_numpy(np.random.normal(0, 1, (8, 4))).float().to(device)",
            "numpy.random.normal",
        ),
        ("z = Variable(Tensor(np.random.normal(0, 1, (8, 64))))", "numpy.random.normal"),
        ("mask = torch.tensor(np.random.rand(8) > 0.5).cuda()", ""),
    ],
)
def test_finds(line, what):
    found = found_in(line)
    assert [each.code for each in found] == (["PIT214"] if what else [])
    assert not found or f"`{what}`" in found[0].message


@pytest.mark.parametrize(
    "line",
    [
        "z = torch.randn(8, 64, device=device)",
        "z = torch.randn(8, 64)",  # stays on the CPU
        "z = torch.randn(8, 64).to(torch.float16)",
        "z = torch.randn(8, 64, generator=g).to(device)",  # the same numbers on every device
        "if step % 100 == 0: z = torch.randn(8).to(device)",
        "z = torch.zeros(8).to(device)",
        "z = torch.randn_like(batch).to(device)",
        "z = list(np.random.normal(0, 1, 8))",
    ],
)
def test_leaves_alone(line):
    assert found_in(line) == []


def test_once_it_costs_nothing():
    assert noise_made_on_cpu(Source("import torch\nz = torch.randn(8).to(device)\n")) == []
