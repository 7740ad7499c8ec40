# mypy: disable-error-code="no-untyped-def,no-untyped-call"
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.parts import accelerate_vae
from pitstop.parts.tiled.costs import Costs, Need
from pitstop.parts.tiled.plan import Wish, make_plan
from pitstop.parts.tiled.strips import cut_strips, in_strips
from pitstop.parts.tiled.tiled_vae import TiledVae, Tiling
from pitstop.parts.vae.codecs import codec_of
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae


@pytest.fixture(autouse=True)
def _inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def kl_vae(accelerated=False):
    diffusers = pytest.importorskip("diffusers")
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 16, 16),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        norm_num_groups=4,
        layers_per_block=1,
    ).eval()
    if accelerated:
        accelerate_vae(vae)
    return vae


def by_strips(stages, x, zoom, counts):
    """Every stage that can be cut, in strips."""
    for stage, count in zip(stages, counts, strict=False):
        x = stage.run(x) if stage.halo is None else in_strips(stage, x, zoom, count)
        zoom = stage.zoom
    return x


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 90), st.integers(1, 40), st.integers(0, 6))
def test_strips_count_every_row_once_and_lie_inside_the_picture(rows, count, halo):
    seen = []
    for strip in cut_strips(rows, 5, count, halo):
        skipped, tall = strip.sample.corners[0][0], strip.sample.block[0]
        top = strip.start + skipped
        assert 0 <= strip.start <= rows - strip.rows
        assert skipped >= min(halo, top)
        assert strip.rows - skipped - tall >= min(halo, rows - top - tall)
        seen += range(top, top + tall)
    assert seen == list(range(rows))


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_pictures_in_strips_equal_the_whole(accelerated, count):
    vae = kl_vae(accelerated)
    codec = codec_of(vae)
    latent, pixels = torch.randn(2, 4, 21, 9), torch.randn(1, 3, 91, 46)  # beyond the last cell
    counts = [count] * 20
    found = by_strips(codec.decoder, latent, 1, counts)
    assert torch.allclose(found, vae.decode(latent).sample, atol=1e-5)
    found = by_strips(codec.encoder, pixels, codec.scale, counts)
    assert torch.allclose(found, vae._encode(pixels), atol=1e-5)


@pytest.mark.parametrize("accelerated", [False, True])
def test_clips_in_strips_equal_the_whole(accelerated):
    vae = VideoVae(VaeConfig((4, 8, 8), 1, 2, 4, temporal_levels=1)).eval()
    latent, clip = torch.randn(1, 4, 2, 13, 7), torch.randn(1, 3, 3, 52, 28)
    expected = vae.decode(latent), vae.encode(clip)
    if accelerated:
        accelerate_vae(vae)
    codec = codec_of(vae)
    found = by_strips(codec.decoder, latent, 1, [3] * 20)
    assert torch.allclose(found, expected[0], atol=1e-4)
    found = by_strips(codec.encoder, clip, codec.scale, [3] * 20)
    assert torch.allclose(found, expected[1], atol=1e-4)


def test_a_tile_size_is_kept_by_strips_of_no_more_pixels_and_the_result_is_exact():
    vae = kl_vae()
    latent = torch.randn(1, 4, 40, 36)
    tiled = TiledVae(vae, Tiling(tile=96, quiet=True))
    assert torch.allclose(tiled.decode(latent), vae.decode(latent).sample, atol=1e-5)
    assert tiled.plan.steps[-1].strips * 24**2 >= 40 * 36
    assert not any("_pitstop" in name for each in vae.modules() for name in vars(each))


def flux_costs():
    """A FLUX-shaped decoder in bf16, by hand: bytes per cell in units of its middle block's."""
    unit = 1024.0
    stages = [(5.5, 1, None), *[(2.0, 1, 2)] * 3]  # peak, result, halo
    for peak, first, other, size in ((4, 8, 8, 4), (16, 24, 16, 8), (32, 48, 32, 16)):
        stages += [(peak, peak, 1), (first, size, 1), *[(other, size, 1)] * 2]
    stages.append((17.0, 0.4, 1))
    peaks = tuple(Need(1e6, unit * peak) for peak, _, _ in stages)
    borders = (32.0, *(unit * size for _, size, _ in stages))
    sums = tuple(2 * each for each in borders)
    waits = tuple(stage in (4, 8, 12) for stage in range(len(stages)))
    return Costs(peaks, borders, sums, True, tuple(halo for _, _, halo in stages), waits)


WISH = Wish((3,) * 17, int(2.7 * 2**30), 285_000_000, sample=0.5, zoom=8)


def test_what_fits_at_once_is_left_at_once_and_upsampling_runs_with_the_next_where_it_must():
    plan = make_plan(flux_costs(), 256, 256, WISH)
    assert plan.untiled
    assert plan.predicted_bytes <= WISH.budget_bytes
    together = [step for step in plan.steps if step.last - step.first > 1]
    assert [(step.first, step.last) for step in together] == [(12, 14)]
    assert {step.strips for step in plan.steps if step.first < 9} == {1}
    assert all(step.strips > 1 for step in plan.steps if step.first in {9, 12, 14, 15})
    assert "exact, in strips" in str(plan)


def test_tiles_begin_where_strips_no_longer_fit():
    plan = make_plan(flux_costs(), 512, 512, WISH)
    assert not plan.untiled
    assert 0 < plan.whole < 12
    assert plan.predicted_bytes <= WISH.budget_bytes
    less = make_plan(flux_costs(), 512, 512, replace(WISH, exact=False))
    assert less.whole < plan.whole


def test_a_share_is_of_what_the_picture_takes_at_once_or_the_least_there_is():
    costs, room = flux_costs(), replace(WISH, budget_bytes=2**40)
    at_once = make_plan(costs, 256, 256, room)
    assert all(step.strips == 1 for step in at_once.steps)
    half = make_plan(costs, 256, 256, replace(room, share=0.5))
    added = (at_once.predicted_bytes - WISH.base_bytes, half.predicted_bytes - WISH.base_bytes)
    assert added[1] <= 0.5 * added[0]
    least = make_plan(costs, 256, 256, replace(room, share=0.001))
    assert least.predicted_bytes < half.predicted_bytes
