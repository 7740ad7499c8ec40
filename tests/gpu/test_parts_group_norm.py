# mypy: disable-error-code="arg-type,call-arg,no-untyped-def,no-untyped-call"
import pytest
import torch

from pitstop.parts import accelerate_vae, group_norm_silu
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu_twin
from pitstop.parts.vae.functions import add_biases, add_biases_twin, attend

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [
    (1, 512, 64, 64),
    (2, 320, 33, 31),
    (1, 96, 5, 17, 19),
    (3, 2560, 8, 8),
    (2, 512, 1, 1),
    (1, 128, 700, 900),
]
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def relative(found, expected):
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_twin_in_fp64(shape, channels_last, dtype):
    x = (torch.randn(shape, device="cuda") * 2 + 5).to(dtype)
    x = x.contiguous(memory_format=LAYOUTS[len(shape)]) if channels_last else x
    weight, bias, channel_bias = torch.randn(3, shape[1], device="cuda").to(dtype).unbind()
    leaves = [each.detach().requires_grad_() for each in (x, weight, bias, channel_bias)]
    exact = [each.detach().double().requires_grad_() for each in leaves]
    found = group_norm_silu(leaves[0], 32, *leaves[1:3], channel_bias=leaves[3])
    expected = group_norm_silu_twin(exact[0], 32, *exact[1:3], channel_bias=exact[3])
    limit = 2e-5 if dtype == torch.float32 else 1e-2
    assert found.stride() == leaves[0].stride()
    assert relative(found, expected) < limit
    grad = torch.randn_like(found)
    pairs = torch.autograd.grad(found, leaves[:3], grad)
    wanted = torch.autograd.grad(expected, exact[:3], grad.double())
    assert all(relative(a, b) < 2 * limit for a, b in zip(pairs, wanted, strict=True))


def test_attention_and_biases_equal_plain_torch():
    query, key, value = torch.randn(3, 2, 1000, 512, device="cuda").bfloat16().unbind()
    plain = torch.nn.functional.scaled_dot_product_attention
    exact = plain(*(each.double()[:, None] for each in (query, key, value)))[:, 0]
    assert relative(attend(query, key, value), exact) < 1e-2
    x, residual = torch.randn(2, 1, 96, 33, 35, device="cuda").unbind()
    bias, more = torch.randn(2, 96, device="cuda").unbind()
    for layout in (torch.contiguous_format, torch.channels_last):
        arguments = (x.contiguous(memory_format=layout), residual, bias, more, 0.5)
        expected = add_biases_twin(*arguments)
        assert relative(add_biases(*arguments), expected) < 1e-6
        x = x.clone()


@pytest.mark.parametrize("compiled", [False, True])
def test_an_accelerated_vae_decodes_as_well_as_before(compiled):
    diffusers = pytest.importorskip("diffusers")
    vae = diffusers.AutoencoderKL(
        block_out_channels=(64, 512),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ).cuda()
    latent = torch.randn(1, 4, 24, 40, device="cuda")
    with torch.no_grad():
        exact = vae.decode(latent).sample
        vae.bfloat16()
        before = relative(vae.decode(latent.bfloat16()).sample, exact)
        accelerate_vae(vae, compile=compiled)
        after = relative(vae.decode(latent.bfloat16()).sample, exact)
    assert after < 1.1 * before
