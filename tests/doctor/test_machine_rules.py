"""The edges of the machine rules; their plain cases are in their own documentation."""

from dataclasses import replace

import pytest

from pitstop.core.machine import Gpu, Machine, Package
from pitstop.doctor.rules.cpu_build_beside_a_gpu import cpu_build_beside_a_gpu
from pitstop.doctor.rules.driver_older_than_cuda_build import driver_older_than_cuda_build
from pitstop.doctor.rules.extension_built_for_other_arch import extension_built_for_other_arch
from pitstop.doctor.rules.gpu_arch_not_in_cupy import gpu_arch_not_in_cupy
from pitstop.doctor.rules.gpu_arch_not_in_torch_build import gpu_arch_not_in_torch_build
from pitstop.doctor.rules.gpu_throttled import gpu_throttled
from pitstop.doctor.rules.more_workers_than_cores import more_workers_than_cores
from pitstop.doctor.rules.package_import_fails import package_import_fails
from pitstop.doctor.rules.shared_memory_too_small import shared_memory_too_small
from pitstop.doctor.rules.torchvision_built_for_other_torch import (
    torchvision_built_for_other_torch,
)
from pitstop.doctor.rules.triton_missing import triton_missing
from pitstop.doctor.rules.workers_start_by_spawn import workers_start_by_spawn

MIB = 2**20
BLACKWELL = Gpu("RTX 5070", "12.0", driver="576.80", driver_cuda="12.9")
ADA = Gpu("RTX 4090", "8.9", driver="535.183.01", driver_cuda="12.2")


def machine(*packages, gpu=BLACKWELL, **facts):
    return Machine(gpus=(gpu,), packages=packages, **facts)


def test_ptx_alone_is_a_warning():
    torch = Package("torch", "2.6.0", cuda="12.4", archs=("sm_90", "compute_90"))
    (found,) = gpu_arch_not_in_torch_build(machine(torch))
    assert (found.severity, found.item) == ("warning", "torch")
    assert "only PTX" in found.message


def test_code_of_the_same_major_version_is_enough():
    torch = Package("torch", "2.6.0", cuda="12.4", archs=("sm_80",))
    assert gpu_arch_not_in_torch_build(machine(torch, gpu=ADA)) == []


def test_a_gpu_that_new_builds_left_behind_gets_an_older_cuda():
    torch = Package("torch", "2.9.0+cu128", cuda="12.8", archs=("sm_75", "sm_120"))
    (found,) = gpu_arch_not_in_torch_build(machine(torch, gpu=Gpu("GTX 1080", "6.1")))
    assert found.cure.endswith("/cu126")


def test_equal_gpus_give_one_finding_and_torchvision_comes_along():
    torch = Package("torch", "2.7.1+cu118", cuda="11.8", archs=("sm_90",))
    box = Machine(gpus=(BLACKWELL, BLACKWELL), packages=(torch, Package("torchvision", "0.22.1")))
    (found,) = gpu_arch_not_in_torch_build(box)
    assert "torch torchvision --index-url" in found.cure


@pytest.mark.parametrize(
    "box",
    [
        Machine(),
        Machine(gpus=(BLACKWELL,)),
        Machine(gpus=(BLACKWELL,), packages=(Package("torch", "2.7.1", cuda="12.8"),)),
        Machine(packages=(Package("torch", "2.7.1", cuda="11.8", archs=("sm_90",)),)),
    ],
)
def test_unknown_builds_are_left_alone(box):
    assert gpu_arch_not_in_torch_build(box) == []
    assert gpu_arch_not_in_cupy(box) == []
    assert extension_built_for_other_arch(box) == []


def test_cupy_that_compiles_but_has_no_code_for_sort_and_random():
    cupy = Package("cupy", "13.3.0", archs=("sm_90",), jit_archs=("sm_90", "sm_120"))
    (found,) = gpu_arch_not_in_cupy(machine(cupy))
    assert (found.severity, "only sm_90" in found.message) == ("error", True)


def test_cupy_wheel_fits_the_driver():
    cupy = Package("cupy", "13.3.0", distribution="cupy-cuda12x", jit_archs=("sm_90",))
    newer = replace(BLACKWELL, driver_cuda="13.0")
    assert "cupy-cuda13x" in gpu_arch_not_in_cupy(machine(cupy, gpu=newer))[0].cure
    assert "uninstall" not in gpu_arch_not_in_cupy(machine(cupy))[0].cure


