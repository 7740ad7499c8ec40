"""Functions that launch kernels of their own get what they were written for, whatever changes."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tune.running import TRAINS, run
from tune.test_patch import NET, TRAIN, added, patched, write

KERNEL = '''
import ctypes
import torch

class Ramp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        """Weigh a picture by its columns."""
        return launch(x, x.new_zeros(x.shape, dtype=torch.float32))

    @staticmethod
    def backward(ctx, gradient):
        return launch(gradient, torch.zeros(gradient.shape))

def launch(source, target):
    """Read and write float32 row by row, with nothing but two addresses and a length."""
    read, written = (
        (ctypes.c_float * target.numel()).from_address(each.data_ptr()) for each in (source, target)
    )
    for place, number in enumerate(read):
        written[place] = number * (place % 8) / 8
    return target
'''  # what float32 and rows mean is known to nobody but the kernel
LEARNS = TRAINS.replace("Dropout(0.1)", "Dropout(0.0)").replace("import torch\n", KERNEL, 1)
LEARNS = LEARNS.replace("x = self.head(x)", "x = Ramp.apply(self.head(x))")
SCRIPT = f"{LEARNS}\ntrain(Model())\n"


SLOW = pytest.mark.slow  # real processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def plain(folder):
    numbers = run(folder, SCRIPT).numbers
    assert len(numbers) == 8
    return numbers


@SLOW
@pytest.mark.parametrize(
    ("changes", "rounds"),
    [
        (["channels-last"], 1e-4),
        (["channels-last", "bf16"], 0.03),
        (["bf16", "channels-last"], 0.03),
    ],
    ids=str,
)
def test_an_address_leads_to_float32_in_rows(changes, rounds, folder, plain):
    ran = run(folder, SCRIPT, *changes)
    assert ran.code == 0, ran.complained
    assert all(each.applied for each in ran.outcomes)
    assert ran.numbers == pytest.approx(plain, rel=rounds)


@SLOW
def test_an_author_who_thought_of_autocast_is_left_alone(folder):
    decorated = "@torch.amp.custom_fwd(device_type='cpu')\n    def forward(ctx, x):"
    source = SCRIPT.replace("def forward(ctx, x):", decorated).replace("launch(x,", "seen(x,")
    source = source.replace(
        "class Ramp", "def seen(x, _):\n    print(x.dtype)\n    return x * 1\n\nclass Ramp"
    )
    assert "torch.bfloat16" in run(folder, source, "bf16").printed


@SLOW
def test_functions_without_kernels_stay_in_half_precision(folder):
    source = SCRIPT.replace("return launch(x,", "print(x.dtype); return torch.add(x,")
    source = source.replace("each.data_ptr()", "each")
    assert "torch.bfloat16" in run(folder, source, "bf16").printed


def test_the_patch_writes_the_same_into_the_source(tmp_path):
    write(tmp_path, train=TRAIN, net=f"from ramp import Ramp\n{NET}", ramp=KERNEL)
    patch = patched(tmp_path, "bf16", "channels-last")
    lines = [line for line in added(patch) if "custom" in line or "contiguous()" in line]
    assert lines == [
        '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)',
        "        x = x.contiguous()",
        '    @torch.amp.custom_bwd(device_type="cuda")',
        "        gradient = gradient.contiguous()",
    ]
    assert not patched(tmp_path, "bf16", "channels-last").text
    text = (tmp_path / "ramp.py").read_text().replace('"cuda"', '"cpu"')
    (tmp_path / "ramp.py").write_text(text)
    check = """
import torch
from ramp import Ramp
x = torch.rand(2, 3, 8, 8)
plain = Ramp.apply(x)
with torch.autocast("cpu", dtype=torch.bfloat16):
    strange = x.to(memory_format=torch.channels_last).requires_grad_()
    out = Ramp.apply(strange)
assert torch.equal(out, plain)
out.backward(x.to(memory_format=torch.channels_last))
assert torch.equal(strange.grad, plain)
"""
    subprocess.run([sys.executable, "-c", check], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("inputs", "names"),
    [("x, size=3, *rest", "x, size, *rest"), ("*weights", "*weights,"), ("x, y", "x, y")],
)
def test_the_patch_knows_functions_of_several_inputs_and_of_any_number(tmp_path, inputs, names):
    several = KERNEL.replace("(ctx, x)", f"(ctx, {inputs})")
    write(tmp_path, train=TRAIN, net=f"from ramp import Ramp\n{NET}", ramp=several)
    lines = added(patched(tmp_path, "channels-last"))
    place = lines.index(f"        {names} = (")
    assert lines[place + 1 : place + 4] == [
        "            each.contiguous() if isinstance(each, torch.Tensor) else each",
        f"            for each in ({names})",
        "        )",
    ]


def test_one_line_has_no_room_for_another(tmp_path):
    short = KERNEL.replace(
        '(ctx, x):\n        """Weigh a picture by its columns."""\n        return',
        "(ctx, x): return",
    )
    assert "def forward(ctx, x): return" in short
    write(tmp_path, train=TRAIN, net=f"from ramp import Ramp\n{NET}", ramp=short)
    patch = patched(tmp_path, "channels-last")
    assert not patch.text
    assert "pitstop run" in patch.unplaced[0][1]


def test_functions_that_save_their_inputs_elsewhere_are_left_alone(tmp_path):
    newer = KERNEL.replace("(ctx, x)", "(x)") + "\n    "
    newer = newer.replace(
        "    @staticmethod\n    def backward",
        "    @staticmethod\n    def setup_context(ctx, inputs, output): pass\n\n"
        "    @staticmethod\n    def backward",
    )
    write(tmp_path, train=TRAIN, net=f"from ramp import Ramp\n{NET}", ramp=newer)
    assert "contiguous()" not in patched(tmp_path, "channels-last").text


def test_one_of_two_inputs_that_is_made_contiguous_is_not_both(tmp_path):
    half = KERNEL.replace("(ctx, x)", "(ctx, x, w)").replace(
        "        return launch(x", "        x = x.contiguous()\n        return launch(x"
    )
    write(tmp_path, train=TRAIN, net=f"from ramp import Ramp\n{NET}", ramp=half)
    assert "for each in (x, w)" in patched(tmp_path, "channels-last").text
