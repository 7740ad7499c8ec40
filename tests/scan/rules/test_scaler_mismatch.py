import pytest

from pitstop.scan.rules.scaler_mismatch import scaler_mismatch
from pitstop.scan.source import Source

TEXT = """import torch
{scaler}
for clip in train_loader:
    with torch.autocast({cast}):
        loss = model(clip).mean()
    {backward}
"""
SCALER, SCALED = 'scaler = torch.amp.GradScaler("cuda"{})', "scaler.scale(loss).backward()"


def found(cast, scaler="", backward="loss.backward()"):
    return scaler_mismatch(Source(TEXT.format(cast=cast, scaler=scaler, backward=backward)))


@pytest.mark.parametrize(
    ("cast", "scaler", "backward"),
    [
        ('"cuda", torch.float16', SCALER.format(""), SCALED),
        ('"cuda", torch.bfloat16', "", "loss.backward()"),
        ('"cuda", torch.bfloat16', SCALER.format(", enabled=half"), SCALED),  # may be off
        ('"cuda", args.dtype', SCALER.format(""), SCALED),  # may be either
        ('"cuda", torch.float16, enabled=half', "", "loss.backward()"),
        ('"cuda", torch.float16', "from accelerate import Accelerator", "a.backward(loss)"),
        ('"cuda", torch.float16', "import accelerate\na = accelerate.Accelerator()", "a.step()"),
        ('"cuda", torch.float16', "", "print(loss)"),  # nothing is trained
        ('"cuda", **options', "", "loss.backward()"),  # may be bfloat16
        ("device, torch.float32", "", "loss.backward()"),
    ],
)
def test_leaves_alone(cast, scaler, backward):
    assert found(cast, scaler, backward) == []


def test_finds_half_without_a_scaler():
    (finding,) = found('"cuda", torch.float16')
    assert finding.severity == "error"
    (finding,) = found('"cuda"')  # float16 is what CUDA means
    assert finding.changes == ("bf16",)


def test_finds_a_scaler_for_bfloat16():
    (finding,) = found('"cuda", dtype=torch.bfloat16', SCALER.format(", enabled=True"), SCALED)
    assert finding.span is not None
    assert finding.span.line == 2
