import pytest

from pitstop.scan.rules.clamp_kills_gradient import clamp_kills_gradient
from pitstop.scan.source import Source

HEAD = "import torch\nimport torch.nn.functional as F\n"


def found(body, loop="for clip, sharp in train_loader:"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return clamp_kills_gradient(Source(f"{HEAD}{loop}\n{lines}    loss.backward()\n"))


@pytest.mark.parametrize(
    "body",
    [
        "out = model(clip)\nloss = F.l1_loss(out, sharp)\nshow(out.clamp(0, 1))",  # for a picture
        "sharp = sharp.clamp(0, 1)\nloss = F.l1_loss(model(clip), sharp)",  # the target
        "logvar = torch.clamp(logvar, -30.0, 20.0)\nloss = kl_loss(logvar)",  # a guard
        "pred = pred.clamp(min=0)\nloss = F.l1_loss(pred, sharp)",  # open at one end
        "pred = pred.clamp(0, 1).round()\nloss = F.l1_loss(pred, sharp)",  # no more a clamp
        "pred = pred.clamp(low, high)\nloss = F.l1_loss(pred, sharp)",
        "with torch.no_grad():\n    pred = model(clip).clamp(0, 1)\n    a = psnr_loss(pred, sharp)",
        "if step % 100 == 0:\n    out = out.clamp(0, 1)\n    log(F.l1_loss(out, sharp))",
    ],
)
def test_leaves_alone(body):
    assert found(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "pred = net(clip)\npred = pred.clamp(0, 1)\nloss = F.l1_loss(pred, sharp)",
        "fake = torch.clamp(fake, min=-1, max=1)\nloss = self.criterion(fake, sharp)",
        "loss = F.mse_loss(model(clip).clamp(0.0, 1.0), sharp)",
        "output.clamp_(0, 1)\nloss = loss_fn(output, sharp)",
    ],
)
def test_finds(body):
    (finding,) = found(body)
    assert finding.confidence == "suspected"


def test_quiet_in_validation():
    body = "out = model(clip).clamp(0, 1)\nloss = F.l1_loss(out, sharp)"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{HEAD}for clip, sharp in val_loader:\n{lines}"
    assert clamp_kills_gradient(Source(text)) == []
