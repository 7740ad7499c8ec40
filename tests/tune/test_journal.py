"""A search that was interrupted goes on from its journal."""

import math

import pytest

from pitstop.compare.pairs import FEWEST
from pitstop.tune.found import Asked
from pitstop.tune.journal import Journal
from pitstop.tune.plan import Toggle, Wanted
from pitstop.tune.search import Search
from pitstop.tune.track import Checked, RunError
from tune.simulation import COSTS, Simulated, candidate, failing

CANDIDATES = [candidate("tf32"), candidate("loader", toggles=False), candidate("bf16")]


def faster(changes):
    return 100.0 * 0.8 ** len(changes)


def search(track, folder):
    return Search(Journal(track, folder), COSTS, Asked()).run(CANDIDATES)


def test_a_resumed_search_runs_only_what_is_missing_and_finds_the_same(tmp_path):
    whole = Simulated(faster, noise=0.0)
    expected = search(whole, tmp_path / "whole")
    first = Simulated(faster, noise=0.0, interrupt_at=9)
    assert search(first, tmp_path / "two").interrupted
    second = Simulated(faster, noise=0.0)
    assert search(second, tmp_path / "two") == expected
    assert len(second.log) == len(whole.log) - 7  # of 8: the last was one half of a pair
    third = Simulated(faster, noise=0.0)
    assert search(third, tmp_path / "two") == expected
    assert third.log == []


def test_a_resumed_search_has_room_for_what_it_knows(tmp_path):
    """Ended in the proof, it is given less than even its null would take, and finds the same."""
    expected = search(Simulated(faster, noise=0.0), tmp_path / "whole")
    first = Simulated(faster, noise=0.0, interrupt_at=31)
    assert search(first, tmp_path / "two").proof == ()
    assert first.log[-1][0] == "sample"
    second = Simulated(faster, noise=0.0, budget_s=COSTS.proof_s(switched=False))
    found = search(second, tmp_path / "two")
    assert (found.trials, found.kept) == (expected.trials, expected.kept)
    assert found.proof[0].verdict == "better"
    assert second.clock_s <= COSTS.proof_s(switched=False)


def test_a_resumed_search_with_more_time_tries_what_had_no_room(tmp_path):
    first = Simulated(faster, noise=0.0, budget_s=180.0)
    assert "budget is spent: loader" in search(first, tmp_path).notes[0]
    second = Simulated(faster, noise=0.0)
    assert "loader" in {each.change for each in search(second, tmp_path).trials}
    assert ("check", ("tf32",)) not in second.log


def test_a_resumed_search_with_more_time_goes_on_with_the_options_that_it_had_timed(tmp_path):
    """More workers had no room: trying them now would make all that was tried on top void."""
    sweep = candidate("loader", toggles=False, options=({"workers": 1}, {"workers": 2}))

    def resumed(track):
        return Search(Journal(track, tmp_path), COSTS, Asked()).run([sweep, candidate("tf32")])

    first = Simulated(faster, noise=0.0, budget_s=225.0)
    assert "loader workers=2" not in {each.change for each in resumed(first).trials}
    assert first.runs("sample", "loader") >= FEWEST
    second = Simulated(faster, noise=0.0)
    found = resumed(second)
    assert "loader workers=2" in found.notes[0]
    assert "tf32" in {each.change for each in found.trials}
    assert second.runs("check", "loader") == 0


@pytest.mark.parametrize("interrupted_at", [3, 8])
def test_a_resumed_search_knows_all_options_that_were_tried(tmp_path, interrupted_at):
    sweep = candidate("loader", toggles=False, options=({"workers": 1}, {"workers": 2}))
    first = Simulated(faster, noise=0.0, interrupt_at=interrupted_at)
    assert Search(Journal(first, tmp_path), COSTS, Asked()).run([sweep]).interrupted
    second = Simulated(faster, noise=0.0)
    found = Search(Journal(second, tmp_path), COSTS, Asked()).run([sweep])
    assert {"loader workers=1", "loader workers=2"} <= {each.change for each in found.trials}


def test_no_pair_is_made_of_runs_of_two_sessions(tmp_path):
    """A change that does nothing would be kept on a machine that is faster by now."""

    def tf32(speed):
        return lambda changes: speed * (80.0 if "tf32" in changes else 100.0)

    def resumed(track):
        both = [candidate("tf32"), candidate("allocator", toggles=False)]
        return Search(Journal(track, tmp_path), COSTS, Asked()).run(both)

    first = Simulated(tf32(1.0), budget_s=150.0)
    assert "allocator" in resumed(first).notes[0]
    assert first.runs("sample", "tf32") == FEWEST  # its proof
    found = resumed(Simulated(tf32(0.9)))
    assert [each.name for each in found.kept] == ["tf32"]
    assert found.proof[0].ratio == pytest.approx(0.8, rel=0.02)


