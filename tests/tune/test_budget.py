"""What runs cost, and what a budget has room for."""

from dataclasses import replace

import pytest

from pitstop.core.errors import PitstopError
from pitstop.tune.budget import IN_BURSTS, choose, estimate, toggled_steps, within
from pitstop.tune.found import Asked
from pitstop.tune.pit_stop import expected
from pitstop.tune.plan import Toggle
from pitstop.tune.standing import Standing
from pitstop.tune.track import Checked
from tune.simulation import COSTS, candidate

TOGGLED, FRESH = candidate("tf32"), candidate("loader", toggles=False, options=({}, {}))


def test_a_toggled_run_has_a_step_for_each_switch_where_steps_are_short():
    assert toggled_steps(Toggle(steps=4, warmup=6)) == 6 + 12 * 4 + 7
    assert choose(5.0, 0.3).toggle.lead == 1
    assert toggled_steps(choose(5.0, 1.4).toggle) == 3 + 12 * 1


def test_fresh_pairs_cost_a_start_each_and_blocks_one_in_all():
    assert COSTS.run_s == pytest.approx(7.0)
    assert COSTS.timing_s(FRESH) == pytest.approx(12 * 7.0)
    assert COSTS.timing_s(TOGGLED) == pytest.approx(5 + 61 * 0.1)
    assert COSTS.candidate_s(FRESH) == pytest.approx(14 * 7.0)


@pytest.mark.parametrize(("step_s", "steps", "block"), [(0.001, 63, 20), (0.3, 23, 2), (30, 9, 1)])
def test_runs_are_as_long_as_steps_allow(step_s, steps, block):
    costs = choose(5.0, step_s)
    assert (costs.steps, costs.toggle.steps) == (steps, block)
    assert choose(5.0, step_s, steps=11).steps == 11


@pytest.mark.parametrize(("start_s", "steps"), [(5.0, 4), (24.0, 10), (300.0, 16)])
def test_all_blocks_together_take_about_as_long_as_the_start(start_s, steps):
    assert choose(start_s, 0.05).toggle.steps == steps


def test_a_first_look_has_more_pairs_where_they_cost_little():
    """Half a second of steps for each pair, beside seven for the run."""
    assert COSTS.first_look(1e9).pairs == 12
    assert COSTS.first_look(COSTS.run_s + 6.5).pairs == 6
    assert COSTS.first_look(0.0).pairs == 6
    slow = replace(COSTS, start_s=60.0)
    assert slow.first_look(1e9).pairs == 24


@pytest.mark.parametrize(("step_s", "warmup"), [(0.001, 6), (0.5, 4), (30, 3)])
def test_long_steps_warm_up_in_few(step_s, warmup):
    assert choose(5.0, step_s).toggle.warmup == warmup


def test_the_estimate_counts_every_run():
    found = estimate(COSTS, [TOGGLED, FRESH])
    assert found.fewest_runs == 2 + 1 + 2
    assert found.most_runs == 5 + 1 + 0 + 12 + 12
    assert estimate(COSTS, [candidate("compile", alone=True)]).most_runs == 4 + 1 + 12
    assert found.least_s == pytest.approx(5 * 7.0)
    assert found.most_s == pytest.approx(6 * 7 + 6.1 + 84 + 1.25 * 84)


def left(room_s):
    """So many seconds, of which the proof of two or more has its share."""
    return lambda *tried: room_s - COSTS.reserve_s(*tried)


def test_a_budget_takes_the_first_candidates_it_has_room_for():
    room = COSTS.candidate_s(TOGGLED)  # its trial is its proof
    assert within(COSTS, [TOGGLED, FRESH], left(room)) == [TOGGLED]
    assert within(COSTS, [TOGGLED, FRESH], left(room - 1)) == []
    assert within(COSTS, [FRESH, TOGGLED], left(room)) == [TOGGLED]
    both = 2 * room + COSTS.proof_s(switched=True)
    assert within(COSTS, [TOGGLED, TOGGLED], left(both - 1)) == [TOGGLED]
    assert within(COSTS, [TOGGLED, TOGGLED], left(both)) == [TOGGLED, TOGGLED]


