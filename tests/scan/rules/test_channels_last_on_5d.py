import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.channels_last_on_5d import channels_last_on_5d
from pitstop.scan.source import Source

HEAD = "import torch\nfrom torch import nn\n"
LOOP = """for m in model.modules():
    if isinstance(m, nn.Conv2d):
        m = m.to(memory_format=torch.channels_last)
"""


@pytest.mark.parametrize(
    "text",
    [
        "layer = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)",
        "x = x.to(memory_format=torch.channels_last)",  # may be a picture
        "b, c, h, w = x.shape\nx = x.contiguous(memory_format=torch.channels_last)",
        "layer = nn.Conv3d(3, 8, 3)\nlayer.to(memory_format=torch.channels_last_3d)",
        LOOP,  # a project without 3-D layers
        "b, c, t, h, w = x.shape\nx = x.flatten(0, 1)\n"
        "x = x.contiguous(memory_format=torch.channels_last)",  # folded in between
    ],
)
def test_leaves_alone(text):
    assert channels_last_on_5d(Source(f"{HEAD}{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "layer = nn.Conv3d(3, 8, 3)\nlayer = layer.to(memory_format=torch.channels_last)",
        "b, c, t, h, w = x.shape\nx = x.contiguous(memory_format=torch.channels_last)",
        "class Net(nn.Module):\n    def __init__(self):\n        self.a = nn.Conv3d(3, 8, 3)\n"
        "net = Net()\nnet.to(memory_format=torch.channels_last)",
    ],
)
def test_fix(text):
    text = f"{HEAD}{text}\n"
    (finding,) = channels_last_on_5d(Source(text))
    assert finding.severity == "error"
    fixed = apply_fix(text, finding.fix)
    assert fixed == text.replace("channels_last", "channels_last_3d")
    assert channels_last_on_5d(Source(fixed)) == []


def test_suspects_single_layers_of_a_video_model():
    (finding,) = channels_last_on_5d(Source(f"{HEAD}stem = nn.Conv3d(3, 8, 3)\n{LOOP}"))
    assert (finding.confidence, finding.fix) == ("suspected", None)
