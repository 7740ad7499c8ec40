import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.tensor_built_on_cpu import tensor_built_on_cpu
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.zeros(8).to(grad)",  # may mean a dtype as well
        "x = torch.rand(8).to(device)",  # random: the numbers would change
        "x = torch.zeros(8, **options).to(device)",  # options may hold a device
        "x = torch.zeros(8).to(device, non_blocking=True)",
        "model.to(device)",
        "x = torch.zeros((0, 4)).to(device)",  # nothing to copy
    ],
)
def test_leaves_alone(line):
    assert tensor_built_on_cpu(Source(f"import torch\n{line}\n")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.ones(8).to(device) * 2", "torch.ones(8, device=device) * 2"),
        ("torch.ones((8),).to(x.device)", "torch.ones((8), device=x.device)"),
        ("é = torch.ones(8).to(device)", "é = torch.ones(8, device=device)"),
        (
            "torch.ones(\n    8,  # rows\n).to(device)",
            "torch.ones(\n    8, device=device  # rows\n)",
        ),
    ],
)
def test_fix(before, after):
    text = f"import torch\n{before}\n"
    (finding,) = tensor_built_on_cpu(Source(text))
    assert finding.fix is not None
    assert finding.fix.safe
    assert apply_fix(text, finding.fix) == f"import torch\n{after}\n"


def test_follows_import_aliases():
    text = "from torch import zeros as z\nx = z(8).to(device)\n"
    (finding,) = tensor_built_on_cpu(Source(text))
    assert finding.span is not None
    assert (finding.code, finding.span.line, finding.span.column) == ("PIT202", 2, 5)
