import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.checkpoint_without_use_reentrant import checkpoint_without_use_reentrant
from pitstop.scan.source import Source

HEAD = "import torch\nfrom torch.utils import checkpoint as ckpt\n"


@pytest.mark.parametrize(
    "line",
    [
        "x = ckpt.checkpoint(block, x, use_reentrant=True)",  # named: taken as meant
        "x = ckpt.checkpoint(block, x, **options)",  # the options may name it
        "x = checkpoint(block, (x,), block.parameters(), True)",  # a function of the project
        "x = load.checkpoint(path)",
        "if new:\n    x = ckpt.checkpoint(f, x, use_reentrant=False)\n"
        "else:\n    x = ckpt.checkpoint(f, x)",  # for a torch that has no choice
    ],
)
def test_leaves_alone(line):
    assert checkpoint_without_use_reentrant(Source(f"{HEAD}{line}\n")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ckpt.checkpoint(f, *args)", "ckpt.checkpoint(f, *args, use_reentrant=False)"),
        (
            "ckpt.checkpoint_sequential(blocks, 4, x)",
            "ckpt.checkpoint_sequential(blocks, 4, x, use_reentrant=False)",
        ),
        (
            "ckpt.checkpoint(\n    f,\n    x,\n)",
            "ckpt.checkpoint(\n    f,\n    x, use_reentrant=False\n)",
        ),
    ],
)
def test_fix(before, after):
    text = f"{HEAD}y = {before}\n"
    (finding,) = checkpoint_without_use_reentrant(Source(text))
    assert finding.fix is not None
    assert not finding.fix.safe
    fixed = apply_fix(text, finding.fix)
    assert fixed == f"{HEAD}y = {after}\n"
    assert checkpoint_without_use_reentrant(Source(fixed)) == []
