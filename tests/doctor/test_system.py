import pytest

from pitstop.doctor import system
from pitstop.doctor.gpus import throttle_reasons


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "garbage here\n"}, None),
        ({"cpu.max": "5 0\n"}, None),
        ({}, None),
    ],
)
def test_cpu_quota_of_a_container(tmp_path, files, quota):
    write(tmp_path, files)
    assert system.cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "2147483648\n"}, 2**31),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, None),  # v1's "no limit"
        ({"memory/memory.limit_in_bytes": "1073741824"}, 2**30),
        ({}, None),
    ],
)
def test_memory_limit_of_a_container(tmp_path, files, limit):
    write(tmp_path, files)
    assert system.memory_limit(tmp_path) == limit


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def test_container_limits_cut_down_what_the_machine_has(tmp_path, monkeypatch):
    write(tmp_path, {"cpu.max": "10000 100000", "memory.max": "1048576"})
    monkeypatch.setattr(system, "CGROUPS", tmp_path)
    assert system.usable_cores() == 1
    assert system.usable_memory() == 2**20


def test_a_system_without_affinity_or_shared_memory(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Windows")
    assert system.usable_cores() >= 1
    assert system.shared_memory() == (None, None)


def test_start_method_is_one_that_python_knows():
    assert system.start_method() in {"fork", "spawn", "forkserver"}


def test_an_idle_gpu_is_not_throttled():
    assert throttle_reasons(0x1) == ()
    assert throttle_reasons(0x1 | 0x4 | 0x40) == ("sw-power-cap", "hw-thermal-slowdown")
