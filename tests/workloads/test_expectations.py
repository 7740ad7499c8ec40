"""What every workload's ``expect.toml`` and source must satisfy, for all five alike."""

import ast
import re
from pathlib import Path

import msgspec
import pytest

from pitstop.workloads import bench, expect

NAMES = bench.names()
each_workload = pytest.mark.parametrize("name", NAMES)


def test_all_five_systems_are_there():
    assert NAMES == [
        "frame_interpolation",
        "lora_diffusion",
        "pose_regression",
        "spike_deblur",
        "tiled_vae",
    ]


@each_workload
def test_every_expectation_has_a_code_and_exactly_one_tagged_line(name):
    wanted = expect.load(name)
    for expected in wanted.source + wanted.run + wanted.machine + wanted.data:
        assert re.fullmatch(r"PIT\d{3}", expected.code)
        assert (expected.file and expected.at) or expected.when, expected
        if expected.at:
            assert expect.line_of(name, expected) > 0


@each_workload
def test_every_tag_in_the_source_is_expected_by_some_rule(name):
    wanted = expect.load(name)
    tags = {(each.file, each.at) for each in wanted.source + wanted.run + wanted.data}
    for path in (expect.FOLDER / name).glob("*.*"):
        for tag in re.findall(rf"{expect.TAG}(\S+)", path.read_text(encoding="utf-8")):
            assert (path.name, tag) in tags


@each_workload
def test_no_code_is_both_expected_and_forbidden(name):
    wanted = expect.load(name)
    found = {each.code for each in wanted.source + wanted.run + wanted.machine + wanted.data}
    assert found.isdisjoint(each.code for each in wanted.never)


@each_workload
def test_the_quality_to_keep_is_one_bound(name):
    quality = expect.load(name).quality
    assert (quality.at_least is None) != (quality.at_most is None)


@each_workload
def test_the_script_as_found_sleeps_nowhere_and_knows_nothing_of_pitstop(name):
    for path in (expect.FOLDER / name).glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert "sleep" not in ast.dump(tree)
        if path.name != "data.py":
            assert not _imports_of_pitstop(tree), path


def _imports_of_pitstop(tree):
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [
        node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level != 1
    ]
    return [name for name in names if name.split(".")[0] in {"pitstop", ""}]


def test_a_missing_or_doubled_tag_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "slow.py").write_text("a = 1  # pit: one\nb = 2  # pit: two\nc  # pit: two\n")
    monkeypatch.setattr(expect, "FOLDER", tmp_path)
    assert expect.line_of("w", expect.Expected("PIT101", "slow.py", "one")) == 1
    for tag in ("two", "three"):
        with pytest.raises(ValueError, match="lines, not 1"):
            expect.line_of("w", expect.Expected("PIT101", "slow.py", tag))


def test_a_wrong_type_in_expect_toml_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "w").mkdir()
    Path(tmp_path / "w" / "expect.toml").write_text("quality = 3\n")
    monkeypatch.setattr(expect, "FOLDER", tmp_path)
    with pytest.raises(msgspec.ValidationError):
        expect.load("w")
