import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.compile_result_dropped import compile_result_dropped
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "line",
    [
        "model = torch.compile(model)",
        "run(torch.compile(model))",
        "model.compile()",
        "torch.compile(*models)",
    ],
)
def test_leaves_alone(line):
    assert compile_result_dropped(Source(f"import torch\n{line}\n")) == []


NET = "class Net(torch.nn.Module):\n    pass\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("net = load()\ntorch.compile(net)", "net = load()\nnet = torch.compile(net)"),
        ("torch.compile(self.net)", "self.net = torch.compile(self.net)"),
        (
            f"{NET}net = Net().cuda()\ntorch.compile(net, dynamic=True,)",
            f"{NET}net = Net().cuda()\nnet.compile(dynamic=True,)",
        ),
        (
            "net = torch.nn.Sequential(*layers).cuda()\ntorch.compile(net)",
            "net = torch.nn.Sequential(*layers).cuda()\nnet = torch.compile(net)",
        ),
    ],
)
def test_fix(before, after):
    text = f"import torch\n{before}\n"
    (finding,) = compile_result_dropped(Source(text))
    assert finding.fix is not None
    assert apply_fix(text, finding.fix) == f"import torch\n{after}\n"


def test_no_fix_where_an_assignment_would_hide_a_global():
    text = "import torch\nnet = load()\ndef go():\n    torch.compile(net)\n    net(1)\n"
    (finding,) = compile_result_dropped(Source(text))
    assert finding.fix is None
