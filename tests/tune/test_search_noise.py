"""What a search makes of steps that come in bursts, and of others who use the machine."""

from dataclasses import replace

import pytest

from pitstop.compare.pairs import Pairs
from pitstop.tune.change import When
from tune.simulation import LOADER, Simulated, candidate, loader_bound, search, verdicts


@pytest.mark.parametrize(
    ("untouched", "with_workers", "workers", "steps"),
    [(0.05, 0.05, 2, 4), (0.05, 0.9, 2, 8), (0.05, 0.9, 16, 16), (0.9, 0.05, 2, 8)],
)
def test_what_is_tried_on_top_of_bursts_is_timed_over_whole_ones(
    untouched, with_workers, workers, steps
):
    """Workers that cannot keep up give their batches together: 80, 2, 80, 2 ms."""
    toggles = []
    loader = replace(LOADER, options=({"workers": workers},), bursts=lambda *_: workers)
    track = Simulated(loader_bound)
    honest = track.check

    def check(changes, toggle=None, patience_s=None, new=1):
        toggles.append((changes[-1].name if changes else "", toggle))
        noise = with_workers if any(each.name == "loader" for each in changes) else untouched
        return replace(honest(changes, toggle, patience_s, new), noise=noise)

    track.check = check
    search(track, [loader, candidate("tf32")])
    assert dict(toggles)["tf32"].steps == steps


@pytest.mark.parametrize(("slower", "verdict"), [(1.0, "kept"), (2.0, "noisy")])
@pytest.mark.parametrize("quiet", [True, False])
def test_fewer_threads_are_not_kept_for_what_others_did_meanwhile(slower, verdict, quiet):
    """On a machine that somebody else uses by now, anything that takes fewer cores is faster."""

    class Busy(Simulated):
        def _switched(self, changes, toggle, first=0):
            found = super()._switched(changes, toggle, first)
            return Pairs(
                *(tuple(slower * ms for ms in side) for side in (found.before, found.after))
            )

    fewer = candidate("threads")
    fewer = replace(fewer, change=replace(fewer.change, when=When(quiet=quiet)))
    (trial,) = search(Busy(lambda on: 60.0 if on else 100.0), [fewer]).trials
    assert trial.verdict == (verdict if quiet else "kept")
    assert ("others use the machine" in trial.note) is (trial.verdict == "noisy")


@pytest.mark.parametrize(
    ("quiet_ms", "tf32", "verdict"),
    [(100.0, 1.0, "kept"), (50.0, 1.0, "noisy"), (25.0, 0.5, "kept")],
)
def test_fewer_threads_are_held_to_what_a_quiet_minute_has_shown(quiet_ms, tf32, verdict):
    """The first runs were disturbed, tf32's blocks were not, and those of threads are again."""

    class Disturbed(Simulated):
        def _switched(self, changes, toggle, first=0):
            found = super()._switched(changes, toggle, first)
            times = quiet_ms / 100 if changes[-1].name == "tf32" else 1.0
            return Pairs(
                *(tuple(times * ms for ms in side) for side in (found.before, found.after))
            )

    def step_ms(on):
        return 100.0 * (tf32 if "tf32" in on else 1.0) * (0.4 if "threads" in on else 1.0)

    fewer = candidate("threads")
    fewer = replace(fewer, change=replace(fewer.change, when=When(quiet=True)))
    found = search(Disturbed(step_ms), [candidate("tf32"), fewer])
    assert verdicts(found)["threads"] == verdict


@pytest.mark.parametrize(("others", "verdict"), [(0.1, "kept"), (0.5, "noisy")])
def test_fewer_threads_are_not_kept_on_a_machine_that_others_use_all_along(others, verdict):
    class Busy(Simulated):
        def check(self, *given, **named):
            return replace(super().check(*given, **named), others=others)

    fewer = candidate("threads")
    fewer = replace(fewer, change=replace(fewer.change, when=When(quiet=True)))
    (trial,) = search(Busy(lambda on: 60.0 if on else 100.0), [fewer]).trials
    assert trial.verdict == verdict
