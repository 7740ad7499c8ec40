import pytest

from pitstop.scan.rules.python_loop_over_tensor import python_loop_over_tensor
from pitstop.scan.source import Source

HEAD = (
    "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n        "
)


@pytest.mark.parametrize(
    "body",
    [
        "return [self.layer(y) for y in self.items]",  # unknown
        "return [y for y in x]",  # rows are handed out, no work is done
        "out = []\n        for y in x:\n            out.append(self.layer(y))",  # not joined
        # each round needs the one before
        "out, h = [], 0\n        for y in x:\n            h = self.cell(y, h)\n"
        "            out.append(h)\n        return torch.stack(out)",
        "return [y.to(self.device) for y in x]",  # mostly a list, whatever was declared
        "return torch.stack([f(t) for t in torch.linspace(0, 1, 5)])",
        "if isinstance(x, tuple):\n            return tuple(self.layer(y) for y in x)",
        "for t in timesteps:\n            x = self.denoise(x, t)",
    ],
)
def test_leaves_alone(body):
    assert python_loop_over_tensor(Source(f"{HEAD}{body}\n")) == []


@pytest.mark.parametrize(
    "body",
    [
        "return torch.stack([self.layer(y) for y in x])",
        "out = []\n        for y in x:\n            z = self.layer(y)\n"
        "            out.append(z)\n        return torch.cat(out)",
        "return [(self.schedule == t).nonzero().item() for t in steps]",
        "return [(self.schedule == t).nonzero()[0] for t in steps]",
    ],
)
def test_finds(body):
    assert len(python_loop_over_tensor(Source(f"{HEAD}{body}\n"))) == 1


def test_rendering_one_by_one_needs_no_hot_loop():
    text = (
        "import torch\n@torch.no_grad()\ndef render_all(poses: torch.Tensor):\n    out = []\n"
        "    for pose in poses:\n        out.append(render(pose))\n    return torch.stack(out)\n"
    )
    assert len(python_loop_over_tensor(Source(text))) == 1
    assert python_loop_over_tensor(Source(text.replace("@torch.no_grad()\n", ""))) == []
