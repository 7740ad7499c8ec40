"""Logs of real writers, whole, torn, growing and too long."""

import json
import math
import os
import random
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from pitstop.core.errors import PitstopError
from pitstop.logs import build
from pitstop.logs.read import read_logs

RECORDED = Path(__file__).parent / "recorded"
FILES = sorted(RECORDED.iterdir())  # of SummaryWriter, Lightning, transformers and wandb


def series(path):
    return {each.tag: each for run in read_logs(path).runs for each in run.series}


def write_events(folder, steps=20, start=0, **kinds):
    with SummaryWriter(folder, **kinds) as writer:
        for step in range(start, start + steps):
            writer.add_scalar("train/loss", 1 / (1 + step), step)
    return next(iter(sorted(Path(folder).iterdir(), key=os.path.getmtime)))


@pytest.mark.parametrize(
    ("name", "tag", "entries", "first_bad"),
    [
        ("events.out.tfevents.nan30", "train/loss", 60, 30),
        ("metrics.csv", "train_loss", 60, 30),
        ("trainer_state.json", "grad_norm", 80, 31),
        ("run-offline.wandb", "loss", 40, 30),
    ],
)
def test_every_writers_own_log(name, tag, entries, first_bad):
    found = series(RECORDED / name)[tag]
    assert len(found.values) == entries
    bad = [step for step, value in zip(found.steps, found.values, strict=True) if math.isnan(value)]
    assert bad[0] == first_bad


