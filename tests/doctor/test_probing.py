"""Packages are probed for real, the broken ones too: none of them may take doctor along."""

import os
import subprocess
import sys

import pytest

from pitstop.doctor.extensions import read_extensions
from pitstop.doctor.packages import Known, exact_pins, probe_module, read_packages

XFORMERS = Known("xformers", "xformers", ("no-such-distribution",))
LIMIT_SECONDS = 30.0


@pytest.fixture
def fake_xformers(tmp_path, monkeypatch):
    """Install a package named xformers whose ``__init__.py`` is the given code."""

    def install(code):
        folder = tmp_path / "xformers"
        folder.mkdir()
        (folder / "__init__.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(tmp_path)

    return install


def probed(limit_seconds=LIMIT_SECONDS):
    (package,) = read_packages((XFORMERS,), limit_seconds)
    return package


def test_package_that_raises_keeps_its_last_error_line(fake_xformers):
    fake_xformers("raise ImportError('long story\\nlibcudart.so.11: not found')")
    assert probed().error == "ImportError: libcudart.so.11: not found"


def test_package_that_exits_is_a_fact(fake_xformers):
    fake_xformers("import sys\nsys.exit('no GPU')")
    assert probed().error == "SystemExit: no GPU"


def test_package_that_kills_its_process_is_a_fact(fake_xformers):
    fake_xformers(
        "import os, sys\nsys.stderr.write('bad symbol\\n')\nsys.stderr.flush()\nos._exit(139)"
    )
    assert probed().error == "ended Python at import with exit code 139: bad symbol"


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_package_that_crashes_names_the_signal(fake_xformers):
    fake_xformers("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert probed().error == "crashed at import with SIGSEGV"


def test_package_that_hangs_is_given_up(fake_xformers):
    fake_xformers("import time\ntime.sleep(600)")
    assert probed(1.0).error == "import did not finish in 1 s"


def test_what_a_package_prints_does_not_matter(fake_xformers):
    fake_xformers("print('welcome {}')\n__version__ = '1.2'")
    facts = probe_module("xformers", LIMIT_SECONDS)
    assert facts["version"] == "1.2"
    assert facts["error"].startswith("ModuleNotFoundError")  # no _cpp_lib in the fake


def test_package_that_is_not_installed_is_not_probed():
    assert read_packages((Known("nothing", "no_such_module", ("no-such-distribution",)),)) == ()


def test_folder_of_that_name_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "gsplat").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert read_packages((Known("gsplat", "gsplat", ("no-such-distribution",)),)) == ()


def test_pins_are_read_from_the_metadata():
    requires = ["torch==2.7.1", "numpy", "triton==3.3.1; platform_system == 'Linux'", "torch>=2"]
    assert exact_pins(requires) == ("torch==2.7.1", "triton==3.3.1")
    assert exact_pins(["torch (==2.0.1)"]) == ("torch==2.0.1",)


def test_no_cached_extensions_without_a_cuda_build(tmp_path):
    assert read_extensions("", tmp_path) == ()
    assert read_extensions("12.8", tmp_path / "missing") == ()


def test_reading_the_machine_imports_no_torch():
    code = (
        "import sys\n"
        "from pitstop.doctor.read import read_machine\n"
        "machine = read_machine(workers=2, batch_bytes=1024)\n"
        "assert 'torch' not in sys.modules\n"
        "print(machine.cores > 0, machine.memory_bytes > 0, machine.workers, machine.start_method)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert child.stdout.startswith("True True 2 ")
