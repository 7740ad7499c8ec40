import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.device_compared_with_string import device_compared_with_string
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "line",
    [
        'x.device.type == "cuda"',
        'x.device == torch.device("cuda")',
        'args.device == "cuda"',  # an option may well be a string
        'device == "cuda"',  # nothing says what it is
        'x.device == "cuda:0"',
        'x.device == name == "cuda"',
        'str(torch.ones(1).device) == "cpu"',  # that is how the CPU is written
        'str(x.device) == "cuda"',  # a module's own device may have no index
    ],
)
def test_leaves_alone(line):
    assert device_compared_with_string(Source(f"import torch\nok = {line}\n")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('x.device != "cpu"', 'x.device.type != "cpu"'),
        ('"cuda" == x.device', '"cuda" == x.device.type'),
        (
            'str(x.grad.mean().detach().device) == "cuda"',
            'x.grad.mean().detach().device.type == "cuda"',
        ),
    ],
)
def test_fix(before, after):
    text = f"ok = {before}\n"
    (finding,) = device_compared_with_string(Source(text))
    assert finding.fix is not None
    assert not finding.fix.safe
    assert apply_fix(text, finding.fix) == f"ok = {after}\n"


def test_follows_a_device_through_an_assignment():
    text = 'import torch\ndevice = torch.device("cuda:0")\nok = device == "cuda"\n'
    (finding,) = device_compared_with_string(Source(text))
    assert finding.span is not None
    assert finding.span.line == 3