RATIOS = {"loader": 0.97, "channels-last": 0.9, "allocator": 0.85}  # 0.8 of all others
MANY = [
    candidate("loader", alone=True),
    candidate("tf32"),
    candidate("bf16"),
    candidate("allocator", toggles=False),
    candidate("channels-last"),
    candidate("compile", alone=True),
]


@pytest.mark.parametrize("minutes", [(2.5, 1), (3.3, 1), (4.2, 1.7), (5, 2)])
def test_a_resumed_search_with_little_time_ends_no_worse(tmp_path, minutes):
    """What is new has no room but that of what is known, and would make that void."""
    worse = 0
    for seed in range(6):
        found = []
        for session, budget in enumerate(minutes):
            track = Simulated(
                lambda on: 100 * math.prod(RATIOS.get(each, 0.8) for each in on),
                noise=0.02,
                budget_s=60 * budget,
            )
            track._random.seed(100 * session + seed)
            search = Search(Journal(track, tmp_path / str(seed)), COSTS, Asked())
            found.append(search.run(MANY))
        (first, then), lost = found, " ".join(found[1].notes)
        kept = {each.name for each in first.kept} - {each.name for each in then.kept}
        pairs = [each.proof[0].pairs if each.proof else 0 for each in found]
        worse += any(each in lost for each in kept) or pairs[1] < min(FEWEST, pairs[0])
    assert not worse


def test_the_times_of_each_change_are_those_of_before(tmp_path):
    toggle = Toggle(changes=2, pairs=6)
    asked = (Wanted("tf32"), Wanted("bf16"))
    track = Simulated(lambda on: 100.0 - 10 * len(on))
    first = Journal(track, tmp_path).each(asked, toggle)
    assert [len(each.before) for each in first] == [6, 6]
    assert Journal(Simulated(faster), tmp_path).each(asked, toggle) == first
    assert Journal(Simulated(faster), tmp_path).knows(asked)


def test_what_only_the_budget_ended_is_run_again(tmp_path):
    track = Simulated(faster, breaks={"compile": RunError("not-applicable", "no room", hasty=True)})
    for number in (1, 2):
        with pytest.raises(RunError, match="no room"):
            Journal(track, tmp_path).sample((Wanted("compile"),))
        assert track.runs("sample", "compile") == number
    track.breaks.clear()
    assert Journal(track, tmp_path).sample((Wanted("compile"),)).evidence.steps


def test_what_failed_before_fails_again_without_a_run(tmp_path):
    track = Simulated(faster, breaks={"compile": failing()})
    for _ in range(2):
        with pytest.raises(RunError, match="RuntimeError") as caught:
            Journal(track, tmp_path).sample((Wanted("compile"),))
        assert caught.value.verdict == "failed"
    assert len(track.log) == 1


def test_what_seeds_told_is_known(tmp_path):
    track = Simulated(faster, seeds={"loader": Checked("drifted", "mean loss", drift=0.1)})
    journal = Journal(track, tmp_path)
    found = journal.check((Wanted("loader"),)), journal.over_seeds((Wanted("loader"),))
    assert [each.needs_seeds for each in found] == [True, False]
    runs, again = len(track.log), Journal(track, tmp_path)
    assert again.check((Wanted("loader"),)) == found[0]
    assert again.knows((Wanted("loader"),))
    assert again.over_seeds((Wanted("loader"),)) == found[1]
    assert not again.knows((Wanted("loader"),))
    assert len(track.log) == runs


def test_how_many_changes_are_new_is_handed_on(tmp_path):
    journal = Journal(Simulated(faster, seeds={"loader": Checked()}), tmp_path)
    changes = (Wanted("loader"), Wanted("tf32"))
    assert not journal.check(changes).needs_seeds
    assert journal.check(changes, new=2).needs_seeds


def test_options_tell_questions_apart(tmp_path):
    track = Simulated(faster, refused={"loader": Checked("failed", "no")})
    journal = Journal(track, tmp_path)
    for workers in (1, 2):
        journal.check((Wanted("loader", {"workers": workers}),))
    again = Journal(track, tmp_path)
    again.check((Wanted("loader", {"workers": 2}),))
    assert len(track.log) == 2


def test_what_is_switched_tells_questions_apart(tmp_path):
    track = Simulated(faster)
    changes = (Wanted("tf32"), Wanted("compile"))
    for switched in (1, 2):
        journal = Journal(track, tmp_path)
        journal.check(changes, Toggle(steps=4, changes=switched))
        journal.blocks(changes, Toggle(steps=4, changes=switched))
    assert len(track.log) == 4
