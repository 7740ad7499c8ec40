import pytest

from pitstop.scan.rules.pipeline_rebuilt import pipeline_rebuilt
from pitstop.scan.source import Source


def found_in(text):
    return pipeline_rebuilt(Source(f"import torch\nfrom diffusers import *\n{text}\n"))


LOAD = "FluxPipeline.from_pretrained(path)"


@pytest.mark.parametrize(
    "text",
    [
        f"pipe = {LOAD}",
        f"for batch in train_loader:\n    if self.pipe is None:\n        self.pipe = {LOAD}",
        f"for batch in train_loader:\n    if not hasattr(self, 'p'):\n        self.p = {LOAD}",
        "for path in paths:\n    pipe = FluxPipeline.from_pretrained(path)",  # another each time
        "for batch in train_loader:\n    t = CLIPTokenizer.from_pretrained(path)",  # small
        "for batch in train_loader:\n    s = DDIMScheduler.from_pretrained(path)",
        # Nothing large is left to load.
        "for b in train_loader:\n"
        "    FluxPipeline.from_pretrained(p, vae=vae, text_encoder=t, transformer=m)",
        "for b in train_loader:\n    FluxPipeline.from_pretrained(p, **parts)",
        # Loaded in turn, to save memory.
        "for b in train_loader:\n    FluxPipeline.from_pretrained(p, transformer=None)",
        "del vae\nfor epoch in range(9):\n    vae = AutoencoderKL.from_pretrained(p)",
        # A hook of accelerate that takes models off a list.
        "while models:\n    model = models.pop()\n    UNet2DModel.from_pretrained(folder)",
        "for i in ids:\n    if i == 1:\n        model = UNet2DModel.from_pretrained(folder)",
        f"@functools.cache\ndef load():\n    pipe = {LOAD}\nfor batch in train_loader:\n    load()",
        f"def load():\n    return {LOAD}\nfor batch in train_loader:\n    pipe = load()",
        f"def load():\n    pipe = {LOAD}\n"
        "def run(pipe):\n    if pipe is not None:\n        pass\n    else:\n        load()\n"
        "for batch in train_loader:\n    run(p)",
        "for b in train_loader:\n    if is_final:\n        m = UNet2DModel.from_pretrained(p)",
    ],
)
def test_leaves_alone(text):
    assert found_in(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"for prompt in prompts:\n    pipe = {LOAD}",
        "for b in train_loader:\n    FluxPipeline.from_pretrained(p, transformer=m)",
        "for b in train_loader:\n    net = torch.hub.load('intel-isl/MiDaS', 'MiDaS')",
        f"for epoch in range(9):\n    if epoch % 3 == 0:\n        pipe = {LOAD}",
        f"for e in range(9):\n    if prompt is not None and e % 3 == 0:\n        pipe = {LOAD}",
        f"def validate():\n    pipe = {LOAD}\n"
        "for step, b in enumerate(train_loader):\n    if step % 100 == 0:\n        validate()",
    ],
)
def test_finds(text):
    assert [found.code for found in found_in(text)] == ["PIT504"]


def test_says_why_and_how_often():
    text = f"def log():\n    p = {LOAD}\nfor i, b in enumerate(train_loader):\n    if i % 9 == 0:\n"
    (finding,) = found_in(text + "        log()")
    assert "called in the loop over train_loader" in finding.message
    assert finding.per == "validation"
