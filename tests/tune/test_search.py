"""What a search tries first, what it keeps, and what it makes of trouble, on a simulated bench."""

from dataclasses import replace

import pytest

from pitstop.tune.checked import RunError
from pitstop.tune.found import Listener
from tune.simulated import Simulated, candidate, gains, search, verdicts

BF16, LAST, FUSED = (
    candidate("bf16", 0.4),
    candidate("channels-last", 0.1),
    candidate("fused", 0.05),
)


def names(found):
    return [each.name for each in found.kept]


def test_what_findings_promise_is_tried_together_first():
    bench = Simulated(gains(bf16=0.4, fused=0.1, **{"channels-last": 0.1}))
    found = search(bench, BF16, LAST, FUSED)
    asked = [on for what, on in bench.log if what == "blocks"]
    assert asked[0] == ("bf16", "channels-last", "fused")
    assert names(found) == ["bf16", "channels-last", "fused"]
    assert set(verdicts(found).values()) == {"kept"}
    before, after = found.step_ms
    assert after / before == pytest.approx(0.6 * 0.9 * 0.9, rel=0.02)


def test_the_first_result_is_there_before_anything_is_left_out():
    seen = []
    bench = Simulated(gains(bf16=0.4, fused=0.1))
    listener = Listener(kept=lambda found: seen.append((len(bench.log), names(found))))
    search(bench, BF16, FUSED, listener=listener)
    assert seen[0][1] == ["bf16", "fused"]
    assert [what for what, _ in bench.log[: seen[0][0]]].count("blocks") == 1


def test_a_passenger_goes_and_the_reason_is_data():
    found = search(Simulated(gains(bf16=0.4)), BF16, LAST, FUSED)
    assert names(found) == ["bf16"]
    assert {each.change: each.reason for each in found.trials if each.reason} == {
        "channels-last": "passenger",
        "fused": "passenger",
    }


def test_two_that_pay_only_together_are_kept_together():
    both = lambda on: 70.0 if {"norm", "nhwc"} <= set(on) else 110.0 if on else 100.0  # noqa: E731
    found = search(Simulated(both), candidate("norm", 0.2), candidate("nhwc", 0.2))
    assert names(found) == ["norm", "nhwc"]


def test_what_runs_only_beside_another_stays():
    def step_ms(on):
        if set(on) == {"graphs"}:
            raise RunError("failed", "no pool")
        return 100.0 - 30 * len(on)

    found = search(Simulated(step_ms), candidate("nhwc", 0.2), candidate("graphs", 0.4))
    assert set(names(found)) == {"graphs", "nhwc"}
    notes = {each.change: each.note for each in found.trials}
    assert notes["nhwc"] == "part of what was faster together; apart: no pool"


def test_what_drifts_is_found_by_halves_and_the_rest_is_kept():
    bench = Simulated(gains(bf16=0.4, fused=0.1, **{"channels-last": 0.2}), wrong=("fused",))
    found = search(bench, BF16, LAST, FUSED)
    assert set(names(found)) == {"bf16", "channels-last"}
    assert verdicts(found)["fused"] == "drifted"


def test_what_kills_the_process_costs_only_itself():
    bench = Simulated(gains(bf16=0.4, fused=0.1), kills=("channels-last",))
    found = search(bench, BF16, LAST, FUSED)
    assert set(names(found)) == {"bf16", "fused"}
    (dead,) = [each for each in found.trials if each.change == "channels-last"]
    assert (dead.verdict, dead.note) == ("failed", "channels-last ended by signal 11")


def test_a_cheap_change_that_nothing_promises_has_its_turn_before_fresh_runs():
    loader = candidate("loader", toggles=False)
    bench = Simulated(gains(fused=0.2, loader=0.5))
    found = search(bench, candidate("fused"), loader)
    order = [on for what, on in bench.log if what in {"blocks", "times"}]
    assert order[:2] == [("fused",), ("fused", "loader")]
    assert names(found) == ["fused", "loader"]


def test_without_room_for_fresh_runs_what_can_be_switched_is_still_decided():
    bench = Simulated(gains(fused=0.2), budget_s=40.0)
    found = search(bench, candidate("fused"), candidate("loader", toggles=False))
    assert names(found) == ["fused"]
    assert found.untried == ("loader",)


def test_the_budget_is_never_overrun_by_a_new_trial():
    many = [candidate(f"c{number}", 0.01) for number in range(30)]
    bench = Simulated(gains(), budget_s=120.0, noise=0.05)
    search(bench, *many)
    assert bench.clock_s <= 120.0


def test_without_twins_fresh_runs_tell_the_numbers_in_one_line():
    bench = Simulated(gains(bf16=0.4), twins_work=False, budget_s=900.0)
    found = search(bench, BF16)
    assert names(found) == ["bf16"]
    assert found.notes == ("no twin steps: its steps cannot be repeated; fresh runs tell instead",)
    assert ("check", ("bf16",)) in bench.log


