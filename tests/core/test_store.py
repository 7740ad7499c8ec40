import errno
import json
import math
from pathlib import Path

import pytest

from examples import FINDING, MACHINE, REPORT
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Step
from pitstop.core.machine import Machine
from pitstop.core.report import Report

EVIDENCE = Evidence(steps=(Step(900.0), Step(100.0, 40.0)), warmup_steps=1)
VALUES = [MACHINE, FINDING, REPORT, REPORT.trials[0], EVIDENCE]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_type_comes_back_equal(value, tmp_path):
    store.save(tmp_path / "deep" / "value.json", value)
    assert store.load(tmp_path / "deep" / "value.json", type(value)) == value


def test_fields_of_the_type_are_the_fields_of_the_json():
    fields = json.loads(store.dumps(REPORT))
    assert list(fields) == ["schema", "kind", *Report.__dataclass_fields__]


def broken(**changes):
    return json.dumps(json.loads(store.dumps(MACHINE)) | changes)


WHOLE = store.dumps(MACHINE)
HOSTILE = {
    "empty": "",
    "truncated": WHOLE[: len(WHOLE) // 2],
    "not json": "machine: this one",
    "a list": "[]",
    "another kind": store.dumps(REPORT),
    "wrong type": broken(cores="two"),
    "missing schema": WHOLE.replace('"schema"', '"scheme"'),
    "schema of text": broken(schema="1"),
    "schema zero": broken(schema=0),
    "schema true": broken(schema=True),
    "huge integer": broken(memory_bytes=10**400),
    "huge float": WHOLE.replace('"cores": 2', '"cores": 1e999'),
    "NaN": broken(cores=math.nan),
    "deep list": broken(packages="@").replace('"@"', "[" * 100_000 + "]" * 100_000),
    "deep object": '{"schema":' * 100_000,
    "surrogate": WHOLE.replace("a CPU", "\\ud800"),
    "timing of one": store.dumps(REPORT.trials[0]).replace("41.2,", "", 1),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_give_one_line_that_names_the_file(text, tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(text)
    with pytest.raises(PitstopError) as caught:
        store.load(path, Machine)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_newer_schema_says_to_upgrade():
    with pytest.raises(PitstopError, match=r"newer Pitstop .*upgrade"):
        store.loads(broken(schema=store.SCHEMA + 1), Machine)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "machine.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(PitstopError):
        store.load(tmp_path / "machine.json", Machine)


def test_a_file_too_large_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LARGEST_BYTES", 10)
    (tmp_path / "machine.json").write_text(WHOLE)
    with pytest.raises(PitstopError, match="larger than"):
        store.load(tmp_path / "machine.json", Machine)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(PitstopError, match="No such file"):
        store.load(tmp_path / "none.json", Machine)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    store.save(path, MACHINE)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(PitstopError, match="No space left"):
        store.write_text(path, "new")
    assert store.load(path, Machine) == MACHINE
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_place_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PitstopError, match="cannot write"):
        store.save(tmp_path / "file" / "below.json", MACHINE)
