"""The command ``pitstop logs`` from arguments to exit code."""

import json
from pathlib import Path

import pytest

from pitstop.cli.main import run

RECORDED = Path(__file__).parents[1] / "logs" / "recorded"
EVENTS = str(RECORDED / "events.out.tfevents.nan30")


def test_the_verdict_names_the_step_and_what_rose_before(capsys):
    assert run(["logs", EVENTS]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("Verdict  This run went wrong: 1 finding.")
    assert "train/loss is NaN from step 30 of 59" in printed
    assert "train/grad_norm rose from about 1 to 243" in printed
    assert "→ clip the gradient norm" in printed


def test_the_trainers_zero_loss_is_a_nan_in_disguise(capsys):
    assert run(["logs", str(RECORDED / "trainer_state.json")]) == 1
    assert "loss is 0 in all 50 entries from step 31 on; grad_norm is not finite" in (
        capsys.readouterr().out
    )


def test_a_page_draws_each_finding_in_itself(tmp_path):
    path = tmp_path / "logs.html"
    assert run(["logs", EVENTS, "--output", str(path)]) == 1
    page = path.read_text()
    assert page.count('<polyline class="curve') == 2
    assert 'class="mark"' in page
    assert "http" not in page.partition("<main>")[2]


def test_json_holds_the_curves_with_null_for_nan(capsys):
    assert run(["logs", EVENTS, "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["mark"] == 30
    assert finding["curves"][0]["points"][-1][1] is None


def test_a_run_that_went_well_is_exit_code_0(tmp_path, capsys):
    rows = [f"{step},{2 / (1 + step)}" for step in range(50)]
    (tmp_path / "log.csv").write_text("\n".join(["step,loss", *rows]))
    assert run(["logs", str(tmp_path)]) == 0
    assert "Nothing went wrong in 1 run" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["missing", "."])
def test_no_log_is_one_clear_line(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert run(["logs", name]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"pitstop: {name}: ")
    assert printed.count("\n") == 1
