import pytest
import torch
from diffusers import AutoencoderKL, UNet2DModel
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import ViTConfig, ViTForImageClassification

from pitstop.core.errors import PitstopError
from pitstop.parts import memory_estimate
from pitstop.parts.peak import peak_of

CPU = torch.device("cpu")


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.second(self.relu(self.norm(self.first(x)))) + self.short(x))


class Checkpointed(nn.Sequential):
    def forward(self, x):
        for each in self:
            x = checkpoint(each, x, use_reentrant=False)
        return x


def resnet():
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3), Residual(16, 16), Residual(16, 32, 2), head)


def vit():
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
        )
    )


def unet():
    return UNet2DModel(
        sample_size=16,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        norm_num_groups=4,
    )


def vae():
    return AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
    )


def checkpointed():
    return Checkpointed(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)))


MODELS = {
    "resnet": (resnet, (3, 3, 32, 32)),
    "vit": (vit, (3, 3, 32, 32)),
    "unet": (unet, (2, 3, 16, 16)),
    "vae": (vae, (2, 3, 16, 16)),
    "checkpointed": (checkpointed, (256, 64)),
}
OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "momentum": lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9),
}


def scene(name):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    x = torch.randn(shape)
    return make(), {"sample": x, "timestep": torch.ones(2)} if name == "unet" else x


def called(model, batch):
    return model(**batch) if isinstance(batch, dict) else model(batch)


def number(output):
    first = output if isinstance(output, torch.Tensor) else next(iter(output.values()))
    return first.square().mean()


def standing_bytes(model, batch):
    tensors = batch.values() if isinstance(batch, dict) else [batch]
    weights = [*model.parameters(), *model.buffers()]
    return sum(each.nbytes for each in (*tensors, *weights))


def measured(model, batch, optimizer, accumulate=1):
    """The most bytes alive in two real steps, counted by other code than the estimate's."""

    def steps():
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(accumulate):
                loss = number(called(model, batch))
                (loss / accumulate if accumulate > 1 else loss).backward()
                del loss
            optimizer.step()

    return standing_bytes(model, batch) + peak_of(steps, CPU).most_bytes


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_living_bytes_of_a_real_step(name, optimizer):
    model, batch = scene(name)
    made = OPTIMIZERS[optimizer](model.parameters())
    estimate = memory_estimate(model, batch, optimizer=made, loss=number, on="cpu")
    assert estimate.peak_bytes == measured(model, batch, made)
    assert sum(estimate.kinds.values()) == estimate.peak_bytes
    assert sum(each.bytes for each in estimate.modules) == estimate.peak_bytes


def test_equals_a_real_step_that_accumulates():
    model, batch = scene("resnet")
    made = torch.optim.AdamW(model.parameters())
    estimate = memory_estimate(model, batch, made, loss=number, accumulate=3, on="cpu")
    assert estimate.peak_bytes == measured(model, batch, made, accumulate=3)


@pytest.mark.parametrize("name", MODELS)
def test_equals_a_real_call_without_gradients(name):
    model, batch = scene(name)
    estimate = memory_estimate(model.eval(), batch, on="cpu")
    with torch.no_grad():
        most = peak_of(lambda: called(model, batch), CPU).most_bytes
    assert estimate.peak_bytes == standing_bytes(model, batch) + most


def test_equals_what_autograd_saves():
    model, batch = scene("resnet")
    known = {
        each.untyped_storage()._cdata for each in (*model.parameters(), *model.buffers(), batch)
    }
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
        loss = number(model(batch))
    estimate = memory_estimate(model, batch, loss=number, on="cpu")
    saved = sum(each.nbytes() for each in kept.values())
    assert loss.requires_grad
    # The loss is there as well, and the one that its backward pass begins with.
    assert estimate.kept_bytes == saved + 2 * loss.nbytes


def test_checkpoints_hold_less():
    plain = nn.Sequential(*checkpointed())
    batch = torch.randn(256, 64)
    kinds = [
        memory_estimate(each, batch, torch.optim.SGD, on="cpu").kept_bytes
        for each in (plain, Checkpointed(*plain))
    ]
    assert kinds[1] < 0.6 * kinds[0]


