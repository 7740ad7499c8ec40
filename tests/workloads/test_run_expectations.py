"""What a short run of the five systems on a CPU must show, and what it must not.

Each system is recorded once, as a user would: unedited, small, a dozen steps. What only a GPU or
a longer run shows is left to those.
"""

import sys

import pytest

from pitstop.core.machine import Limits, Machine
from pitstop.diagnose.rank import diagnose
from pitstop.diagnose.recording import Recording
from pitstop.profile.read.collect import collect
from pitstop.profile.start import launch
from pitstop.profile.start.options import Options
from pitstop.workloads import bench, expect

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

pytest.importorskip("torch")

NAMES = bench.names()
EXPECTED = [
    (name, each)
    for name in NAMES
    for each in expect.load(name).run
    if each.device != "cuda" and not each.when
]
WARMUP, BASELINE, INSPECTED = 1, 2, 2
STEPS = 9  # the last inspected one is the fifth; what is kept is asked for two steps later
CEILINGS = Limits("cpu", copy_bytes_per_s=8e9, fp32_flops=8e10)  # of some CPU: causes, not times
FOUND = {}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """All that is found in a workload's run; it runs when it is first asked for."""

    def find(name):
        if name not in FOUND:
            FOUND[name] = _recorded(name, tmp_path_factory.mktemp(name))
        return FOUND[name]

    yield find
    FOUND.clear()


def _recorded(name, folder):
    script = [sys.executable, "-m", f"pitstop.workloads.{name}.slow", "--small", "--device", "cpu"]
    command = [*script, "--steps", str(STEPS), "--out", str(folder / "results")]
    options = Options(str(folder), warmup=WARMUP, baseline=BASELINE, inspect=INSPECTED)
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        assert launch.run(command, options, (out, err)) == 0, (folder / "err").read_text()
    ranks = collect(folder, WARMUP)
    assert len(ranks[0].steps) >= STEPS - 1  # nothing ends the last batch of an inference
    return diagnose(Recording(ranks, Machine(cores=2, limits=(CEILINGS,))))


@pytest.mark.parametrize(
    ("name", "expected"), EXPECTED, ids=[f"{name}-{each.code}-{each.at}" for name, each in EXPECTED]
)
def test_the_run_shows_the_defect_at_its_line(name, expected, findings):
    line = expect.line_of(name, expected)
    places = [
        (each.span.line, each.span.end_line)
        for each in findings(name)
        if each.code == expected.code and each.span and each.span.path.endswith(expected.file)
    ]
    assert any(first <= line <= last for first, last in places), f"line {line}, found {places}"


@pytest.mark.parametrize("name", NAMES)
def test_the_run_shows_nothing_that_an_expert_would_not_agree_with(name, findings):
    never = {each.code for each in expect.load(name).never}
    assert [each for each in findings(name) if each.code in never] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_could_be_checked(name, findings):
    assert [each for each in findings(name) if each.message.startswith("This could not")] == []