def test_several_ways_to_write_a_scalar(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("plain", step, step)
            writer.add_scalar("tensor", step, step, new_style=True)
            writer.add_scalar("double", step, step, double_precision=True, new_style=True)
        writer.add_text("config", "lr: 3", 0)
        writer.add_histogram("weights", __import__("torch").randn(99), 0)
    assert {tag: each.values for tag, each in series(tmp_path).items()} == dict.fromkeys(
        ("plain", "tensor", "double"), (0.0, 1.0, 2.0)
    )


def test_all_writers_side_by_side_and_what_is_no_log_left_alone(tmp_path):
    for name, file in (("a", FILES[0]), ("b", FILES[1]), ("c", FILES[2]), ("d", FILES[3])):
        (tmp_path / name).mkdir()
        shutil.copy(file, tmp_path / name)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "labels.csv").write_text("file,label\na.png,3\n")
    logs = read_logs(tmp_path)
    assert len(logs.runs) == 4
    assert {run.kind for run in logs.runs} == {"TensorBoard", "CSV", "Trainer", "W&B"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_log_cut_anywhere_gives_what_came_before(tmp_path, file):
    data = file.read_bytes()
    path = tmp_path / file.name
    whole = {tag: len(each.values) for tag, each in series(file).items()}
    for _ in range(60):
        cut = random.randrange(len(data))
        path.write_bytes(data[:cut])
        try:
            found = series(path)
        except PitstopError as error:
            assert "no number" in str(error)  # noqa: PT017 either is right
            continue
        assert all(len(each.values) <= whole[tag] for tag, each in found.items() if tag in whole)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_log_with_a_wrong_byte_never_ends_in_a_traceback(tmp_path, file):
    path = tmp_path / file.name
    for _ in range(60):
        data = bytearray(file.read_bytes())
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        with suppress(PitstopError):
            read_logs(path)


def test_a_wrong_checksum_leaves_one_record_out_and_says_so(tmp_path):
    path = write_events(tmp_path)
    data = bytearray(path.read_bytes())
    place = data.find(b"train/loss", len(data) // 2)
    data[place] ^= 1
    path.write_bytes(data)
    (run,) = read_logs(tmp_path).runs
    assert [(each.tag, len(each.values)) for each in run.series] == [("train/loss", 19)]
    assert "1 records with a wrong checksum" in run.torn


def test_a_wrong_checksum_ends_the_reading_of_a_wandb_run(tmp_path):
    data = bytearray((RECORDED / "run-offline.wandb").read_bytes())
    place = data.find(b"0.0001", len(data) // 2)
    data[place + 2] ^= 1
    (tmp_path / "run.wandb").write_bytes(data)
    (run,) = read_logs(tmp_path).runs
    assert {len(each.values) for each in run.series} < {18, 19, 20, 21, 22}
    assert "broken at byte" in run.torn


def test_a_log_being_written_ends_where_it_is(tmp_path):
    path = write_events(tmp_path)
    with path.open("ab") as stream:
        stream.write(b"\x20\0\0")
    (run,) = read_logs(tmp_path).runs
    assert len(run.series[0].values) == 20
    assert "the last record is not complete" in run.torn


def test_a_resumed_run_replaces_the_steps_it_made_anew(tmp_path):
    write_events(tmp_path, 20, 0, filename_suffix=".a")
    write_events(tmp_path, 10, 15, filename_suffix=".b")
    (run,) = read_logs(tmp_path).runs
    assert run.series[0].steps == tuple(range(25))


def test_the_newest_checkpoint_tells_of_all_steps(tmp_path):
    for number in (5, 20, 100):
        history = [{"loss": 1.0, "step": step} for step in range(number)]
        folder = tmp_path / f"checkpoint-{number}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    (run,) = read_logs(tmp_path).runs
    assert len(run.series[0].values) == 100


def test_steps_counted_anew_in_each_epoch_go_on_rising(tmp_path):
    rows = [f"{epoch},{step},{9 - epoch - step / 10}" for epoch in range(3) for step in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(["epoch,step,loss", *rows]))
    (run,) = read_logs(tmp_path).runs
    assert run.series[0].steps == tuple(range(15))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("step;loss\n1;0,5\n2;0.5\n", (0.5, 0.5)),
        ("step\tloss\n1\t0.5\n2\tnan\n", (0.5, math.nan)),
        ("\ufeffstep, loss \n1,inf\n2,\n3,-Infinity\n", (math.inf, -math.inf)),
        ("step,loss\n1,0.5\n2\n3,0.25,9\n4,0.1\n", (0.5, 0.1)),
    ],
)
def test_csv_as_people_write_it(tmp_path, text, values):
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    assert repr(series(tmp_path)["loss"].values) == repr(values)


def test_logs_of_mmcv_tell_training_and_validation_apart(tmp_path):
    lines = [{"env_info": "x"}]
    for epoch in (1, 2):
        lines += [{"mode": "train", "epoch": epoch, "iter": n, "loss": 1.0} for n in (5, 10)]
        lines.append({"mode": "val", "epoch": epoch, "iter": 10, "mIoU": 0.5, "loss": 2.0})
    (tmp_path / "20250101.log.json").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "config.json").write_text('{"a": 1}')
    (tmp_path / "pretty.json").write_text('{\n"loss": 1\n}')
    (run,) = read_logs(tmp_path).runs
    steps = {series.tag: series.steps for series in run.series}
    assert steps["loss"] == (5, 10, 15, 20)
    assert steps["val/loss"] == steps["val/mIoU"] == (10, 20)


def test_scalars_that_tensorboard_put_into_folders_are_one_run(tmp_path):
    writer = SummaryWriter(tmp_path / "run")
    for step in range(9):
        writer.add_scalars("loss", {"train": 1.0, "val": 2.0}, step)
        writer.add_scalar("lr", 0.1, step)
    writer.close()
    for path in (tmp_path, tmp_path / "run"):
        (run,) = read_logs(path).runs
        assert run.name == "run"
        assert [each.tag for each in run.series] == ["loss/train", "loss/val", "lr"]


def test_a_very_long_event_file_is_read_in_part_without_losing_a_nan(tmp_path, monkeypatch):
    monkeypatch.setattr("pitstop.logs.events.MOST_BYTES", 1000)
    writer = SummaryWriter(tmp_path)
    for step in range(1000):
        writer.add_scalar("a", math.nan if step == 777 else 1.0, step)
        writer.add_scalar("b", 1.0, step)
    writer.close()
    (run,) = read_logs(tmp_path).runs
    found = {each.tag: each for each in run.series}
    assert 5 < len(found["b"].values) < 300
    assert found["a"].steps[[*map(math.isnan, found["a"].values)].index(True)] == 777
    assert "one record in" in run.torn