def test_more_options_are_tried_where_that_takes_no_room_from_later_candidates():
    three = candidate("loader", options=({"workers": 8}, {"workers": 4}, {"workers": 16}))
    both = COSTS.candidates_s([three.first(1), TOGGLED]) + COSTS.proof_s(switched=True)
    assert within(COSTS, [three, TOGGLED], left(both)) == [three.first(1), TOGGLED]
    two = COSTS.candidates_s([three.first(2), TOGGLED]) + COSTS.proof_s(switched=True)
    assert within(COSTS, [three, TOGGLED], left(two)) == [three.first(2), TOGGLED]
    assert within(COSTS, [three, TOGGLED], left(two - 1)) == [three.first(1), TOGGLED]
    assert within(COSTS, [three], left(two)) == [three]
    assert within(COSTS, [TOGGLED, three], left(1e9)) == [TOGGLED, three]


def test_what_comes_in_bursts_settles_first_and_is_timed_over_a_whole_one():
    loader = candidate("loader", options=({"workers": 8},), alone=True)
    loader = replace(loader, bursts=lambda options, _: options.get("workers", 1))
    toggle = COSTS.settled(TOGGLED, loader).toggle
    assert (toggle.lead, toggle.lead_off, toggle.steps) == (16, 2, 8)
    assert COSTS.settled(candidate("loader", burst=1)).toggle.lead == 2
    assert COSTS.settled(TOGGLED) == COSTS.settled() == COSTS
    switches = 3 * 16 + 4 * 2  # on and off
    blocks_s = 5 + (6 + switches + 12 * 8) * 0.1
    assert COSTS.timing_s(loader) == pytest.approx(blocks_s)
    assert COSTS.settled(TOGGLED, loader).proof_s(switched=True) == pytest.approx(1.25 * blocks_s)
    assert estimate(COSTS, [loader]).most_runs == 4 + 1 + 12


@pytest.mark.parametrize(
    ("epoch", "lead", "steps"),
    [(0, 8, 8), (1, 1, 8), (3, 3, 9), (12, 8, 12), (20, 8, 20), (21, 8, 8)],  # unknown; too long
)
def test_of_short_epochs_whole_ones_are_timed_where_their_beginning_counts(epoch, lead, steps):
    loader = replace(candidate("loader", burst=4), epoch=epoch)
    toggle = COSTS.settled(TOGGLED, loader).toggle
    assert (toggle.lead, toggle.lead_off, toggle.steps) == (lead, lead, steps)
    assert toggle.epochs is (0 < epoch <= 20)


@pytest.mark.parametrize(
    ("costs", "noise", "burst", "steps"),
    [
        (COSTS, IN_BURSTS, 0, 8),
        (COSTS, IN_BURSTS, 12, 12),
        (COSTS, IN_BURSTS - 0.01, 12, 4),
        (COSTS.of_blocks(20), 0.9, 0, 20),
        (replace(COSTS, step_s=5.0, steps=9, toggle=Toggle(1)), 0.9, 0, 2),
        (replace(COSTS, step_s=5.0, steps=9, toggle=Toggle(1)), 0.9, 4, 4),
        (COSTS.of_length(40), 0.9, 0, 2),  # no script is so short that blocks do not fit
    ],
)
def test_where_steps_come_in_bursts_blocks_hold_whole_ones_if_there_is_room(
    costs, noise, burst, steps
):
    assert costs.evened(noise, burst).toggle.steps == steps


def test_bursts_of_what_was_kept_before_count_as_well():
    standing = Standing(None, COSTS, Asked())
    standing.keep([candidate("loader", burst=16)], Checked(), 0.0)
    assert standing.costs.toggle.steps == 4
    standing.keep([candidate("tf32")], Checked(noise=0.9), 0.0)
    assert standing.costs.toggle.steps == 16


def test_peaks_take_no_pairs():
    costs = replace(COSTS, timed=False)
    assert costs.candidate_s(TOGGLED) == costs.run_s
    assert costs.candidate_s(FRESH) == 2 * costs.run_s
    assert costs.reserve_s(TOGGLED) == costs.proof_s(switched=False)


def test_blocks_that_take_longer_than_fresh_runs_are_not_made():
    loader = candidate("loader", burst=64, alone=True)
    assert COSTS.timing_s(loader) == COSTS.pairs_s(6)
    assert estimate(COSTS, [loader]).most_runs == 4 + 12 + 12


def test_how_many_pairs_are_left():
    assert COSTS.affordable(14.5 * 3, toggles=False) == 3
    assert COSTS.affordable(1e9, toggles=False) == 24
    assert COSTS.affordable(COSTS.blocks_s(12), toggles=True) == 12
    assert COSTS.affordable(1.0, toggles=True) == 0
    assert COSTS.affordable(COSTS.blocks_s(6), toggles=True, known=6) == 12