def test_autocast_on_the_cpu_equals_a_real_step():
    model, batch = scene("vit")
    made = torch.optim.SGD(model.parameters())
    with torch.autocast("cpu", torch.bfloat16):
        estimate = memory_estimate(model, batch, made, loss=number, on="cpu")

    def steps():
        for _ in range(2):
            made.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = number(model(batch))
            loss.backward()
            del loss
            made.step()

    real = standing_bytes(model, batch) + peak_of(steps, CPU).most_bytes
    assert estimate.peak_bytes == real
    assert not torch.is_autocast_enabled("cpu")


def test_leaves_all_as_it_was():
    model, batch = scene("resnet")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters())
    before = {name: each.clone() for name, each in model.state_dict().items()}
    memory_estimate(model, batch, optimizer, autocast=torch.bfloat16)
    assert not optimizer.state
    assert all(each.grad is None for each in model.parameters())
    assert all(not each._forward_hooks for each in model.modules())
    for name, each in model.state_dict().items():
        torch.testing.assert_close(each, before[name], rtol=0, atol=0)
    assert torch.Tensor.__deepcopy__.__module__ == "torch._tensor"


def test_on_cuda_dropout_keeps_bytes_and_attention_no_scores():
    dropout = nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.5), nn.Linear(256, 256))
    batch = torch.randn(4096, 256)
    cpu, cuda = (
        memory_estimate(dropout, batch, torch.optim.SGD, on=on).kept_bytes for on in ("cpu", "cuda")
    )
    numbers = batch.numel()
    assert cpu - cuda == pytest.approx(3 * numbers, abs=2**20)  # a mask of floats, or of bytes


def test_autocast_on_cuda_computes_norms_in_fp32():
    model = nn.Sequential(nn.Linear(64, 512), nn.LayerNorm(512), nn.Linear(512, 8))
    batch = torch.randn(4096, 64)
    with_norm = memory_estimate(model, batch, torch.optim.SGD, autocast=torch.bfloat16)
    numbers = 4096 * 512
    # Kept: the linear's result in bf16 and, for the norm, in fp32; the norm's result in bf16.
    kept = numbers * (4 + 2)
    assert with_norm.kept_bytes == pytest.approx(kept, rel=0.1)


def test_says_whose_memory_it_is():
    model, batch = scene("resnet")
    estimate = memory_estimate(model, batch, torch.optim.AdamW)
    assert {each.name for each in estimate.modules} >= {"0", "1.first", "1.norm", "3.2"}
    assert any(each.name.startswith(__file__) for each in estimate.lines)
    text = str(estimate)
    assert text.startswith("peak of a training step: ")
    assert "optimizer state" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accumulate": 0}, "from 1 on"),
        ({"on": "tpu"}, '"cuda" or "cpu"'),
        ({"batch": torch.ones(3, 5)}, "the step failed with stand-ins"),
    ],
)
def test_refuses_in_one_line(change, said):
    model, batch = scene("resnet")
    with pytest.raises(PitstopError, match=said) as refused:
        memory_estimate(**{"model": model, "batch": batch, **change})
    assert "\n" not in str(refused.value)


def test_refuses_decisions_by_value_and_takes_a_real_step():
    class Decides(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum().item() > 0 else -x)

    model, batch = Decides(8, 8), torch.ones(2, 8)
    with pytest.raises(PitstopError, match="dry_run=True"):
        memory_estimate(model, batch, torch.optim.SGD)
    before = model.weight.detach().clone()
    estimate = memory_estimate(model, batch, torch.optim.SGD, on="cpu", dry_run=True)
    assert estimate.kinds["parameters"] == (64 + 8) * 4
    assert torch.equal(model.weight, before)


def test_refuses_what_cannot_be_trained():
    model = nn.Linear(2, 2).requires_grad_(requires_grad=False)
    with pytest.raises(PitstopError, match="no parameter"):
        memory_estimate(model, torch.ones(1, 2), loss=lambda out: out.sum())
