import pytest

from pitstop.scan.rules.tiles_one_at_a_time import tiles_one_at_a_time
from pitstop.scan.source import Source

LOOPS = """\
import torch
for i in range(0, height, 64):
    for j in range(0, width, 64):
        {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "out = model(x)",  # the whole picture each time
        "out = model(x[..., i : i + 64, :])",  # rows only
        "out = model(x[i : i + 64, 0 : 64])",
        "out = blend(x[..., i : i + 64, j : j + 64])",  # no network
        "out = model(x[i * 8 + j : i * 8 + j + 8, 0:64])",  # both move along one axis
        "out = model(x[i, j])",  # single values
        "out[..., i : i + 64, j : j + 64] = model(x)",
    ],
)
def test_leaves_alone(line):
    assert tiles_one_at_a_time(Source(LOOPS.format(line=line))) == []


@pytest.mark.parametrize(
    "line",
    [
        "out = model(x[..., i : i + 64, j : j + 64])",
        "out = self.vae.decode(x[:, :, i : i + 64, j : j + 64].contiguous())",
        "a, b = i + 64, j + 64; tile = x[:, :, i:a, j:b]; out = self.decoder(tile)",
        "tile = x[:, i : i + 8, j : j + 8]; tile = self.quant_conv(tile); self.decoder(tile)",
        "y, x = slice(i, i + 64), slice(j, j + 64); out = network(z[:, :, y, x])",
        "tile = z[:, i : i + 8, j : j + 8]; tile = self.encoder(tile); self.decoder(tile)",
    ],
)
def test_finds_once_per_loop(line):
    (finding,) = tiles_one_at_a_time(Source(LOOPS.format(line=line)))
    assert (finding.code, finding.confidence) == ("PIT610", "suspected")


def test_sees_lists_of_starts_and_loops_over_files_around():
    text = (
        "import torch\nfor file in files:\n    for h in starts:\n        for w in starts:\n"
        "            patch = x[..., h : h + s, w : w + s]\n            out = model(patch)\n"
    )
    (finding,) = tiles_one_at_a_time(Source(text))
    assert finding.span.line == 6


def test_quiet_for_batches_in_epochs():
    text = (
        "import torch\nfor epoch in range(9):\n    for start in range(0, 100, 8):\n"
        "        out = model(x[start : start + 8, 0 : 64])\n"
    )
    assert tiles_one_at_a_time(Source(text)) == []