def test_nested_json_lines_and_numbers_written_as_text(tmp_path):
    lines = [{"iter": n, "train": {"loss": "NaN" if n else 0.5}, "name": "x"} for n in range(2)]
    text = "\n".join(map(json.dumps, lines)) + '\n{"iter": 3, "tra'
    (tmp_path / "log.jsonl").write_text(text)
    (run,) = read_logs(tmp_path).runs
    assert [each.tag for each in run.series] == ["train/loss"]
    assert repr(run.series[0].values) == "(0.5, nan)"
    assert "1 lines that are not JSON" in run.torn


def test_steps_and_times_that_are_no_numbers(tmp_path):
    lines = ['{"step": 1e400, "loss": 1}', '{"step": 2, "loss": 2, "time": 1e300}', '{"step": NaN}']
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    assert series(tmp_path)["loss"].steps == (2.0,)


def test_a_long_series_stays_small_and_loses_no_spike(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MOST_POINTS", 100)
    rows = [f"{step},{step % 7}" for step in range(5000)]
    rows[2345] = "2345,999"
    rows[3456] = "3456,nan"
    (tmp_path / "log.csv").write_text("\n".join(["step,loss", *rows]))
    found = series(tmp_path)["loss"]
    assert len(found.values) < 220
    assert max(after - before for before, after in pairwise(found.steps)) < 200
    assert found.logged == 5000
    assert 999 in found.values
    assert any(map(math.isnan, found.values))


def test_a_pointer_of_git_lfs_is_told_as_such(tmp_path):
    (tmp_path / "events.out.tfevents.1").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(PitstopError, match="run git lfs pull"):
        read_logs(tmp_path)


@pytest.mark.parametrize(
    "name", ["log.csv", "log.jsonl", "events.out.tfevents.1", "run.wandb", "trainer_state.json"]
)
def test_five_gigabytes_of_nothing_are_one_clear_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"step,loss\n" if name == "log.csv" else b"")
    os.truncate(tmp_path / name, 5 * 10**9)
    with pytest.raises(PitstopError, match=f"no number can be read in {name}: ") as told:
        read_logs(tmp_path)
    assert "\n" not in str(told.value)
    write_events(tmp_path / "good")
    logs = read_logs(tmp_path)
    assert [run.name for run in logs.runs] == ["good"]
    assert name in logs.skipped[0]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_very_long_log_is_read_in_part_without_losing_a_nan(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("pitstop.logs.lines.MOST_BYTES", 1000)
    values = [math.nan if step == 1234 else 0.5 for step in range(3000)]
    lines = ["step,loss", *(f"{step},{value}" for step, value in enumerate(values))]
    if suffix == "jsonl":
        lines = [json.dumps({"step": step, "loss": value}) for step, value in enumerate(values)]
    (tmp_path / f"log.{suffix}").write_text("\n".join(lines))
    (run,) = read_logs(tmp_path).runs
    assert len(run.series[0].values) < 200
    assert run.series[0].steps[[*map(math.isnan, run.series[0].values)].index(True)] == 1234
    assert "one line in" in run.torn


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "no log is in this folder"),
        (lambda path: path.write_text("hello"), "not a log that is known"),
        (lambda path: (path.mkdir(), (path / "log.csv").write_text("")), "no numbers are logged"),
    ],
)
def test_what_is_no_log_is_one_clear_line(tmp_path, make, words):
    make(tmp_path / "logs")
    with pytest.raises(PitstopError, match=words):
        read_logs(tmp_path / "logs")


def test_a_pipe_named_like_a_log_is_left_out(tmp_path):
    write_events(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    logs = read_logs(tmp_path)
    assert len(logs.runs) == 1
    assert "not a regular file" in logs.skipped[0]


def test_a_folder_without_permission_is_told(tmp_path, monkeypatch):
    write_events(tmp_path)
    monkeypatch.setattr("pitstop.logs.read.open_regular", _refuse)
    with pytest.raises(PitstopError, match="Permission denied"):
        read_logs(tmp_path)


def _refuse(path):
    raise PermissionError(13, "Permission denied", str(path))
