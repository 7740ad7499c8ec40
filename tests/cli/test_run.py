"""``pitstop run``: that nothing was changed is said, with its reason, and is an error."""

import pytest

from pitstop.cli import main

TUNED = """
schema = 1
command = "pitstop tune train.py"
date = "2026-11-19"
machine = "a CPU"
[[change]]
name = "fused-optimizer"
[[change]]
name = "cudnn-benchmark"
"""
TRAINS = """
import importlib.util
assert importlib.util.find_spec("torch")
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(2, 4)).mean().backward()
optimizer.step()
assert optimizer.param_groups[0]["fused"]
"""


@pytest.fixture
def told(tmp_path, monkeypatch, capfd):
    """Run a script with kept changes; the exit code, and what Pitstop said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned.toml").write_text(TUNED)

    def run(text, *before, arguments=()):
        (tmp_path / "train.py").write_text(text)
        code = main.run(["run", "--with", "tuned.toml", *before, "train.py", *arguments])
        said = capfd.readouterr().err.splitlines()
        return code, [line for line in said if line.startswith("pitstop:")]

    return run


def test_a_run_without_torch_is_an_error_with_its_reason(told):
    code, (said,) = told("print('trains elsewhere')")
    assert code == 2
    assert said.endswith(
        "no change was applied: the process that was started has not imported torch"
    )


def test_a_python_that_cannot_be_entered_is_an_error_with_its_reason(told):
    code, (said,) = told("import sys", "python", "-I")
    assert code == 2
    assert "its options -I, -E and -S keep it out" in said


def test_the_exit_code_of_a_script_that_failed_stays_its_own(told):
    assert told("raise SystemExit(7)")[0] == 7


def test_a_run_in_which_no_change_took_hold_names_each(told):
    pytest.importorskip("torch")
    code, (said,) = told("import torch")
    assert code == 2
    assert "no change was applied: fused-optimizer: " in said
    assert "; cudnn-benchmark: " in said


def test_a_run_in_which_one_took_hold_is_none(told):
    pytest.importorskip("torch")
    code, (said,) = told(TRAINS)
    assert code == 0
    assert said.startswith("pitstop: cudnn-benchmark did not take hold: ")


RANKS = """
import sys
import torch
import torch.distributed as dist

def train(meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=0, world_size=1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 4)).mean().backward()
    optimizer.step()
    assert optimizer.param_groups[0]["fused"]

if __name__ == "__main__":
    context = torch.multiprocessing.get_context(sys.argv[1])
    started = context.Process(target=train, args=sys.argv[2:])
    started.start()
    started.join()
    sys.exit(started.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_rank_that_the_script_starts_is_changed_as_well(method, told, tmp_path):
    pytest.importorskip("torch")
    code, (said,) = told(RANKS, arguments=(method, str(tmp_path / "meeting")))
    assert code == 0
    assert said.startswith("pitstop: cudnn-benchmark did not take hold: ")
