import pytest

from pitstop.scan.rules.copied_to_cpu_and_back import copied_to_cpu_and_back
from pitstop.scan.source import Source

LOOP = """\
import cv2
import numpy as np
import torch
for step, batch in enumerate(train_loader):
    y = model(batch)
    {line}
    y.mean().backward()
"""


def found_in(line):
    return copied_to_cpu_and_back(Source(LOOP.format(line=line)))


@pytest.mark.parametrize(
    "line",
    [
        "z = y.cpu().to(device)",
        "z = torch.from_numpy(np.argsort(y.detach().cpu().numpy())).cuda()",
        "a = y.cpu().numpy(); a = cv2.blur(a, (3, 3)); z = torch.tensor(a).to(y.device)",
        "m = (y > 0).type(torch.FloatTensor); m = m.cuda()",
        "z = torch.cumsum(y.cpu(), 0).to(device) if mps else y",
        "z = (1 - y.cpu()).to('cuda')",
    ],
)
def test_finds(line):
    found = found_in(line)
    assert [each.code for each in found] == ["PIT215"] * ("cumsum" not in line)


@pytest.mark.parametrize(
    "line",
    [
        "z = y.cpu().to(torch.float32)",
        "z = y.cpu().numpy()",
        "z = torch.from_numpy(array).to(device)",
        "if step % 100 == 0: z = y.cpu().to(device)",
        "if debug: z = y.cpu().to(device)",
        "z = y.to(device)",
        "model.cpu().to(device)",  # seldom, and no tensor
    ],
)
def test_leaves_alone(line):
    text = LOOP.format(line=line).replace("y = model", "model = torch.nn.Linear(8, 8); y = model")
    assert copied_to_cpu_and_back(Source(text)) == []


def test_once_it_costs_nothing():
    assert copied_to_cpu_and_back(Source("import torch\nz = x.cpu().to(device)\n")) == []
