import pytest

from pitstop.scan.rules.accumulator_on_cpu import accumulator_on_cpu
from pitstop.scan.source import Source

LOOP = "for tile in tiles:\n    y = model(tile).cpu()\n    "


@pytest.mark.parametrize(
    "text",
    [
        f"total = torch.zeros(8, device=device)\n{LOOP}total += y",
        f"total = torch.zeros(8, **options)\n{LOOP}total += y",
        f"total = torch.zeros(8).to(device)\n{LOOP}total += y",
        f"total = 0.0\n{LOOP}total += y",  # a number
        f"total = np.zeros(8)\n{LOOP}total += y.numpy()",
        f"total = torch.zeros(8)\n{LOOP}total += model(tile)",  # all of it is on the CPU
        "total = torch.zeros(8)\ntotal += model(x).cpu()",  # once
    ],
)
def test_leaves_alone(text):
    assert accumulator_on_cpu(Source(f"import torch, numpy as np\n{text}\n")) == []


@pytest.mark.parametrize(
    "line",
    [
        "total += y",
        "total[..., a:b] += y * weight.cpu()",
        "total[..., a:b].add_(y)",
        "total += model(tile).to('cpu')",
    ],
)
def test_finds(line):
    text = f"import torch\ntotal = torch.zeros(8)\n{LOOP}{line}\n"
    assert len(accumulator_on_cpu(Source(text))) == 1
