"""Ranks that a script starts itself are recorded as torchrun's are; what else it starts is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pitstop.profile.read.collect import collect
from pitstop.profile.start.launch import run
from pitstop.profile.start.options import Options
from pitstop.profile.start.ranks import Entry


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_each_process_that_joins_a_group_is_a_rank(method, bare, profiled):
    without, with_us = bare("ranks.py", method), profiled("ranks.py", method)
    assert without.code == with_us.code == 0, with_us.err.decode()
    assert with_us.out == without.out
    found = with_us.evidences
    assert [(each.rank, each.step_kind, len(each.steps)) for each in found] == [
        (0, "optimizer", 10),
        (1, "optimizer", 10),
    ]
    assert {Path(each.optimizers[0].made.path).name for each in found} == {"ranks.py"}


def test_what_the_target_returns_and_raises_is_its_own():
    assert Entry(lambda number: number + 1, Options("/nowhere"))(1) == 2
    with pytest.raises(KeyError):
        Entry({}.__getitem__, Options("/nowhere"))("x")


def test_the_entry_of_a_process_without_torch_does_not_bring_it_along(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\n"
        "from pitstop.profile.start.options import Options\n"
        "from pitstop.profile.start.ranks import Entry\n"
        "Entry(print, Options('/nowhere'))(json.dumps('torch' in sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, check=True)
    assert json.loads(ran.stdout) is False


SELF_STARTED = """
import os, subprocess, sys
import torch

rank = os.environ.get("LOCAL_RANK", "0")
assert not [name for name in os.environ if "PITSTOP_P" in name]
if "LOCAL_RANK" not in os.environ:  # as Lightning's ddp does it
    other = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"})
    subprocess.run([sys.executable, "-c", "import torch"], env={**os.environ}, check=True)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
if rank == "0":
    sys.exit(other.wait())
"""


def test_a_script_that_starts_itself_for_each_rank_is_recorded_in_all(tmp_path):
    script, recording = tmp_path / "script.py", tmp_path / "recording"
    script.write_text(SELF_STARTED)
    recording.mkdir()
    with (tmp_path / "out").open("wb") as out:
        options = Options(str(recording), inspect=0)
        code = run([sys.executable, str(script)], options, (out, out))
    assert code == 0, (tmp_path / "out").read_text()
    found = collect(recording, 0)
    assert [(each.rank, len(each.steps)) for each in found] == [(0, 10), (1, 10)]