@pytest.mark.parametrize(
    ("torch", "vision", "severity"),
    [
        ({"version": "2.7.1"}, {"built_for_torch": "2.7.0"}, "warning"),  # near enough to import
        ({"version": "2.7.1"}, {"built_for_torch": "2.7.0", "error": "undefined symbol"}, "error"),
        ({"version": "2.7.1", "cuda": "12.8"}, {"version": "0.22.1+cpu"}, "error"),
        ({"version": "2.7.1", "cuda": "12.6"}, {"cuda": "11.8"}, "error"),
        ({"version": "2.7.1", "cuda": "12.8"}, {"cuda": "12.6"}, None),
        ({"version": "2.7.1+cu128"}, {"built_for_torch": "2.7.1"}, None),
        ({"version": "2.7.1"}, {}, None),
    ],
)
def test_torchvision_against_torch(torch, vision, severity):
    packages = (Package("torch", **torch), Package("torchvision", **vision))
    found = torchvision_built_for_other_torch(Machine(packages=packages))
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_triton_install_line_per_system():
    torch = Package("torch", "2.8.0+cu128", cuda="12.8", pins=("triton==3.4.0",))
    assert triton_missing(machine(torch))[0].cure.startswith("pip install triton==3.4.0 ")
    assert "triton-windows==3.4.*" in triton_missing(machine(torch, system="Windows"))[0].cure
    unknown = replace(torch, version="2.13.0", pins=())
    assert triton_missing(machine(unknown))[0].cure == 'pip install "triton"'


@pytest.mark.parametrize(
    "box",
    [
        machine(Package("torch", "2.7.1")),  # a CPU build has no use for it
        machine(Package("torch", "2.7.1", cuda="12.6"), gpu=Gpu("GTX 1080", "6.1")),
        Machine(packages=(Package("torch", "2.7.1", cuda="12.6"),)),
    ],
)
def test_triton_is_not_missed_where_it_cannot_help(box):
    assert triton_missing(box) == []


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        ({"shared_memory_bytes": 64 * MIB}, "warning"),
        ({"shared_memory_bytes": 65 * MIB}, None),
        ({"shared_memory_bytes": 64 * MIB, "workers": 0}, None),
        ({"shared_memory_bytes": 64 * MIB, "workers": 2, "batch_bytes": 16 * MIB}, None),
        ({"shared_memory_bytes": 64 * MIB, "workers": 2, "batch_bytes": 17 * MIB}, "error"),
        (
            {
                "shared_memory_bytes": 8192 * MIB,
                "shared_memory_free_bytes": MIB,
                "workers": 1,
                "batch_bytes": MIB,
            },
            "error",
        ),
        ({"shared_memory_bytes": None, "workers": 8, "batch_bytes": 999 * MIB}, None),
    ],
)
def test_shared_memory_against_what_the_workers_hold(facts, severity):
    found = shared_memory_too_small(Machine(**facts))
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_shared_memory_grows_to_twice_the_need():
    (found,) = shared_memory_too_small(
        Machine(shared_memory_bytes=2**30, workers=16, batch_bytes=500 * MIB, container=True)
    )
    assert "--shm-size=32g" in found.cure
    (outside,) = shared_memory_too_small(Machine(shared_memory_bytes=64 * MIB))
    assert outside.cure == "sudo mount -o remount,size=8G /dev/shm"


@pytest.mark.parametrize(
    ("method", "workers", "severity"),
    [
        ("spawn", None, "note"),
        ("forkserver", 4, "warning"),
        ("spawn", 0, None),
        ("fork", 4, None),
    ],
)
def test_workers_that_start_anew(method, workers, severity):
    found = workers_start_by_spawn(Machine(start_method=method, workers=workers))
    assert [each.severity for each in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("cuda", "archs", "found"),
    [
        ("13.0", (), 1),
        ("12.8", ("sm_80",), 0),  # the same major version
        ("12.8", ("compute_80",), 1),  # but its PTX is too new for the driver to compile
        ("12.2", ("compute_80",), 0),
        ("11.8", (), 0),
        ("", (), 0),
    ],
)
def test_driver_against_the_build(cuda, archs, found):
    torch = Package("torch", "2.11.0", cuda=cuda, archs=archs)
    assert len(driver_older_than_cuda_build(machine(torch, gpu=ADA))) == found


