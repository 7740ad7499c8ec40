"""Sweeps of an option of the script's own."""

import pytest

from pitstop.compare.quantities import Sample
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence, Step
from pitstop.tune.checked import RunError
from pitstop.tune.runs.costs import Costs
from pitstop.tune.vary import Vary, affordable, others, parse, sweep, table, verdict, with_value


def test_how_it_is_written():
    assert parse("--batch_size 4,8, 16") == Vary("--batch_size", ("4", "8", "16"))
    assert parse("data.batch=4,8") == Vary("data.batch", ("4", "8"))
    for wrong in ("", "--batch_size", "--batch_size ,"):
        with pytest.raises(PitstopError, match="write it like"):
            parse(wrong)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t.py", "--bs", "4", "--x"], ["t.py", "--bs", "8", "--x"]),
        (["t.py", "--bs=4"], ["t.py", "--bs=8"]),
        (["t.py", "--bsize", "4"], ["t.py", "--bsize", "4", "--bs", "8"]),
        (["t.py", "--bs"], ["t.py", "--bs", "--bs", "8"]),
    ],
)
def test_the_option_is_set_where_it_stands_or_at_the_end(words, expected):
    assert with_value(words, "--bs", "8") == expected


def test_the_command_is_not_held_against_itself():
    vary = Vary("--bs", ("4", "8"))
    assert others(vary, ["t.py", "--bs", "4"]).values == ("8",)
    assert others(vary, ["t.py"]) == vary
    with pytest.raises(PitstopError, match="--bs 4 is the command as it is"):
        others(Vary("--bs", ("4",)), ["t.py", "--bs=4"])


def test_a_budget_that_cannot_tell_is_said_before_anything_runs():
    vary = Vary("--bs", ("8", "16"))
    assert affordable(vary, Costs(5.0, 0.1, 20), 2 * Costs(5.0, 0.1, 20).pairs_s(6)) == 6
    with pytest.raises(PitstopError, match=r"room for 3 pairs of runs of each.*--budget 4"):
        affordable(vary, Costs(5.0, 0.1, 20), 2 * Costs(5.0, 0.1, 20).pairs_s(3))


def run(value):
    """Twice the batch takes half as long again; 64 does not fit."""
    if value == "64":
        raise RunError("out-of-memory", "CUDA out of memory")
    batch = int(value or 4)
    return Sample(Evidence(steps=(Step(100.0 * (1 + batch / 4) / 2),) * 8), batch=batch)


def test_a_sweep_compares_throughput_and_keeps_nothing():
    vary = Vary("--bs", ("4", "8", "64"))
    found = sweep(vary, run, 6)
    rows = table(vary, found).rows
    assert [row[0] for row in rows] == ["4", "8", "64"]
    assert [row[1] for row in rows] == ["same", "better", "n/a"]
    assert rows[1][2:5] == ("150 ms", "53.33", "+33 %")
    assert verdict(vary, found) == "--bs 8 is the fastest: samples/s +33 % (+33 to +33 %)."
    assert rows[2][-1] == "out-of-memory: CUDA out of memory"


def test_ctrl_c_shows_the_values_so_far():
    calls = []

    def interrupted(value):
        calls.append(value)
        if len(calls) == 16:
            raise KeyboardInterrupt
        return run(value)

    found = sweep(Vary("--bs", ("4", "8", "16")), interrupted, 6)
    assert [each.value for each in found] == ["4", "8"]
    assert found[1].interrupted
    assert table(Vary("--bs", ()), found).rows[1][-1] == "ended by Ctrl-C"
    assert found[1].comparisons[0].pairs == 1
