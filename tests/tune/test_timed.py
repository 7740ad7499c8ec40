"""Pairs of blocks from processes that give more or fewer than they are asked for."""

from types import SimpleNamespace

import pytest

from pitstop.compare.pairs import LOOKS, Pairs
from pitstop.tune import timed
from pitstop.tune.plan import Toggle
from pitstop.tune.timed import in_blocks


@pytest.fixture
def measured(monkeypatch):
    def measure(given, looks=(6, 12), settled=True, **options):
        monkeypatch.setattr(
            timed, "tell_enough", lambda found: settled and len(found.before) in LOOKS
        )
        return _measured(given, looks, options)

    return measure


def _measured(given, looks, options):
    """What is found where each process gives so many pairs, and how many processes ran."""
    asked = []

    def blocks(changes, toggle):
        asked.append((changes, toggle))
        numbers = tuple(map(float, range(given)))
        return Pairs(numbers, numbers)

    track = SimpleNamespace(blocks=blocks)
    costs = SimpleNamespace(toggle=Toggle(), pairs=options.pop("each", LOOKS[-1]))
    found = in_blocks(track, (), costs, looks, **options)
    assert found.before == found.after
    return found.before, len(asked)


def test_every_other_pair_begins_with_the_change_on_over_all_processes(measured):
    """An odd one at the end of a process would be followed by one that begins alike."""
    assert measured(3, each=2) == ((0, 1, 0, 1, 0, 1), 3)
    known = Pairs((7.0,) * 3, (7.0,) * 3)
    assert measured(3, each=2, known=known) == ((7, 7, 0, 1, 0, 1), 2)


def test_no_look_is_passed_over(measured):
    assert measured(4, each=4) == ((0, 1, 2, 3, 0, 1), 2)
    found, processes = measured(4, each=4, settled=False)
    assert (len(found), processes) == (12, 3)


def test_a_process_that_gives_too_few_is_the_last(measured):
    assert measured(3, each=6) == ((0, 1), 1)
    assert measured(3, each=0) == ((), 0)  # none would give any


def test_a_process_that_looks_by_itself_gives_what_it_saw(measured):
    """It ended at its second look, or did all it was asked for: both are looks of ours, too."""
    assert len(measured(12, looks=(6, 12, 24), settled=True)[0]) == 12
    found, processes = measured(12, looks=(6, 12, 24), settled=False)
    assert (len(found), processes) == (12, 1)  # the script has ended: more were not planned
    known = Pairs(tuple(map(float, range(24))), tuple(map(float, range(24))))
    assert measured(24, looks=(6,), known=known) == (known.before, 0)


def test_a_script_that_ends_leaves_no_half_of_two_pairs(measured):
    """What drifts cancels over two of them."""
    known = Pairs((7.0,) * 3, (7.0,) * 3)
    assert measured(5, looks=(6, 12, 24), known=known) == ((7, 7, 0, 1, 2, 3), 1)
    found, processes = measured(11, looks=(6, 12, 24), settled=False)
    assert (found, processes) == (tuple(range(10)), 1)
