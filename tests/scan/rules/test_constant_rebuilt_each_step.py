import pytest

from pitstop.scan.rules.constant_rebuilt_each_step import constant_rebuilt_each_step
from pitstop.scan.source import Source

HEAD = "import torch, functools\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        "


@pytest.mark.parametrize(
    "body",
    [
        "return torch.tensor([a, b], device=x.device)",  # not the same each time
        "return torch.tensor([0.1, 0.2])",  # stays on the CPU
        "return torch.tensor(0.0, device=x.device)",
        "return torch.meshgrid(x, x)",
        "return torch.arange(8, device=x.device)",  # one cheap kernel
        "if self.grid is None:\n            self.grid = torch.linspace(0, 1, 8)",
        "if x.shape not in grids:\n            grids[x.shape] = torch.linspace(0, 1, 8)",
        "if self.debug:\n            print(torch.linspace(0, 1, 8))",
    ],
)
def test_leaves_alone(body):
    assert constant_rebuilt_each_step(Source(f"{HEAD}{body}\n")) == []


@pytest.mark.parametrize(
    "body",
    [
        "return torch.tensor([[1, -2], [0, 1]]).to(x.device)",
        "return torch.meshgrid(torch.arange(h), torch.arange(w))",
        "return torch.meshgrid([torch.arange(h), torch.arange(w)])",
        "rows = torch.arange(h)\n        return torch.meshgrid(rows, rows)",
        "return torch.linspace(0, 1, 8) + torch.linspace(0, 1, 4)",  # once per function
    ],
)
def test_finds(body):
    (finding,) = constant_rebuilt_each_step(Source(f"{HEAD}{body}\n"))
    assert "forward of Net" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "def grid():\n    return torch.linspace(0, 1, 8)",  # nobody hot calls it
        "@functools.lru_cache\ndef grid():\n    return torch.linspace(0, 1, 8)\n"
        "for x in loader:\n    grid()",
        "def sample_image(x):\n    return torch.linspace(0, 1, 8)\n"
        "for x in loader:\n    sample_image(x)",
    ],
)
def test_quiet_where_it_is_kept_or_rare(text):
    assert constant_rebuilt_each_step(Source(f"import torch, functools\n{text}\n")) == []
