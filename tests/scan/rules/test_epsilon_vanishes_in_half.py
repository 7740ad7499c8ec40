import pytest

from pitstop.scan.rules.epsilon_vanishes_in_half import epsilon_vanishes_in_half
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "x = y.half()\nz = x / (x.norm() + 1e-7)",  # rounds to a number above zero
        "x = y.bfloat16()\nz = x / (x.norm() + 1e-8)",  # has the range of float32
        "x = y.half()\nz = x / (x.float().norm() + 1e-8)",
        "x = y.half()\nz = x / (x.sum(dtype=torch.float32) + 1e-8)",
        "z = x / (x.norm() + 1e-8)  # half or not",
        "x = y.half() if fast else y\nz = x + 1e-8",
        "model = Net().half()\nopt = torch.optim.Adam(model.parameters(), eps=1e-4)",
        "model = Net().half()\nopt = torch.optim.Adam(model.parameters(), fused=True)",
        "model = Net()\nopt = torch.optim.Adam(model.parameters())",
    ],
)
def test_leaves_alone(text):
    assert epsilon_vanishes_in_half(Source(f"import torch\n{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = y.to(torch.float16)\nz = x.clamp(min=1e-8)",
        "x = y.half()\nz = torch.clamp(x.abs(), min=1e-12)",
        "EPS = 1e-8\nx = y.half()\nz = x / (x.std() + EPS)",
        "model = Net().half()\nopt = torch.optim.AdamW(model.parameters(), lr=1e-4)",
    ],
)
def test_finds(text):
    (finding,) = epsilon_vanishes_in_half(Source(f"import torch\n{text}\n"))
    assert finding.severity == "error"
