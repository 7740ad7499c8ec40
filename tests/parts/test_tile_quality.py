# mypy: disable-error-code="no-untyped-def,no-untyped-call"
import pytest
import torch

from pitstop.parts.tiled.quality import psnr, seam
from pitstop.parts.tiled.tiles import Grid, cut

GRID = Grid(cut(40, 16, 4), cut(30, 16, 4))
SCALE = 4


def pictures(error):
    untiled = torch.linspace(0, 1, 160)[:, None].expand(1, 3, 160, 120)
    return untiled + error, untiled


def steps(blend):
    """An error that differs from tile to tile, blended over so many pixels inside an overlap."""
    rise = torch.zeros(160)
    for number, (start, after) in enumerate(GRID.rows.pairs):
        middle = (start + GRID.rows.tile + after) * SCALE / 2
        rise += (-1) ** number * ((torch.arange(160) + 0.5 - middle) / blend + 0.5).clamp(0, 1)
    return 0.01 * rise[:, None].expand(160, 120)


@pytest.mark.parametrize("blend", [0.5, 4, 14])
def test_a_step_between_tiles_is_a_seam_however_it_is_blended(blend):
    noise = 1e-4 * torch.randn(1, 3, 160, 120, generator=torch.Generator().manual_seed(0))
    assert seam(*pictures(steps(blend) + noise), GRID, SCALE) > 5


def test_noise_a_tone_and_a_slow_drift_are_no_seam():
    noise = torch.randn(1, 3, 160, 120, generator=torch.Generator().manual_seed(0))
    drift = torch.linspace(0, 1, 160)[:, None].expand(160, 120)
    assert seam(*pictures(0.01 * noise), GRID, SCALE) == pytest.approx(1, abs=0.1)
    assert seam(*pictures(0.01 * drift), GRID, SCALE) < 1.5
    assert seam(*pictures(torch.tensor(0.1)), GRID, SCALE) < 1.5


def test_no_error_is_no_seam_and_the_best_there_is():
    assert seam(*pictures(0), GRID, SCALE) == 1
    assert psnr(*pictures(0)) == pytest.approx(120)
    assert psnr(*pictures(0.1)) == pytest.approx(20, abs=0.01)
