import pytest

from pitstop.scan.source import Source


def kind(expression, before=""):
    source = Source(f"import torch\nimport torch.nn as nn\n{before}\nuse({expression})\n")
    return source.kind_of(source.calls("use")[0].args[0])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.zeros(8)", "tensor"),
        ("torch.zeros(8).to(d) * 2 + 1", "tensor"),
        ("torch.zeros(8).mean().item()", "number"),
        ("torch.zeros(8) > 0", "tensor"),
        ("torch.zeros(8).shape", "shape"),
        ("torch.zeros(8).shape[0]", "int"),
        ("torch.zeros(8).size(0)", "int"),
        ("torch.zeros(8).max(0)", "unknown"),  # a pair
        ("torch.zeros(8).max()", "tensor"),
        ("x is None", "bool"),
        ("x in y", "bool"),
        ("x > y", "unknown"),  # they may be tensors
        ("x.numpy() > 0", "unknown"),
        ("x == 'cuda'", "bool"),
        ("len(x) > 1", "bool"),
        ("[torch.ones(1) for y in x]", "list"),
        ("torch.device('cpu')", "device"),
        ("torch.device('cpu').type", "str"),
        ("frames.device", "device"),
        ("args.device", "unknown"),  # an option may be a string
        ("self.device", "unknown"),
        ("torch.float16", "dtype"),
        ("torch.nn.functional.relu(x)", "tensor"),
        ("nn.Linear(1, 2)", "module"),
        ("nn.Linear(1, 2).cuda()", "module"),
        ("torch.optim.Adam(p)", "optimizer"),
        ("torch.optim.lr_scheduler.StepLR(o, 1)", "scheduler"),
        ("torch.utils.data.DataLoader(d)", "dataloader"),
        ("f'{x}'", "str"),
        ("-3", "int"),
        ("7 / 2", "float"),
        ("x", "unknown"),
        ("x.numpy()", "ndarray"),
        ("torch.load(p)", "unknown"),
        ("1 if c else 2", "int"),
        ("1 if c else 'a'", "unknown"),
    ],
)
def test_kinds_of_expressions(expression, expected):
    assert kind(expression) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("x = torch.ones(1)", "tensor"),
        ("x: torch.Tensor = load()", "tensor"),
        ("x = torch.ones(1)\nx += 1", "tensor"),
        ("x = torch.ones(1)\nif c:\n    x = 3", "unknown"),
        ("x = load()\nx.backward()", "tensor"),
        ("x = load()\nx.backward()\nx = 3", "int"),
        ("x = 0.0\nfor y in z:\n    x += y\nx.backward()", "tensor"),
        ("x = 0.0\nfor y in z:\n    x += y\n", "float"),
        ("x = y\ny = x", "unknown"),
        ("for x in range(3):\n    pass", "int"),
        ("for y, (x, z) in enumerate(p):\n    pass", "unknown"),
        ("(x, y), z = torch.ones(1), 3", "unknown"),
        ("x = 3\ny = [x for x in 'ab']", "int"),
        ("x, y = torch.ones(1), 2", "tensor"),
        ("y, x = torch.ones(1).shape", "int"),
        ("class Net(nn.Module):\n    pass\nx = Net()", "module"),
        ("class Base(nn.Module):\n    pass\nclass Net(Base):\n    pass\nx = Net()", "module"),
        ("class Net:\n    pass\nx = Net()", "unknown"),
    ],
)
def test_kinds_through_assignments(before, expected):
    assert kind("x", before) == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("torch.Tensor", "tensor"),
        ("'torch.Tensor'", "tensor"),
        ("torch.Tensor | None", "tensor"),
        ("Optional[torch.Tensor]", "tensor"),
        ("str | torch.device", "unknown"),
        ("list[torch.Tensor]", "list"),
        ("nn.Module", "module"),
    ],
)
def test_kinds_of_annotated_parameters(annotation, expected):
    imports = "import torch\nfrom torch import nn\nfrom typing import Optional\n"
    source = Source(f"{imports}def f(x: {annotation}):\n    use(x)\n")
    assert source.kind_of(source.calls("use")[0].args[0]) == expected


def test_a_loss_of_torch_returns_a_tensor_and_a_module_of_ours_anything():
    text = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        self.loss = nn.MSELoss()
        self.body = Net()
    def forward(self, x):
        use(self.loss(x, x))
        use(self.body(x))
"""
    source = Source(text)
    assert [source.kind_of(call.args[0]) for call in source.calls("use")] == ["tensor", "unknown"]


def test_an_endless_sum_is_unknown_and_no_error():
    assert kind(" + ".join(["a"] * 900)) == "unknown"
