import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.blocking_copy import blocking_copy
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "for x in loader:\n    x = x.to(device, non_blocking=True)",
        "for x in loader:\n    x = x.to(device, torch.half, True)",
        "for x in loader:\n    x = x.to(torch.float16)",
        "for x in loader:\n    x = x.to('cpu')",
        "for x in loader:\n    x.to(device, **options)",
        "for x in loader:\n    noise = noise.to(device)",  # not from the loader
        "for x in loader:\n    model.cuda()",
        "x = x.to(device)",
        "with torch.no_grad():\n    for x in val_loader:\n        x = x.to(device)",
        "for x in self.rows[i]:\n    self.rows[i].to(device)",  # no hot loop
        "import accelerate\nfor x in loader:\n    x = x.to(device)",  # is there already
        "import pytorch_lightning as pl\nclass M(pl.LightningModule):\n"
        "    def training_step(self, batch):\n        return batch['x'].to(self.device)",
        "class N(torch.nn.Module):\n    def forward(self, input):\n"
        "        return input.to(self.device)",  # where it is now is for the caller to know
        "for x in loader:\n    y = model.to(offload_device)",  # a module, moved on purpose
    ],
)
def test_leaves_alone(text):
    assert blocking_copy(Source(f"import torch\n{text}\n")) == []


def test_a_second_copy_does_nothing():
    text = "for x in loader:\n    x = x.to(device)\n    y = x.to(device)\n"
    (finding,) = blocking_copy(Source(text))
    assert finding.span is not None
    assert finding.span.line == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = x.to(device)", "x = x.to(device, non_blocking=True)"),
        ("x = x['a'].cuda()", "x = x['a'].cuda(non_blocking=True)"),
        ("y = x[0].to('cuda:0')", "y = x[0].to('cuda:0', non_blocking=True)"),
        (
            "a, b = x[0].to(args.device), x[1].to(args.device)",
            "a, b = x[0].to(args.device, non_blocking=True), "
            "x[1].to(args.device, non_blocking=True)",
        ),
        (
            "x = {k: v.to(device) for k, v in x.items()}",
            "x = {k: v.to(device, non_blocking=True) for k, v in x.items()}",
        ),
    ],
)
def test_fix(before, after):
    text = f"for x in loader:\n    {before}\n"
    (finding,) = blocking_copy(Source(text))
    assert finding.fix is not None
    assert not finding.fix.safe  # a batch of a class of its own may know no non_blocking
    assert apply_fix(text, finding.fix) == f"for x in loader:\n    {after}\n"


def test_follows_nested_targets_and_functions():
    text = (
        "def feed(data):\n    return data['lq'].to(device)\n"
        "for i, (x, name) in enumerate(loader):\n    x = x.cuda()\n    feed(x)\n"
    )
    assert [each.span and each.span.line for each in blocking_copy(Source(text))] == [2, 4]


@pytest.mark.parametrize(
    "line",
    [
        "rows = self.images[batch_indexes].to(device)",  # pinning comes first
        "rows = tile.to(offload_device) + tile.shape[0]",  # needs an event
    ],
)
def test_no_fix_where_the_keyword_alone_would_not_do(line):
    text = f"class T:\n    def fit(self):\n        for i in order:\n            {line}\n"
    (finding,) = blocking_copy(Source(f"{text}            loss.backward()\n"))
    assert finding.fix is None