def test_driver_too_old_for_cupy_says_which_driver():
    cupy = Package("cupy", "14.2.0", cuda="13.0")
    (found,) = driver_older_than_cuda_build(machine(cupy, gpu=ADA))
    assert (found.item, "580" in found.cure) == ("cupy", True)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (Gpu("a", throttle_reasons=("hw-thermal-slowdown",), temperature_celsius=93), ["93 °C"]),
        (Gpu("a", throttle_reasons=("hw-power-brake-slowdown",)), ["power supply"]),
        (Gpu("a", power_limit_watts=250, default_power_limit_watts=350), ["250 W"]),
        (Gpu("a", power_limit_watts=349, default_power_limit_watts=350), []),
        (Gpu("a", throttle_reasons=("sw-power-cap",)), []),  # normal at full load
        (Gpu("a", pcie_generation=1, max_pcie_generation=5), []),  # normal when idle
        (Gpu("a", throttle_reasons=("applications-clocks-setting",)), ["setting"]),
    ],
)
def test_reasons_to_call_a_gpu_throttled(gpu, words):
    found = gpu_throttled(Machine(gpus=(Gpu("other"), gpu)))
    assert [word for each, word in zip(found, words, strict=True) if word in each.message] == words
    assert all(each.item == "gpu 1" for each in found)


def test_extension_compiled_by_the_user_is_compiled_again_for_this_gpu():
    flash = Package("flash-attn", "2.7.4", archs=("sm_80", "sm_90"))
    (found,) = extension_built_for_other_arch(machine(flash))
    assert found.cure.startswith("TORCH_CUDA_ARCH_LIST=12.0 pip install")
    (windows,) = extension_built_for_other_arch(machine(flash, system="Windows"))
    assert windows.cure.startswith("set TORCH_CUDA_ARCH_LIST=12.0 && pip install")


def test_cached_torch_extension_is_deleted():
    cached = Package("torch extension gsplat_cuda", archs=("sm_89",))
    (found,) = extension_built_for_other_arch(machine(cached))
    assert "delete gsplat_cuda" in found.cure


def test_torchvision_without_the_arch_is_left_to_torch():
    vision = Package("torchvision", "0.22.1+cu118", archs=("sm_90",))
    assert extension_built_for_other_arch(machine(vision)) == []


@pytest.mark.parametrize(
    "torch",
    [
        Package("torch", "2.7.1", cuda="12.8"),
        Package("torch", "2.8.0+rocm6.4", hip="6.4"),
        Package("torch", "2.7.1", error="OSError: libcudart"),  # then its build is unknown
    ],
)
def test_not_a_cpu_build(torch):
    assert cpu_build_beside_a_gpu(machine(torch)) == []


def test_as_many_workers_as_cores_are_fine():
    assert more_workers_than_cores(Machine(cores=8, workers=8)) == []
    assert more_workers_than_cores(Machine(cores=8)) == []
    assert more_workers_than_cores(Machine(workers=8)) == []  # cores unknown


def test_broken_torch_explains_what_stands_on_it():
    broken = [Package(name, "1.0", error="OSError: no") for name in ("torch", "xformers", "cupy")]
    found = package_import_fails(Machine(packages=tuple(broken)))
    assert [each.item for each in found] == ["torch", "cupy"]


def test_torchvision_for_another_torch_is_told_once():
    torch = Package("torch", "2.7.1")
    vision = Package("torchvision", "0.21.0", built_for_torch="2.6.0", error="RuntimeError: nms")
    box = Machine(packages=(torch, vision))
    assert package_import_fails(box) == []
    assert torchvision_built_for_other_torch(box)[0].severity == "error"


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (Package("torchvision", "0.22.1", error="x"), "torch==2.7.1 torchvision --index-url"),
        (Package("bitsandbytes", "0.45", error="x"), "--no-deps bitsandbytes"),
        (Package("gsplat", "1.5.3", error="x"), "--no-build-isolation"),
        (Package("cupy", "14.2.0", "cupy-cuda12x", error="x"), '"cupy-cuda12x[ctk]"'),
    ],
)
def test_broken_package_is_installed_anew_without_touching_torch(package, words):
    torch = Package("torch", "2.7.1+cu126", cuda="12.6")
    (found,) = package_import_fails(Machine(packages=(torch, package)))
    assert words in found.cure