def test_runs_that_start_faster_than_the_first_are_planned_so():
    assert COSTS.as_seen(2 * 4.0, 20).run_s == pytest.approx(4.0)
    assert COSTS.as_seen(2 * 9.0, 20) == COSTS  # a machine that was busy meanwhile
    assert COSTS.as_seen(0.0, 20).start_s > 0


@pytest.mark.parametrize("done", [31, 43])
def test_blocks_become_shorter_where_the_script_ends_early(done):
    costs = choose(5.0, 0.088)
    fitting = costs.as_seen(2 * costs.run_s, done)
    assert costs.steps > done
    assert toggled_steps(fitting.toggle) < done <= toggled_steps(costs.toggle)
    assert fitting.toggle.steps == (done - 1 - 6) // 12 - 1
    assert costs.as_seen(2 * costs.run_s, 20).toggle.steps == 1  # there it is of no use


def test_a_script_that_goes_on_keeps_its_blocks():
    """Three steps less are no end: calls of other models may have been counted at first."""
    costs = choose(5.0, 0.088)
    assert costs.as_seen(2 * costs.run_s, costs.steps - 3).toggle == costs.toggle


def test_the_start_of_a_short_script_is_what_its_own_steps_leave():
    costs = choose(9.0, 0.1).as_seen(2 * (5.0 + 20 * 0.1), 20)
    assert (costs.start_s, costs.run_s) == (pytest.approx(5.0), pytest.approx(7.0))


@pytest.mark.parametrize(("length", "pairs"), [(5, 0), (8, 2), (12, 4), (16, 6), (21, 8), (99, 24)])
def test_a_process_has_an_even_number_of_pairs_of_blocks(length, pairs):
    costs = choose(5.0, 1.0).of_length(length)
    assert costs.pairs == pairs
    assert choose(5.0, 0.02).of_length(24).pairs == 0  # of 20 ms each


def test_what_a_candidate_costs_a_short_script():
    """No run goes on, and six pairs of blocks take two processes, or there are none."""
    long = choose(5.0, 1.0).of_length(12)
    assert long.timing_s(TOGGLED) == pytest.approx(2 * (5 + 3 + 8))
    assert long.candidate_s(TOGGLED) == pytest.approx(5 + 9 + 32)
    short = choose(5.0, 0.02).of_length(24)
    assert short.timing_s(TOGGLED) == short.pairs_s(6)
    assert short.proof_s(switched=True) == short.proof_s(switched=False)


def test_a_pair_of_which_one_run_compiles_takes_that_much_longer():
    assert COSTS.with_compiling(5.5).pairs_s(1) == pytest.approx(COSTS.pairs_s(1) + 5.5)


def test_what_is_announced_names_changes_runs_and_minutes():
    said = expected([TOGGLED, FRESH], COSTS, 600.0)
    assert said.splitlines()[0] == "to try: tf32, loader"
    assert (
        "5 to 30 runs of 20 steps at most, about 35 s to 4.0 minutes (left of the budget: 10 min"
        in said
    )
    assert "compiling not counted" in expected([candidate("compile")], COSTS, 600.0)
    assert "if time is left, which --budget gives: loader" in expected([TOGGLED, FRESH], COSTS, 180)


def test_a_budget_without_room_for_any_change_is_an_error_that_says_what_is_needed():
    with pytest.raises(PitstopError, match=r"too few for any change: tf32 alone .* --budget \d"):
        expected([FRESH, TOGGLED], COSTS, 20.0)
    assert "to try: tf32" in expected([FRESH, TOGGLED], COSTS, 25.0)  # if the disk was cold


def test_longer_blocks_leave_room_for_a_first_look_in_a_script_that_ends():
    assert next(COSTS.calmer(0.2)).toggle.steps == 14
    short = next(COSTS.of_length(150).calmer(0.2))
    assert 4 < short.toggle.steps < 12
    assert short.pairs >= 6
    assert not list(COSTS.of_length(60).calmer(0.2))


@pytest.mark.parametrize(("steps", "length"), [(60, 60), (100, 100), (150, None)])
def test_a_length_is_of_interest_where_a_usual_second_look_takes_more(steps, length):
    """What is known is the least that the script has: some more may do for what comes later."""
    standing = Standing(None, COSTS, Asked())
    standing.ends_after(steps)
    assert standing.costs.length == length
