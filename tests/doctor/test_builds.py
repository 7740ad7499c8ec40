import pytest

from pitstop.core.machine import Gpu, Machine, Package
from pitstop.doctor.builds import (
    arch_span,
    driver_cuda,
    one_per_capability,
    runs_as,
    same_index,
    torch_index,
    version_of,
)


@pytest.mark.parametrize(
    ("capability", "archs", "code"),
    [
        ("8.0", ("sm_80",), "binary"),
        ("8.9", ("sm_80",), "binary"),  # machine code runs on later minor versions
        ("8.0", ("sm_86",), "none"),  # but not on earlier ones
        ("9.0", ("sm_80", "sm_86"), "none"),  # nor on another major version
        ("12.0", ("sm_90", "compute_90"), "ptx"),
        ("12.0", ("sm_120",), "binary"),
        ("12.1", ("sm_120",), "binary"),
        ("9.0", ("sm_90a",), "binary"),
        ("10.0", ("sm_90a", "compute_90a"), "none"),  # an "a" ties code to its chip
        ("10.3", ("sm_100f",), "binary"),
        ("12.0", ("sm_100f", "compute_100f"), "none"),
        ("7.0", ("sm_75", "compute_120"), "none"),  # PTX goes forward only
        ("9.0", (), None),
        ("", ("sm_90",), None),
        ("new", ("sm_90",), None),
        ("9.0", ("gfx90a",), "none"),
    ],
)
def test_how_code_runs_on_a_gpu(capability, archs, code):
    assert runs_as(capability, archs) == code


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.7.1+cu118", (2, 7, 1)), ("2.8.0a0+git", (2, 8, 0)), ("", ()), ("nightly", ())],
)
def test_versions(text, version):
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("gpu", "index"),
    [
        (Gpu(capability="12.0"), "cu128"),
        (Gpu(capability="10.0", driver_cuda="13.0"), "cu128"),
        (Gpu(capability="11.0"), "cu130"),
        (Gpu(capability="8.6", driver_cuda="12.2"), "cu128"),
        (Gpu(capability="6.1", driver_cuda="12.8"), "cu126"),  # later builds leave Pascal out
        (Gpu(capability="8.6", driver="470.57"), "cu118"),
        (Gpu(), "cu128"),
    ],
)
def test_wheels_that_fit_gpu_and_driver(gpu, index):
    assert torch_index(gpu) == index


@pytest.mark.parametrize(
    ("gpu", "version"),
    [
        (Gpu(driver="535.183.01", driver_cuda="12.2"), (12, 2)),
        (Gpu(driver="535.183.01"), (12, 0)),
        (Gpu(driver="390.1"), ()),
        (Gpu(), ()),
    ],
)
def test_what_a_driver_runs(gpu, version):
    assert driver_cuda(gpu) == version


def test_index_of_the_installed_torch():
    assert same_index(Package("torch", "2.7.1+cu126")).endswith("/whl/cu126")
    assert same_index(Package("torch", "2.7.1")) == ""
    assert same_index(Package("torch", "2.7.1+git1234")) == ""


def test_archs_in_short():
    assert arch_span(("sm_90", "sm_37", "sm_120", "compute_120")) == "sm_37 to sm_120 and PTX"
    assert arch_span(("sm_80",)) == "sm_80"
    assert arch_span(("compute_90",)) == "PTX"
    assert arch_span(()) == ""


def test_gpus_of_one_kind_count_once():
    first, second, other = Gpu("a", "9.0"), Gpu("b", "9.0"), Gpu("c", "8.0")
    assert one_per_capability(Machine(gpus=(first, second, other))) == [first, other]
