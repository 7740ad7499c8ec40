"""Changes that were kept for what later ones do as well: the search leaves each out once more."""

from pitstop.core.trial import Trial
from pitstop.tune.found import Listener
from pitstop.tune.track import Checked
from tune.simulation import Simulated, candidate, search, verdicts


def test_a_passenger_is_dropped():
    """Once compiled, the fused optimizer is no faster than the other one."""

    def step(on):
        return 60.0 if "compile" in on else 90.0 if "fused-optimizer" in on else 100.0

    heard: list[Trial] = []
    track = Simulated(step)
    found = search(
        track,
        [candidate("fused-optimizer"), candidate("compile")],
        listener=Listener(tried=heard.append),
    )
    assert verdicts(found) == {"fused-optimizer": "not-faster", "compile": "kept"}
    assert "passenger" in found.trials[0].note
    assert [each.name for each in found.kept] == ["compile"]
    assert [each.verdict for each in heard] == ["kept", "kept", "not-faster"]
    assert track.runs("check", "compile") == 1  # the numbers without it
    assert track.log[-1] in {("sample", ()), ("sample", ("compile",))}


def test_those_that_can_be_switched_are_left_out_one_by_one_in_one_process():
    def step(on):
        return 100.0 * 0.8 ** len(on.keys() & {"tf32", "bf16", "loader", "compile"})

    kept = [candidate(each) for each in ("tf32", "bf16")]
    kept += [candidate("loader", toggles=False), candidate("compile", alone=True)]
    track = Simulated(step)
    found = search(track, [*kept, candidate("channels-last")])
    assert len(found.kept) == 4
    assert track.runs("each", "loader", "compile", "tf32", "bf16") == 1
    assert track.runs("blocks", "bf16", "loader", "compile", "tf32") == 0
    assert track.runs("sample", "tf32", "bf16", "compile", "loader") > 0  # it cannot be switched


def test_of_two_that_do_the_same_one_stays():
    """Each is no gain beside the other: once one is gone, the other has another look."""

    def step(on):
        same = len(on.keys() & {"bf16", "channels-last"})
        if "tf32" in on:
            return 40.0 if same else 50.0
        return 100.0 - 10.0 * same

    track = Simulated(step)
    found = search(track, [candidate(each) for each in ("bf16", "channels-last", "tf32")])
    assert [each.name for each in found.kept] == ["channels-last", "tf32"]
    kinds = [kind for kind, _ in track.log]
    assert kinds[kinds.index("each") :][:3] == ["each", "check", "blocks"]


def test_a_passenger_stays_where_the_numbers_do_not_hold_without_it():
    def step(on):
        return 60.0 if "compile" in on else 90.0 if "fused-optimizer" in on else 100.0

    track = Simulated(step)
    honest = track.check
    track.check = lambda changes, *asked, **more: (
        Checked("drifted", "alone")
        if [each.name for each in changes] == ["compile"]
        else honest(changes, *asked, **more)
    )
    found = search(track, [candidate("fused-optimizer"), candidate("compile")])
    assert [each.name for each in found.kept] == ["fused-optimizer", "compile"]
