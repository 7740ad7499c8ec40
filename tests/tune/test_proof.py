"""The proof of what a search has kept, on a simulated script."""

from dataclasses import replace

import pytest

from pitstop.compare.pairs import Pairs
from pitstop.tune.found import Asked, Found, Listener, leading
from pitstop.tune.plan import Toggle, Wanted
from pitstop.tune.proof import Proof
from pitstop.tune.search import Search
from pitstop.tune.track import RunError
from tune.simulation import (
    COSTS,
    LOADER,
    Simulated,
    candidate,
    loader_bound,
    search,
)


def test_the_proof_is_made_of_fresh_alternating_runs_of_the_untouched_script_and_all_kept():
    track = Simulated(loader_bound)
    search(track, [LOADER])
    proof = track.log[-12:]
    a, b = ("sample", ()), ("sample", ("loader",))
    assert proof == [a, b, b, a] * 3


class FarApart(Simulated):
    """Fresh runs lie so far apart that the machine is another one each time; blocks do not."""

    def sample(self, changes):
        self.noise = 0.5
        try:
            return super().sample(changes)
        finally:
            self.noise = 0.003


def test_where_fresh_runs_are_not_clear_all_that_is_kept_is_switched_in_one_process():
    track = FarApart(lambda on: 100.0 * 0.9 ** len(on))
    found = search(track, [candidate("tf32"), candidate("bf16")])
    assert [kind for kind, _ in track.log[-13:]] == ["sample"] * 12 + ["blocks"]
    step = leading(found, "time")
    assert (step.verdict, step.pairs) == ("better", 6)
    assert step.ratio == pytest.approx(0.81, rel=0.01)  # of both together
    assert step.reason.endswith("by blocks of steps")


@pytest.mark.parametrize(("epoch", "kinds"), [(12, ["blocks"]), (0, ["sample"] * 12)])
def test_whole_epochs_prove_what_changes_how_they_begin(epoch, kinds):
    change = candidate("loader", alone=True).change
    loader = replace(LOADER, change=change, bursts=lambda *_: 4, epoch=epoch)
    track = Simulated(loader_bound)
    found = search(track, [loader])
    proof = [kind for kind, _ in track.log][track.log.index(("blocks", ("loader",))) + 1 :]
    assert proof == kinds
    assert leading(found, "time").verdict == "better"
    assert leading(found, "time").reason.endswith("by blocks of whole epochs") is bool(epoch)


def test_what_cannot_be_switched_is_proved_by_fresh_runs_alone():
    track = FarApart(lambda on: 100.0 if "loader" not in on else 30.0)
    found = search(track, [LOADER])
    assert [kind for kind, _ in track.log[-24:]] == ["sample"] * 24
    assert leading(found, "time").pairs > 6


def test_the_proof_of_a_short_script_has_a_few_blocks_in_each_of_some_processes():
    track = Simulated(lambda on: 500.0 if on else 1000.0, length=15)
    costs = replace(COSTS, step_s=1.0, steps=9, toggle=Toggle(steps=1, warmup=3, lead=0))
    track.budget_s = costs.null_s + costs.of_length(15).candidate_s(candidate("tf32")) + 60
    found = Search(track, costs.of_length(15), Asked()).run([candidate("tf32")])
    assert (found.proof[0].verdict, found.proof[0].pairs) == ("better", 6)
    assert (track.runs("blocks", "tf32"), track.runs("sample")) == (4, 0)


@pytest.mark.parametrize(("more_s", "kinds"), [(-1.0, {"blocks"}), (1.0, {"sample"})])
def test_a_proof_by_fresh_runs_leaves_room_for_the_blocks_that_settle_what_they_leave_open(
    more_s, kinds
):
    track = Simulated(lambda on: 80.0 if on else 100.0)
    track.budget_s = COSTS.pairs_s(6) + COSTS.blocks_s(6) + more_s
    proof = Proof(track, COSTS, Asked(), Found(kept=(Wanted("tf32"),)), [candidate("tf32")])
    proof.run(Listener())
    assert proof.found.proof[0].verdict == "better"
    assert {kind for kind, _ in track.log} == kinds


def test_the_proof_of_a_script_too_short_for_blocks_has_none():
    track = Simulated(lambda on: 99.0 if on else 100.0, length=12, noise=0.2)
    costs = COSTS.of_length(12)
    assert costs.pairs == 0
    proof = Proof(track, costs, Asked(), Found(kept=(Wanted("tf32"),)), [candidate("tf32")])
    proof.run(Listener())
    assert proof.found.proof[0].verdict == "inconclusive"
    assert {kind for kind, _ in track.log} == {"sample"}


def test_ctrl_c_in_the_proof_keeps_its_finished_pairs():
    track = Simulated(lambda on: 80.0 if on else 100.0, interrupt_at=2 + 4 + 2)
    found = search(track, [candidate("tf32")])
    assert found.interrupted
    assert leading(found, "time").pairs == 2


def test_a_proof_that_breaks_is_none():
    track = Simulated(lambda on: 80.0 if on else 100.0)
    honest = track.sample

    def sample(changes):
        if changes:
            raise RunError("out-of-memory", "CUDA out of memory")
        return honest(changes)

    track.sample = sample
    found = search(track, [candidate("tf32")])
    assert (found.broken, found.proof) == ("CUDA out of memory", ())


def test_where_the_blocks_of_a_proof_come_to_nothing_fresh_runs_go_on():
    class NoBlocks(FarApart):
        def blocks(self, changes, toggle):
            found = super().blocks(changes, toggle)
            return Pairs() if toggle.changes == 2 else found

    track = NoBlocks(lambda on: 100.0 * 0.9 ** len(on))
    found = search(track, [candidate("tf32"), candidate("bf16")])
    assert track.log.index(("blocks", ("tf32", "bf16"))) < len(track.log) - 24
    assert leading(found, "time").pairs == 24
