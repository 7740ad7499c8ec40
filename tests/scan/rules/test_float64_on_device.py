import pytest

from pitstop.scan.rules.float64_on_device import float64_on_device
from pitstop.scan.source import Source


def found(line):
    text = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
    return float64_on_device(Source(f"{text}        {line}\n        return y\n"))


@pytest.mark.parametrize(
    "line",
    [
        "y = torch.linalg.inv(x.double()).float()",  # small, and needs the digits
        "y = x.cpu().double()",
        "y = x.double().mean()",  # one number
        "y = torch.arange(8).to(torch.float64)",  # on the CPU
        "y = torch.arange(8, dtype=torch.float64)",
        "y = x.to(torch.float32)",
        "if upcast_to_double:\n            y = x.double()",  # chosen by the user
        "# float64: the correction reaches log(K)\n        y = x.double()",
        "if self.debug:\n            y = x.double()",
    ],
)
def test_leaves_alone(line):
    assert found(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "y = x.double()",
        "y = x.to(torch.float64)",
        "y = x.to(x.device, dtype=torch.double)",
        "y = torch.arange(0, 8, dtype=torch.float64, device=x.device)",
        "y = x.double() @ x.double()",  # one statement, one finding
    ],
)
def test_finds(line):
    (finding,) = found(line)
    assert "forward of Net" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "betas = schedule.double()",  # once
        "for x in train_loader:\n    with torch.no_grad():\n        y = x.double()\n"
        "    loss.backward()",  # a number on the side
    ],
)
def test_quiet_outside_the_hot_path(text):
    assert float64_on_device(Source(f"import torch\n{text}\n")) == []
