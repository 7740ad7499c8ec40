"""``pitstop compare``: what it takes, what it says, and how it exits; two real scripts."""

import sys
from pathlib import Path

import pytest

from pitstop.cli import main
from pitstop.cli.compare import _is_command
from pitstop.compare import record
from pitstop.core import store
from pitstop.core.evidence import Evidence, Step
from pitstop.core.report import Report
from pitstop.profile.read.runs import Run

LOOP = """
import sys
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(12):
    optimizer.zero_grad()
    loss = model(torch.randn(int(sys.argv[1]), 4)).square().mean()
    loss.backward()
    optimizer.step()
print(f"psnr={30 + int(sys.argv[1])}.5 dB")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, whose recordings are kept as Evidence."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def recorded(folder, monkeypatch):
    """Two recordings of one script: in the second every step takes a fifth longer."""
    monkeypatch.setattr(
        record, "collect", lambda where, _: (store.load(where / "evidence.json", Evidence),)
    )
    for name, step_ms in (("20260101-000000-train", 100.0), ("20260102-000000-slow", 120.0)):
        where = folder / ".pitstop" / "runs" / name
        store.save(where / "run.json", Run(("python", "train.py"), "", 3, exit_code=0))
        store.save(where / "evidence.json", Evidence(steps=(Step(step_ms, loss=0.5),) * 80))


def test_two_recordings_and_what_one_run_each_cannot_see(recorded, capsys):
    assert main.run(["compare", "20260101", "last"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Verdict  B is worse than A: step +20 % (+14 to +26 %).")
    assert "one run each" in out


@pytest.mark.parametrize(
    ("gates", "code"),
    [
        (["step<=+30%"], 0),
        (["step<=+3%"], 1),
        (["step<=+30%", "samples>=-3%"], 1),
        (["memory<=+3%"], 3),
        (["memory<=+3%", "step<=+3%"], 1),
    ],
)
def test_exit_codes_of_gates(gates, code, recorded, capsys):
    options = [word for gate in gates for word in ("--gate", gate)]
    assert main.run(["compare", "20260101", "last", *options, "--strict"]) == code
    assert main.run(["compare", "20260101", "last", *options]) == code % 3
    assert f"gate {gates[0]}" in capsys.readouterr().out


def test_a_recording_that_is_not_there_names_its_neighbours(recorded, capsys):
    assert main.run(["compare", "last", "20260101-000000-trian"]) == 2
    assert "did you mean 20260101-000000-train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["last", "python train.py"], "two of a kind"),
        (["no-such-program x", "python train.py"], "no-such-program: no such command"),
        (["python 'a", "python b"], "check its quotes"),
        (["last", "last", "--metric", "psnr"], "parentheses"),
        (["last", "last", "--metric", "psnr=(.)"], "holds no output"),
        (["last", "last", "--lower-better", "psnr"], "no --metric has this name"),
        (["last", "last", "--gate", "step<3"], "write it like"),
        (["last", "last", "--steps", "40"], "--steps is for two commands"),
        (["last", "last", "--keep"], "--keep is for two commands"),
    ],
)
def test_a_mistake_is_one_line(arguments, hint, recorded, capsys):
    assert main.run(["compare", *arguments]) == 2
    err = capsys.readouterr().err
    assert hint in err
    assert err.count("\n") == 1


def test_what_is_a_command(folder):
    Path("train.py").touch()
    store.save(folder / "a run" / "run.json", Run((), "", 3))
    assert _is_command("python train.py")
    assert _is_command("train.py")
    assert not _is_command("last")
    assert not _is_command("a run")


def test_a_script_may_stand_alone():
    assert record.words("train.py --bs 4") == [sys.executable, "train.py", "--bs", "4"]
    assert record.words("-m pack.train") == [sys.executable, "-m", "pack.train"]


def test_two_real_commands(folder, capfd):
    pytest.importorskip("torch")
    Path("loop.py").write_text(LOOP)
    options = ["--metric", r"psnr=(\S+)", "--format", "json", "--keep", "--pairs", "1"]
    assert main.run(["compare", "loop.py 4", "loop.py 8", *options, "--gate", "psnr>=-1%"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    report = store.loads(out, Report)
    found = {each.metric: each for each in report.comparisons}
    measured = set(found) - {"host-memory"}  # which a run of a few seconds may not show
    assert measured == {"step", "p50", "p95", "samples", "wait", "psnr", "loss"}
    assert (found["psnr"].before, found["psnr"].after) == (34.5, 38.5)
    assert {each.verdict for each in report.comparisons} == {"inconclusive"}  # one pair is none
    assert report.checks[0].status == "warn"
    assert any("shape of the model's inputs" in note for note in report.notes)
    kept = [path.name[16:] for path in sorted((folder / ".pitstop" / "runs").iterdir())]
    assert sorted(name[:9] for name in kept) == ["compare-a"] * 2 + ["compare-b"] * 2


SCORE = """
import os, pathlib, signal, sys
done = pathlib.Path("done.txt")
done.write_text((done.read_text() if done.exists() else "") + sys.argv[1])
if len(done.read_text()) == int(sys.argv[2]):
    os.kill(os.getppid(), signal.SIGINT)
