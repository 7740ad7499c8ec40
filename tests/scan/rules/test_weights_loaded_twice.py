import pytest

from pitstop.scan.rules.weights_loaded_twice import weights_loaded_twice
from pitstop.scan.source import Source


def found_in(text, path=""):
    return weights_loaded_twice(Source(f"import torch\nfrom diffusers import *\n{text}\n", path))


@pytest.mark.parametrize(
    "text",
    [
        "a = FluxPipeline.from_pretrained(p)\nb = FluxPipeline.from_pretrained(q)",
        "a = FluxPipeline.from_pretrained(p)\nb = FluxPipeline.from_pretrained(p, vae=a.vae)",
        "a = FluxPipeline.from_pretrained(p)\nb = FluxPipeline.from_pretrained(p, **a.components)",
        "a = Flux.from_pretrained(p, vae=None)\nb = FluxPipeline.from_pretrained(p)",
        # Only one of the two runs.
        "if x:\n    a = FluxPipeline.from_pretrained(p)\n"
        "else:\n    b = FluxPipeline.from_pretrained(p)",
        "try:\n    a = FluxPipeline.from_pretrained(p)\n"
        "except OSError:\n    b = FluxPipeline.from_pretrained(p)",
        # Not the same weights.
        "u = UNet2DModel.from_pretrained(p, subfolder='a')\n"
        "v = UNet2DModel.from_pretrained(p, subfolder='b')",
        "u = UNet2DModel.from_pretrained(p)\np = other\nv = UNet2DModel.from_pretrained(p)",
        # A copy that is averaged or compared with.
        "u = UNet2DModel.from_pretrained(p)\nema_u = UNet2DModel.from_pretrained(p)",
        "u = UNet2DModel.from_pretrained(p)\nteacher = UNet2DModel.from_pretrained(p)",
        "a = CLIPTokenizer.from_pretrained(p)\nb = CLIPTokenizer.from_pretrained(p)",
        "def f():\n    a = FluxPipeline.from_pretrained(p)\n"
        "def g():\n    a = FluxPipeline.from_pretrained(p)",
        "a = torch.load(p)\nb = torch.load(q)",
        "if x:\n    a = torch.load(p)\nelse:\n    a = torch.load(p)",
    ],
)
def test_leaves_alone(text):
    assert found_in(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "a = FluxPipeline.from_pretrained(p)\n"
            "b = FluxImg2ImgPipeline.from_pretrained(p, torch_dtype=d)",
            4,
        ),
        ("u = UNet2DModel.from_pretrained(p)\nv = UNet2DModel.from_pretrained(p)", 4),
        ("m.load_state_dict(torch.load(p)['m'])\no.load_state_dict(torch.load(p)['o'])", 4),
        ("c = torch.load(p)\nif 'ema' in c:\n    m.load_state_dict(torch.load(p)['ema'])", 5),
        ("a = FluxPipeline.from_pretrained(p)\nif x:\n    b = FluxPipeline.from_pretrained(p)", 5),
    ],
)
def test_finds_the_second(text, line):
    (finding,) = found_in(text)
    assert (finding.code, finding.span.line, finding.per) == ("PIT505", line, "start")


def test_quiet_in_tests():
    text = "u = UNet2DModel.from_pretrained(p)\nv = UNet2DModel.from_pretrained(p)"
    assert found_in(text, "tests/test_unet.py") == []
