import pytest

from pitstop.scan.rules.unguarded_log_sqrt_or_division import unguarded_log_sqrt_or_division
from pitstop.scan.source import Source


def found(line, name="FlowLoss"):
    text = f"import torch\nclass {name}(torch.nn.Module):\n    def forward(self, x, y):\n"
    return unguarded_log_sqrt_or_division(Source(f"{text}        {line}\n        return z\n"))


@pytest.mark.parametrize(
    "line",
    [
        "z = torch.sqrt((x - y) ** 2 + self.eps ** 2)",
        "z = torch.sqrt((x - y) ** 2 + 1e-6)",
        "z = torch.sqrt((x - y) ** 2 + delta ** 2)",
        "z = torch.log(torch.softmax(x, -1) + 1e-8)",
        "z = torch.log(x)",  # may be positive for certain
        "z = torch.sqrt(x)",
        "z = math.log(sigmoid)",
        "z = torch.sqrt(((x - y) ** 2).mean()).item()",  # a number for the log
        "z = torch.sqrt(self.gt ** 2)",
        "epe = torch.sum((x - y) ** 2, dim=1).sqrt()",  # the end-point error, for the log
    ],
)
def test_leaves_alone(line):
    assert found(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "z = torch.sqrt(x[:, 0] ** 2 + x[:, 1] ** 2)",
        "z = ((x - y) ** 2).sum(1).sqrt()",
        "z = torch.sqrt(torch.sum((x - y) ** 2, dim=1))",
        "z = torch.sqrt((x - y).pow(2).mean())",
        "z = x.sigmoid().log()",
    ],
)
def test_finds(line):
    (finding,) = found(line)
    assert "FlowLoss" in finding.message


def test_quiet_outside_the_hot_path():
    text = "import torch\nloss = torch.log(torch.softmax(x, -1))\n"
    assert unguarded_log_sqrt_or_division(Source(text)) == []


def test_roots_matter_only_where_a_gradient_goes_through():
    assert found("z = torch.sqrt(x[:, 0] ** 2 + x[:, 1] ** 2)", "Drawing") == []


def test_empty_range():
    text = "z = x.unsqueeze(0)\n        z = (z - z.min()) / (z.max() - z.min())"
    (finding,) = found(text)
    assert "0 / 0" in finding.message
