"""Idle time after waits of no known line goes to the lines that wait, as far as samples tell."""

import pytest

from diagnose.builders import line, operation, sampled, steps
from pitstop.core.evidence import Evidence
from pitstop.core.ledger import Row
from pitstop.core.machine import Limits
from pitstop.diagnose.facts.waits import with_lines

MIB = 2**20
LIMITS = Limits("cuda:0", pageable_bytes_per_s=1e9)  # a MiB a millisecond, nearly
BATCH, CLIP, LOSS, COUNT = line(10), line(20), line(30), line(40)


def copy(where, mib, device="cpu"):
    return operation("_to_copy", where, f"float32[9]@{device}", waits=True, moved_bytes=2 * mib)


WAITS = (
    copy(BATCH, 2 * MIB),
    copy(CLIP, 4 * MIB, "cuda"),
    operation("_local_scalar_dense", LOSS, "float32[]@cuda", waits=True),
    operation("_local_scalar_dense", COUNT, "float32[]@cpu", waits=True),  # it is there already
)


def shared(*gaps, at=(), operations=WAITS):
    """Milliseconds by cause and line; samples are one a millisecond of three steps."""
    seen = [sampled(where, 3 * ms) for where, ms in at]
    rest = sampled(line(99), 300 - sum(each.samples for each in seen))
    evidence = Evidence(steps=steps(), operations=operations, sampled=(*seen, rest))
    found = with_lines(gaps, evidence, LIMITS)
    assert sum(each.ms for each in found) == pytest.approx(sum(each.ms for each in gaps))
    return {(each.cause, each.where.line): pytest.approx(each.ms, abs=0.2) for each in found}


def test_the_line_at_which_python_waits_is_behind_it():
    assert shared(Row("transfer", 30.0), at=[(BATCH, 40), (LOSS, 20)]) == {
        ("transfer", 10): 30.0,
        ("transfer", 0): 0.0,
    }


def test_what_moving_the_bytes_takes_comes_first_then_the_time_at_each_line():
    found = shared(Row("transfer", 18.0), at=[(BATCH, 2), (CLIP, 40)])
    assert (found["transfer", 10], found["transfer", 20]) == (2.0, 16.0)


def test_no_line_explains_more_than_was_spent_at_it():
    found = shared(Row("transfer", 30.0), Row("sync", 9.0), at=[(BATCH, 10), (LOSS, 4)])
    assert found == {
        ("transfer", 10): 10.0,
        ("transfer", 0): 20.0,
        ("sync", 30): 4.0,
        ("sync", 0): 5.0,
    }


def test_a_number_on_the_host_is_no_wait_and_a_known_line_is_kept():
    known = Row("sync", 5.0, "", CLIP)
    assert shared(known, Row("sync", 9.0), at=[(COUNT, 9)]) == {("sync", 20): 5.0, ("sync", 0): 9.0}


def test_what_a_line_explains_already_is_not_explained_again():
    found = shared(Row("transfer", 8.0, "", BATCH), Row("transfer", 8.0), at=[(BATCH, 10)])
    assert found["transfer", 0] == 6.0


def test_without_samples_nothing_is_guessed():
    gaps = [Row("transfer", 30.0)]
    few = Evidence(steps=steps(), operations=WAITS, sampled=(sampled(BATCH, 99),))
    assert with_lines(gaps, few, LIMITS) == gaps
