"""Doctor on a machine with an NVIDIA GPU. Skips itself elsewhere."""

import subprocess
import sys
from dataclasses import asdict

import pytest

from pitstop.doctor.gpus import read_gpus
from pitstop.doctor.limits import measure_in_child
from pitstop.doctor.packages import read_packages

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")


def test_capability_matches_torch():
    gpus, error = read_gpus()
    assert error == ""
    names = {gpu.name: gpu.capability for gpu in gpus}
    major, minor = torch.cuda.get_device_capability(0)
    assert names[torch.cuda.get_device_name(0)] == f"{major}.{minor}"


def test_build_of_torch_is_read_as_torch_tells_it():
    package = next(each for each in read_packages() if each.name == "torch")
    assert list(package.archs) == torch.cuda.get_arch_list()
    assert package.cuda == torch.version.cuda


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability(0) < (8, 0),
    reason="no TF32 or bf16 units",
)
def test_every_limit_of_the_gpu_is_measured():
    measured = measure_in_child()
    assert measured.doubt == ""
    _, gpu = measured.limits[:2]
    assert gpu.device == "cuda:0"
    numbers = {name: value for name, value in asdict(gpu).items() if name != "device"}
    assert all(value > 0 for value in numbers.values())
    assert numbers["copy_bytes_per_s"] > numbers["pinned_bytes_per_s"]
    assert numbers["fp16_flops"] > numbers["fp32_flops"]


def test_precision_is_restored_whichever_api_is_in_force():
    code = (
        "import torch\n"
        "from pitstop.doctor.measure import fp32_matrix_precision\n"
        "before = torch.backends.cuda.matmul.allow_tf32\n"
        "with fp32_matrix_precision('tf32') as took: assert took\n"
        "assert torch.backends.cuda.matmul.allow_tf32 == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
