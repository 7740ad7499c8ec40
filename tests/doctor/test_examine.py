import pytest

from pitstop.core.finding import Finding
from pitstop.core.machine import Gpu, Limits, Machine, Package
from pitstop.doctor.checks import check_machine
from pitstop.doctor.examine import examine


def rows(machine, *findings):
    return {check.item: check for check in check_machine(machine, findings)}


def test_healthy_machine():
    report = examine(Machine(packages=(Package("torch", "2.13.0+cpu"),)))
    assert report.verdict == "This machine is set up well."
    assert (report.why, report.next, report.findings) == ("", "", ())
    assert rows(report.machine)["torch"].value == "2.13.0+cpu, built for the CPU"


def test_machine_without_torch():
    report = examine(Machine())
    assert "torch is not installed" in report.verdict
    assert report.next == 'pip install "pitstop[torch]"'
    found = rows(report.machine)
    assert (found["torch"].status, found["gpu"].status) == ("n/a", "n/a")


def test_rows_say_what_the_finding_says_without_naming_the_item_twice():
    finding = Finding("torch 2.7.1 has no sm_120", item="torch", cure="pip", severity="error")
    row = rows(Machine(packages=(Package("torch", "2.7.1"),)), finding)["torch"]
    assert (row.status, row.value, row.cure) == ("FAIL", "2.7.1 has no sm_120", "pip")


def test_every_finding_has_a_row_even_two_of_one_item_and_one_of_a_missing_item():
    machine = Machine(
        start_method="spawn",
        cores=2,
        workers=8,
        gpus=(Gpu("RTX 4090", "8.9"),),
        packages=(Package("torch", "2.7.1", cuda="12.6"),),
    )
    report = examine(machine)
    shown = [check.code for check in report.checks if check.code]
    assert sorted(shown) == ["PIT004", "PIT006", "PIT011"]
    assert sorted(found.code for found in report.findings) == sorted(shown)


def test_note_stays_ok():
    report = examine(Machine(start_method="spawn", packages=(Package("torch", "2.13.0"),)))
    assert rows(report.machine, *report.findings)["workers"].status == "ok"
    assert report.verdict == "This machine is set up well."


@pytest.mark.parametrize(
    ("machine", "item"),
    [
        (Machine(packages=(Package("torch", "2.8.0+rocm6.4", hip="6.4"),)), "torch"),
        (Machine(system="Darwin", architecture="arm64", start_method="fork"), "gpu"),
    ],
)
def test_rocm_and_mps_are_said_to_be_untested(machine, item):
    row = rows(machine)[item]
    assert (row.status, "untested by Pitstop" in row.value) == ("n/a", True)


def test_unmeasured_limits_say_so():
    found = rows(Machine(limits=(Limits("cpu", fp32_flops=1.5e11, launch_us=0.84),)))
    assert found["cpu fp32"].value == "150 GFLOP/s"
    assert found["cpu launch"].value == "0.8 µs"
    for item in ("cpu fp16", "cuda copy", "cuda tf32", "cuda from pinned memory"):
        assert (found[item].status, found[item].value) == ("n/a", "n/a")


def test_limits_of_a_gpu():
    gpu = Limits("cuda:0", copy_bytes_per_s=4.3e12, bf16_flops=7.9e14)
    found = rows(Machine(limits=(Limits("cpu"), gpu)))
    assert found["cuda:0 copy"].value == "4.30 TB/s"
    assert found["cuda:0 bf16"].value == "790 TFLOP/s"
    assert "cuda copy" not in found


def test_driver_that_does_not_answer_is_named():
    assert rows(Machine(gpu_error="Driver Not Loaded"))["gpu"].value == (
        "none found (Driver Not Loaded)"
    )


def test_odd_values_of_a_strangers_recording_do_no_harm():
    gpu = Gpu("?" * 1000, "x.y", -1, "driver", "cuda", power_limit_watts=-1.0, pcie_width=-16)
    odd = Package("torch", "ñ", cuda="?", archs=("", "sm_", "sm_x", "compute_"), pins=("triton",))
    machine = Machine("", cores=-1, memory_bytes=-1, shared_memory_bytes=-5, workers=2**62,
                      batch_bytes=2**62, gpus=(gpu,), packages=(odd, odd, Package()))  # fmt: skip
    assert examine(machine).checks
