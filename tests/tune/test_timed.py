"""Pairs of blocks from processes that give more or fewer than they are asked for."""

from types import SimpleNamespace

import pytest

from pitstop.compare.pairs import Pairs
from pitstop.tune.plan import Toggle
from pitstop.tune.timed import in_blocks


def measured(given, looks=(6, 12), settled=True, **options):
    """What is found where each process gives so many pairs, and how many processes ran."""
    asked = []

    def blocks(changes, toggle):
        asked.append((changes, toggle))
        numbers = tuple(map(float, range(given)))
        return Pairs(numbers, numbers)

    track = SimpleNamespace(blocks=blocks)
    found = in_blocks(track, (), Toggle(), looks, lambda _: settled, **options)
    assert found.before == found.after
    return found.before, len(asked)


def test_every_other_pair_begins_with_the_change_on_over_all_processes():
    """An odd one at the end of a process would be followed by one that begins alike."""
    assert measured(3, each=2) == ((0, 1, 0, 1, 0, 1), 3)
    known = Pairs((7.0,) * 3, (7.0,) * 3)
    assert measured(3, each=2, known=known) == ((7, 7, 0, 1, 0, 1), 2)


def test_no_look_is_passed_over():
    assert measured(4, each=4) == ((0, 1, 2, 3, 0, 1), 2)
    found, processes = measured(4, each=4, settled=False)
    assert (len(found), processes) == (12, 4)


@pytest.mark.parametrize("each", [6, 0])
def test_a_process_that_gives_too_few_is_the_last(each):
    assert measured(3, each=each)[1] == 1
