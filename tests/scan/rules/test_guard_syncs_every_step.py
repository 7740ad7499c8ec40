import pytest

from pitstop.scan.rules.guard_syncs_every_step import guard_syncs_every_step
from pitstop.scan.source import Source


def found(body, before="for clip in train_loader:\n    loss = model(clip).mean()\n"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"import math\nimport numpy as np\nimport torch\n{before}{lines}    loss.backward()\n"
    return guard_syncs_every_step(Source(text))


@pytest.mark.parametrize(
    "body",
    [
        "loss = torch.where(torch.isnan(loss), zero, loss)",  # stays on the GPU
        "grads[grads.isnan()] = 0.0",
        "bad += torch.isnan(loss)",
        "if step % 100 == 0 and torch.isnan(loss):\n    stop()",
        "if step % 100 == 0:\n    assert torch.isfinite(loss)",
        "if check_finite and not loss.isfinite():\n    stop()",  # asked for
        "if math.isnan(value):\n    stop()",  # a number: sync-in-hot-loop speaks of its origin
        "if np.isnan(value).any():\n    stop()",
        "with torch.no_grad():\n    if torch.isnan(loss):\n        stop()",
        "if safe_merge:\n    if not torch.isfinite(weight).all():\n        stop()",
    ],
)
def test_leaves_alone(body):
    assert found(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "if not torch.isfinite(loss):\n    continue",
        "if torch.any(torch.isnan(latents)):\n    stop()",
        "if loss.isnan():\n    stop()",
        "if torch.isnan(loss) or torch.isinf(loss):\n    stop()",  # one statement, one finding
        "assert torch.isfinite(loss).all()",
        "bad = (~torch.isfinite(loss.detach())).to(torch.int32)\nif bad.item():\n    stop()",
        "finite = bool(torch.isfinite(loss))",
        # What looks closer afterwards runs once.
        "if torch.isnan(loss):\n    for p in params:\n        if torch.isnan(p).any():\n"
        "            stop()",
    ],
)
def test_finds(body):
    (finding,) = found(body)
    assert finding.confidence == "suspected"


@pytest.mark.parametrize(("mode", "count"), [("True", 1), ("False", 0), ("args.debug", 0)])
def test_anomaly_detection_that_is_always_on(mode, count):
    text = f"import torch\ntorch.autograd.set_detect_anomaly({mode})\n"
    assert len(guard_syncs_every_step(Source(text))) == count


def test_quiet_where_latents_are_cached_once():
    text = """import torch
def cache_latents(vae, batch):
    latents = vae.encode(batch)
    if torch.isnan(latents).any():
        raise RuntimeError
for batch in train_loader:
    cache_latents(vae, batch)
    loss.backward()
"""
    assert guard_syncs_every_step(Source(text)) == []
