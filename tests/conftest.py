"""What every test shares: one thread each, a cache folder of its own, no colour."""

import os
import sys
from pathlib import Path

import pytest

from pitstop.cli import agent
from pitstop.core.machine import Limits
from pitstop.doctor import limits
from pitstop.doctor.read import read_hardware

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two test processes share two cores
os.environ["NO_COLOR"] = "1"
for name in agent.KNOWN:  # one may run these tests, and would get its own format
    os.environ.pop(name, None)
if not Path("/dev/nvidiactl").exists():  # Triton reads it when a kernel is defined
    os.environ["TRITON_INTERPRET"] = "1"
CEILINGS = Limits("cpu", copy_bytes_per_s=2e10, fp32_flops=1e11, launch_us=5.0)


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory):
    """Keep the user's cache out of the tests, and the tests out of the user's cache.

    It holds ceilings of this machine from the start: measured beside other tests they would be
    wrong, would not be kept, and so be measured again in every run that is profiled.
    """
    os.environ["PITSTOP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    limits.keep(limits.cache_path(read_hardware()), (CEILINGS,))


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """What a test compiled or switched for its whole process is as before, for the next one."""
    handover = sys.getswitchinterval()
    yield
    sys.setswitchinterval(handover)
    if (dynamo := sys.modules.get("torch._dynamo")) and dynamo.eval_frame.cached_backends:
        dynamo.reset()
    if torch := sys.modules.get("torch"):
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = False
