"""The skill is short, installable, and true: its commands and options are ours."""

import re
from pathlib import Path

import click
import pytest

from pitstop.cli import main
from pitstop.cli.prove import EXIT
from pitstop.report.waterfall import LABELS

LONGEST = 120
COMMAND = re.compile(r"`pitstop (\w+)([^`]*)`")


@pytest.fixture
def skill(capsys):
    assert main.run(["skill"]) == 0
    return capsys.readouterr().out


def test_it_has_at_most_120_lines_and_says_what_it_is_for(skill):
    lines = skill.splitlines()
    assert len(lines) <= LONGEST
    assert lines[0] == "---"
    assert lines[1] == "name: pitstop"
    assert lines[2].startswith("description: ")


def test_every_command_and_option_in_it_is_one_of_ours(skill):
    context = click.Context(main.command)
    found = COMMAND.findall(skill)
    assert len(found) > 8
    for name, rest in found:
        known = main.command.get_command(context, name)
        assert known, name
        options = {each for parameter in known.params for each in parameter.opts}
        assert set(re.findall(r"--[\w-]+", rest)) <= options, (name, rest)


def test_the_exit_codes_in_it_are_those_of_prove(skill):
    said = re.findall(r"\| ([\w, ]+) \| ([\d, ]+) \|", skill)
    codes = {
        word: int(code)
        for words, numbers in said
        for word, code in zip(words.split(", "), numbers.split(", "), strict=True)
    }
    codes.pop("error")
    assert codes == {name: code for name, code in EXIT.items() if name}


def test_the_lines_of_a_step_in_it_are_those_of_the_ledger(skill):
    rows = re.findall(
        r"^\| ([a-z][^|]+) \| [^|\d]+ \|$", skill.partition("What usually")[2], re.MULTILINE
    )
    assert len(rows) > 5
    assert set(rows) <= set(LABELS.values())


def test_it_is_installed_where_agents_look_and_replaces_only_its_own(tmp_path, capsys, skill):
    assert main.run(["skill", "--install", str(tmp_path / "skills")]) == 0
    target = tmp_path / "skills/pitstop/SKILL.md"
    assert target.read_text() == skill
    assert main.run(["skill", "--install", str(tmp_path / "skills")]) == 0
    Path(target).write_text("mine")
    assert main.run(["skill", "--install", str(tmp_path / "skills")]) == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "mine"
