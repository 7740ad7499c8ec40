"""What a script does is counted while its numbers count, whatever else is said."""

# ruff: noqa: T201 it is about what is printed

import logging
import sys

import pytest

pytest.importorskip("torch")

from pitstop.core.evidence import Evidence
from pitstop.tune.guard.readings import read
from pitstop.tune.inside.activity import Activity


@pytest.fixture
def counted(tmp_path):
    """Do something, and read what was counted of it."""

    def count(action, counts=lambda: True):
        undos = []
        activity = Activity(tmp_path, counts, undos)
        try:
            action(activity)
        finally:
            for undo in reversed(undos):
                undo()
        activity.write()
        found = read(tmp_path, Evidence())
        return found.calls, found.lines

    return count


def say(activity):
    activity.called()
    print("one", "line")
    print("two\nlines", end="\n")
    print("no line yet", end="")
    sys.stdout.write("\n")
    logging.getLogger("mine").warning("a line")
    logging.getLogger("mine").debug("not asked for")
    logging.getLogger("torch._inductor").warning("depends on what is switched on")
    print("elsewhere", file=sys.stderr)


def test_lines_of_prints_and_logs_are_counted(counted, capsys):
    write = sys.stdout.write
    assert counted(say) == (1, 5)
    assert capsys.readouterr().out == "one line\ntwo\nlines\nno line yet\n"
    assert sys.stdout.write == write


def test_what_does_not_count_is_not_counted(counted):
    assert counted(say, counts=lambda: False) == (1, 0)


def test_a_process_without_standard_output_says_nothing(counted, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert counted(lambda activity: activity.called()) == (1, 0)


def test_only_the_first_rank_tells(counted, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert counted(say) == (None, None)