print(f"score={10 if sys.argv[1] == 'A' else 9}")
"""


@pytest.mark.parametrize(("option", "code"), [("score>=-3%", 1), ("score>=-30%", 0)])
def test_pairs_alternate_after_a_rehearsal_each_and_end_when_settled(option, code, folder, capfd):
    Path("score.py").write_text(SCORE)
    typed = ["score.py A 0", "score.py B 0", "--metric", "score=(.+)", "--gate", option]
    assert main.run(["compare", *typed]) == code
    assert capfd.readouterr().out.startswith("Verdict  B is worse than A: score -10 %")
    assert Path("done.txt").read_text() == "AB" + "ABBA" * 3
    assert not Path(".pitstop").exists()


def test_a_printed_loss_is_not_the_recorded_one(folder, capfd):
    Path("score.py").write_text(SCORE.replace("score=", "loss="))
    typed = ["score.py A 0", "score.py B 0", "--metric", "loss=(.+)", "--lower-better", "loss"]
    assert main.run(["compare", *typed, "--gate", "printed-loss<=-3%", "--pairs", "6"]) == 0
    assert "B is better than A: printed-loss -10 %" in capfd.readouterr().out


def test_ctrl_c_tells_what_is_known_so_far(folder, capfd):
    Path("score.py").write_text(SCORE)
    typed = ["score.py A 10", "score.py B 10", "--metric", "score=(.+)"]
    assert main.run(["compare", *typed]) == main.INTERRUPTED
    out = capfd.readouterr().out
    assert out.startswith("Verdict  Inconclusive: score -10 %.")
    assert "3 pairs" in out
    assert "ended by Ctrl-C" in out


def test_a_command_that_fails_is_quoted(folder, capfd):
    Path("bad.py").write_text("import sys\nprint('why', file=sys.stderr)\nsys.exit(7)\n")
    assert main.run(["compare", "bad.py", "bad.py"]) == 2
    err = capfd.readouterr().err
    assert err == "pitstop: A ended with exit code 7: make it run by itself first\n  why\n"
    assert not (folder / ".pitstop").exists()


def test_a_run_that_could_not_be_recorded_is_no_sample(folder, capfd):
    Path("odd.py").write_text("import sys\nprint('pitstop: recording stopped: x', file=sys.stderr)")
    assert main.run(["compare", "odd.py", "odd.py", "--metric", "(.)"]) == 2
    assert "A was not recorded to its end: recording stopped: x" in capfd.readouterr().err


def test_a_command_without_steps_says_what_to_do(folder, capsys):
    Path("idle.py").write_text("print('psnr=3')\n")
    assert main.run(["compare", "idle.py", "idle.py"]) == 2
    assert "--metric" in capsys.readouterr().err