def test_of_several_sets_of_options_the_fastest_is_kept():
    def step_ms(on):
        return {None: 100.0, 2: 80.0, 1: 60.0}[on.get("threads", {}).get("threads")]

    threads = candidate("threads", options=({"threads": 2}, {"threads": 1}))
    found = search(Simulated(step_ms), threads)
    assert [each.options for each in found.kept] == [{"threads": 1}]


def compiled_first_slow(on):
    """A layout that helps a compiler alone."""
    if "compile" in on:
        return 50.0 if "channels-last" in on else 90.0
    return 104.0 if "channels-last" in on else 100.0


COMPILE = candidate("compile", late=True, beside=("channels-last",), setups_s=(30.0,))


def test_a_layout_that_is_no_gain_by_itself_is_tried_beside_a_compiler_and_kept():
    bench = Simulated(compiled_first_slow, setups_s={"compile": 24.0})
    found = search(bench, LAST, COMPILE)
    assert names(found) == ["channels-last", "compile"]
    assert verdicts(found) == {"channels-last": "kept", "compile": "kept"}
    notes = {each.change: each.note for each in found.trials}
    assert notes["channels-last"] == "no gain by itself, part of compile"
    assert notes["compile"].startswith("its first step takes 24 s: pays after 4")


def test_where_they_are_no_gain_together_a_compiler_is_tried_by_itself():
    alone = lambda on: 80.0 if set(on) == {"compile"} else 120.0 if on else 100.0  # noqa: E731
    assert names(search(Simulated(alone), LAST, COMPILE)) == ["compile"]
    bench = Simulated(compiled_first_slow, wrong=("channels-last",))
    assert names(search(bench, LAST, COMPILE)) == ["compile"]


@pytest.mark.parametrize(("took_s", "second"), [(20.0, True), (200.0, False)])
def test_what_one_compiler_took_tells_whether_there_is_room_for_the_next(took_s, second):
    options = ({"scope": "blocks"}, {"scope": "whole"})
    compiles = candidate("compile", late=True, options=options, setups_s=(20.0, 60.0))
    bench = Simulated(gains(compile=0.3), setups_s={"compile": took_s})
    found = search(bench, compiles)
    assert ("compile scope=whole" in found.untried) != second


def test_a_rival_of_what_is_kept_is_not_tried():
    found = search(Simulated(gains(bf16=0.4)), BF16, candidate("fp16", rivals=("bf16",)))
    assert found.trials[-1].note == "bf16 is kept"


def test_ctrl_c_leaves_what_is_known_by_then():
    bench = Simulated(gains(bf16=0.4, fused=0.1), interrupt_at=7)
    found = search(bench, BF16, FUSED)
    assert found.interrupted
    assert names(found) == ["bf16", "fused"]


def test_memory_is_compared_by_peaks():
    bench = Simulated(gains(), peaks_gib={"checkpointing": -3})
    found = search(bench, candidate("checkpointing"), candidate("fused"), goal="memory")
    assert names(found) == ["checkpointing"]


@pytest.mark.slow
def test_none_of_200_searches_keeps_what_brings_nothing():
    kept = []
    for seed in range(200):
        bench = Simulated(gains(bf16=0.1), noise=0.04, seed=seed, budget_s=600.0)
        many = [candidate("bf16", 0.1), *(candidate(f"c{n}", 0.02) for n in range(4))]
        kept += [name for name in names(search(bench, *many)) if name != "bf16"]
    assert kept == []


def what_if(*places):
    one = candidate("leave-out", options=[{"at": each} for each in places])
    when = replace(one.change.when, what_if=True)
    return replace(one, change=replace(one.change, when=when))


def test_what_an_edit_is_worth_is_tried_first_and_never_kept():
    bench = Simulated(gains(**{"leave-out": 0.3, "fused": 0.2}))
    found = search(bench, what_if("loss.py:96", "logs.py:1"), FUSED)
    assert names(found) == ["fused"]
    assert found.what_if.places == ("loss.py:96", "logs.py:1")
    assert found.what_if.lost == ("a log",)
    assert bench.log[0][1] != ("fused",)
    assert verdicts(found)["leave-out at=loss.py:96"] == "what-if"


def test_an_edit_whose_numbers_drift_or_that_brings_nothing_is_worth_nothing():
    drifts = Simulated(gains(**{"leave-out": 0.3}), wrong=("leave-out",))
    found = search(drifts, what_if("loss.py:96"))
    assert found.what_if is None
    assert verdicts(found) == {"leave-out at=loss.py:96": "drifted"}
    idle = search(Simulated(gains()), what_if("loss.py:96"))
    assert idle.what_if is None
    assert verdicts(idle) == {"leave-out at=loss.py:96": "not-faster"}
