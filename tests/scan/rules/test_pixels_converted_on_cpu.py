import pytest

from pitstop.scan.rules.pixels_converted_on_cpu import pixels_converted_on_cpu
from pitstop.scan.source import Source

LOOP = """\
import numpy as np
import torch
with torch.no_grad():
    for i, frame in enumerate(frames):
        x = frame
        y = model(x)
        {line}
"""


def found_in(line):
    return [each.message for each in pixels_converted_on_cpu(Source(LOOP.format(line=line)))]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("p = y.cpu().numpy() * 255", "fetched"),
        ("p = 255.0 * y[0].clamp(0, 1).cpu().permute(1, 2, 0).numpy()", "fetched"),
        ("p = masks[0, i].cpu().permute(1, 2, 0).numpy().astype(np.uint8)", "fetched"),
        ("p = y.cpu().numpy().astype(dtype='uint8')", "fetched"),
        ("p = (y.detach().cpu()[0] * 255).byte().numpy()", "fetched"),
        ("x = (torch.tensor(a).float() / 255.0).unsqueeze(0).to(device)", "sent"),
        ("x = torch.from_numpy(a / 255).float().cuda()", "sent"),
    ],
)
def test_finds(line, words):
    (message,) = found_in(line)
    assert f" {words} " in message.partition("GPU" if words == "sent" else ",")[0]


@pytest.mark.parametrize(
    "line",
    [
        "p = y.cpu().numpy().astype()",
        "p = (y * 255).byte().cpu().numpy()",
        "p = (y * 255).to(torch.uint8).cpu().numpy().astype(np.uint8)",
        "p = y.cpu().numpy()",
        "p = y.cpu().numpy() * 2",
        "p = y.cpu().numpy() - 255",
        "if args.low_vram: p = y.cpu().numpy() * 255",
        "p = y.cpu().numpy().astype(np.float32)",
        "p = to_picture(y.cpu()) * 255",  # whatever that makes of it
        "x = torch.from_numpy(a).to(device).float() / 255",
        "x = (torch.from_numpy(a).float() / 255).to(torch.float16)",
        "if i % 100 == 0: p = y.cpu().numpy() * 255",
        "if debug: p = y.cpu().numpy() * 255",
    ],
)
def test_leaves_alone(line):
    assert found_in(line) == []


def test_training_has_batches_from_a_loader():
    text = LOOP.format(line="p = y.cpu().numpy() * 255; y.mean().backward()")
    assert pixels_converted_on_cpu(Source(text.replace("frames", "train_loader"))) == []


def test_one_picture_is_no_matter():
    assert pixels_converted_on_cpu(Source("p = y.cpu().numpy() * 255\n")) == []
