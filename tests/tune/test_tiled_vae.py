"""The change `tiled-vae`: which VAE it finds, what it does to it, and where the source gets it."""

import pytest

pytest.importorskip("torch")

import torch

from pitstop.core.evidence import Evidence, Step
from pitstop.core.finding import Finding
from pitstop.parts.tiled.quality import psnr
from pitstop.tune.change import Facts, find_change
from pitstop.tune.changes.tiled_vae import _tile, vae_around
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Wanted
from pitstop.tune.search.order import Choice, choose
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae

CHANGE = find_change("tiled-vae")
DECODES = Evidence(steps=(Step(total_ms=1.0),), step_kind="call")


class OneScript:
    """As much of the running script as the change asks for."""

    torch = torch

    def __init__(self, **options):
        self.options, self.times, self.switches = options, 0, []

    def switch(self, on, off):
        self.switches.append((on, off))
        on()

    def applied(self):
        self.times += 1


@pytest.fixture
def vae():
    torch.manual_seed(0)
    return VideoVae(VaeConfig((4, 8, 8), 1, 2, 4, temporal_levels=1)).eval()


def test_a_vae_is_found_by_the_part_that_is_called_first(vae):
    assert vae_around(vae.decoder, torch.nn.Module) is vae
    assert vae_around(vae, torch.nn.Module) is vae
    assert vae_around(torch.nn.Linear(2, 2), torch.nn.Module) is None


@torch.no_grad()
def test_it_switches_on_and_off_and_the_numbers_stay(vae):
    latent = torch.randn(1, 4, 2, 24, 20)
    expected = vae.decode(latent)
    script = OneScript(share=0.5)
    _tile(script, vae)
    assert script.times == 1
    assert "decode" in vars(vae)
    assert psnr(vae.decode(latent), expected) > 60
    ((on, off),) = script.switches
    off()
    assert torch.equal(vae.decode(latent), expected)
    on()
    off()
    assert "decode" not in vars(vae)


def test_it_is_tried_for_memory_and_where_tiles_are_found():
    facts = Facts(DECODES, "cuda")
    found = [Finding(changes=("tiled-vae",), saving=0.2, code="PIT614", confidence="measured")]
    for_memory = choose([CHANGE], (), facts, Choice("memory")).chosen
    assert [each.options for each in for_memory] == [({"share": 0.5}, {"share": 0.25})]
    assert choose([CHANGE], found, facts, Choice("memory")).chosen[0].code == "PIT614"
    assert not choose([CHANGE], (), facts, Choice("time")).chosen
    assert not choose([CHANGE], (), Facts(DECODES, "cpu"), Choice("memory")).chosen


def patch_of(tmp_path, source, share=0.25):
    (tmp_path / "decode.py").write_text(source)
    wanted = [Wanted("tiled-vae", {"share": share})]
    return make_patch(wanted, DECODES, ["decode.py"], tmp_path)


def added(patch):
    return [line[1:] for line in patch.text.splitlines() if line[:1] == "+" and line[:2] != "++"]


def test_the_source_gets_one_line_behind_the_vae_and_an_import(tmp_path):
    source = (
        "from diffusers import AutoencoderKL\n\n"
        'vae = AutoencoderKL.from_pretrained("there")\nvae.eval()\n'
        "image = vae.decode(latent).sample\ntext = tokenizer.decode(tokens)\n"
    )
    patch = patch_of(tmp_path, source)
    assert added(patch) == [
        "from pitstop.parts import Tiling, enable_tiling",
        "enable_tiling(vae, Tiling(share=0.25))",
    ]
    assert patch.text.index(" vae.eval()") < patch.text.index("+enable_tiling")
    again = source.replace("vae.eval()\n", "vae.eval()\nenable_tiling(vae, Tiling(share=0.5))\n")
    assert patch_of(tmp_path, again).text == ""


def test_a_vae_that_the_source_does_not_build_by_name_is_left_to_the_user(tmp_path):
    patch = patch_of(tmp_path, "image = pipe(prompt).images[0]\n")
    assert patch.text == ""
    ((_, reason),) = patch.unplaced
    assert "write enable_tiling(vae, Tiling(share=0.25))" in reason
