import pytest

from pitstop.scan.rules.perceptual_input_not_normalised import perceptual_input_not_normalised
from pitstop.scan.source import Source

RAW = """import torch
import torchvision
class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.vgg = torchvision.models.vgg19(pretrained=True).features
        {extra}

    def forward(self, x, y):
        {first}
        return (self.vgg(x) - self.vgg(y)).abs().mean()
"""


def found(name="VGGLoss", extra="pass", first="pass"):
    return perceptual_input_not_normalised(Source(RAW.format(name=name, extra=extra, first=first)))


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "Backbone"},  # features for something else
        {"extra": "self.register_buffer('m', torch.tensor([0.485, 0.456, 0.406]))"},
        {"first": "x, y = self.normalize(x), self.normalize(y)"},
        {"first": "x, y = (x - self.mean) / self.std, (y - self.mean) / self.std"},
        {"extra": "self.scaling_layer = ScalingLayer()"},
        {"extra": "norm = torchvision.transforms.Normalize(a, b)"},
    ],
)
def test_leaves_alone(changed):
    assert found(**changed) == []


def test_finds_the_parts_of_a_network_in_a_loop():
    loop = "x = [level(x) for level in self.vgg]"
    (finding,) = found(first=loop)
    assert finding.span is not None
    assert finding.span.line == 10


def test_finds_the_first_use():
    (finding,) = found(first='"""Mean of distances."""')
    assert finding.span is not None
    assert finding.span.line == 11


LPIPS = """import lpips
criterion = lpips.LPIPS(net="vgg").to(device)
for image, gt in train_loader:
    loss = criterion({arguments}).mean()
    value = psnr({psnr})
    loss.backward()
"""


@pytest.mark.parametrize(
    ("arguments", "psnr", "count"),
    [
        ("image, gt", "image, gt", 1),
        ("image, gt", "image[None], gt[None]", 1),
        ("image, gt, normalize=True", "image, gt", 0),
        ("image * 2 - 1, gt * 2 - 1", "image, gt", 0),
        ("image, gt", "image / 2 + 0.5, gt / 2 + 0.5", 0),
        ("image, gt", "image, gt, 255", 0),
    ],
)
def test_lpips_wants_minus_one_to_one(arguments, psnr, count):
    text = LPIPS.format(arguments=arguments, psnr=psnr)
    assert len(perceptual_input_not_normalised(Source(text))) == count
