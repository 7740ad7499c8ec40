import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.optimizer_not_fused import optimizer_not_fused
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "line",
    [
        "torch.optim.Adam(model.parameters(), fused=True)",
        "Adam(big, fused=True); torch.optim.Adam(head.parameters())",  # thought of
        "torch.optim.Adam(model.parameters(), fused=on_gpu)",
        "torch.optim.Adam(model.parameters(), foreach=True)",  # decided
        "torch.optim.Adam(model.parameters(), capturable=True)",
        "torch.optim.Adam(model.parameters(), **options)",  # may hold it
        "torch.optim.RMSprop(model.parameters())",  # has no fused kernel
        "torch.optim.Adagrad(model.parameters())",  # fused on the CPU only
        "torch.optim.Adam([latent], lr=0.1)",  # a tensor or two
        "torch.optim.Adam([self.rotation, self.shift])",
        "torch.optim.Adam([splats['means']])",
        "torch.optim.Adam([{'params': [self.rotation], 'lr': 0.1}])",
        "torch.optim.AdamW(encoder.get_input_embeddings().parameters())",  # one tensor
        "bnb.optim.AdamW8bit(model.parameters())",
        "torch.optim.Adam",
    ],
)
def test_leaves_alone(line):
    assert optimizer_not_fused(Source(f"import torch\n{line}\n")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Adam(net.parameters())", "Adam(net.parameters(), fused=True)"),
        ("AdamW(groups, lr=1,)", "AdamW(groups, lr=1, fused=True)"),
        ("SGD(\n    net.parameters(),\n    lr=1,  # high\n)", None),
        ("Adam([*a.parameters(), *b.parameters()])", None),
        ("Adam([{'params': a.parameters()}, {'params': b.parameters()}])", None),
    ],
)
def test_fix_is_not_safe_and_is_enough(before, after):
    text = f"from torch.optim import SGD, Adam, AdamW\noptimizer = {before}\n"
    (finding,) = optimizer_not_fused(Source(text))
    assert not finding.fix.safe
    assert (finding.confidence, finding.changes) == ("suspected", ("fused-optimizer",))
    fixed = apply_fix(text, finding.fix)
    assert after is None or fixed.endswith(f"optimizer = {after}\n")
    assert optimizer_not_fused(Source(fixed)) == []


def test_quiet_in_tests():
    text = "import torch\ntorch.optim.Adam(net.parameters())\n"
    assert optimizer_not_fused(Source(text, "tests/test_train.py")) == []
