"""A GPU works behind the script's back: where that counts, its queue is emptied first."""

import subprocess
import sys
from itertools import cycle

import pytest

pytest.importorskip("torch")

import torch

from pitstop.compare.pairs import LOOKS
from pitstop.compare.quantities import sample
from pitstop.tune import numbers, trials
from pitstop.tune import toggle as toggle_module
from pitstop.tune.plan import Plan, Toggle, Wanted, is_on, read_blocks, read_plan
from pitstop.tune.script import Run
from pitstop.tune.toggle import Blocks
from pitstop.tune.trials import Settings, run_trial
from tune.running import TRAINS


@pytest.fixture
def waits(monkeypatch):
    """Each wait for a GPU that is not there."""
    found = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: found.append(None))
    return found


def waited(steps, waits, folder):
    run = Run(Plan(folder=str(folder), steps=steps))
    try:
        counts = []
        for done in (1, 2, 3):
            run.step_ended(done)
            counts.append(len(waits))
        return counts
    finally:
        run.close()


def test_the_last_step_is_waited_for_and_no_other(waits, tmp_path):
    assert waited(3, waits, tmp_path) == [0, 0, 1]


def test_a_run_without_an_end_is_left_alone(waits, tmp_path):
    assert waited(None, waits, tmp_path) == [0, 0, 0]


def test_a_trial_knows_its_last_step(tmp_path, monkeypatch):
    seen = []

    def record(words, folder, steps, warmup, inspect, also, apart, **known):
        seen.append(read_plan(also[0][1]))
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "record", record)
    with pytest.raises(KeyboardInterrupt):
        run_trial(["python", "train.py"], Plan(), tmp_path / "run", Settings(steps=20))
    assert [each.steps for each in seen] == [20]


class Models:
    """Keeps what is put around the calls of models."""

    def around(self, around, functions):
        self.call = around


def test_nothing_is_read_while_a_graph_is_captured(tmp_path, monkeypatch):
    class OnGpu:
        is_cuda = True

    kept = []
    monkeypatch.setattr(numbers, "tensors_in", lambda _: [OnGpu()])
    monkeypatch.setattr(numbers, "_keep", lambda tensor, *_: kept.append(tensor))
    models = Models()
    numbers.keep_outputs(models, tmp_path, lambda: True)
    for capturing in (True, False):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda now=capturing: now)
        models.call(lambda: None, torch.nn.Linear(1, 1))
    assert len(kept) == 1


def switched(toggle, steps, folder):
    """The state in each of so many steps, and the steps that were timed in each block."""
    on, states = [True], []
    blocks = Blocks(toggle, folder, on.append)
    for done in range(1, steps + 1):
        states.append(on[-1])
        blocks.step_ended(done)
    return states, [(block.on, block.first, block.steps) for block in read_blocks(folder)]


def test_short_steps_are_timed_from_the_second_after_a_switch(tmp_path):
    states, timed = switched(Toggle(steps=2, warmup=3, lead=1), 16, tmp_path)
    assert states == [True, True, False, *[False] * 3, *[True] * 5, *[False] * 5]
    assert timed == [(False, 4, 2), (True, 7, 2), (True, 9, 2), (False, 12, 2), (False, 14, 2)]


def test_each_change_has_its_blocks_with_all_others_on(tmp_path):
    """A step without the next one comes before its first block: it may choose algorithms anew."""
    states, on = [], [True, True, True]
    chosen = [0]

    def choose(member):
        on[:] = [True, True, True]
        chosen[0] = member

    def switch(state):
        on[chosen[0]] = state

    toggle = Toggle(steps=1, warmup=3, lead=0, changes=3, each=True, pairs=2, looks=False)
    blocks = Blocks(toggle, tmp_path, switch, choose)
    ended = []
    for done in range(1, 18):
        states.append("".join("01"[each] for each in on))
        ended.append(blocks.step_ended(done))
    first, second, third = "011", "101", "110"
    assert states[:12] == [
        "111",
        "111",
        first,
        first,
        *["111"] * 2,
        first,
        *[second] * 2,
        *["111"] * 2,
        second,
    ]
    assert states[12:17] == [third, third, "111", "111", third]
    assert ended.index(True) == 16
    found = read_blocks(tmp_path)
    assert [each.member for each in found] == [0] * 4 + [1] * 4 + [2] * 4
    assert [each.on for each in found] == [False, True, True, False] * 3


def test_each_change_has_a_first_look_before_any_has_a_second(tmp_path):
    """A script may end before all of them are done."""
    chosen = []
    toggle = Toggle(steps=1, warmup=3, lead=0, changes=2, each=True, pairs=LOOKS[1], looks=False)
    blocks = Blocks(toggle, tmp_path, lambda _: None, chosen.append)
    ended = [blocks.step_ended(done) for done in range(1, 90)]
    first, second = LOOKS[:2]
    assert chosen == [0, 1, 0, 1]
    members = [each.member for each in read_blocks(tmp_path)][: 4 * second]
    half = [0] * 2 * first + [1] * 2 * first
    assert members == half + half
    for member in (0, 1):
        states = [each.on for each in read_blocks(tmp_path) if each.member == member]
        assert states[: 2 * second] == [is_on(number) for number in range(2 * second)]
    assert ended.index(True) < 89


def test_what_is_switched_off_may_settle_sooner(tmp_path):
    toggle = Toggle(steps=1, warmup=3, lead=4, lead_off=2)
    _, timed = switched(toggle, 17, tmp_path)
    assert timed == [(False, 5, 1), (True, 10, 1), (True, 11, 1), (False, 14, 1), (False, 15, 1)]
    assert [toggle.length(number) for number in range(6)] == [3, 6, 11, 12, 15, 16]


def test_blocks_begin_anew_where_the_steps_before_were_taken_for_others(tmp_path):
    """A few may also have been skipped: each generator's step was five of a critic's."""
    blocks = Blocks(Toggle(steps=1, warmup=3, lead=0), tmp_path, lambda _: None)
    for done in (1, 2, 3, 4, 5, 6, 9, 10, 1, 2, 3, 4, 5):
        blocks.step_ended(done)
    assert [block.first for block in read_blocks(tmp_path)] == [3, 4]
    blocks.step_ended(3)
    assert not read_blocks(tmp_path)


def test_long_steps_are_all_timed_once_both_states_are_warm(tmp_path):
    states, timed = switched(Toggle(steps=1, warmup=3, lead=0), 8, tmp_path)
    assert states == [True, True, False, False, True, True, False, False]
    assert timed == [(on, 3 + place, 1) for place, on in enumerate(states[3:])]


VALIDATES = """
model = Model()
with torch.no_grad():
    for x, _ in DataLoader(TensorDataset(torch.randn(20, 3, 8, 8), torch.randn(20, 1))):
        model.eval()(x)
model.train()
"""
OFTEN = """
critic = Model()
often = torch.optim.Adam(critic.parameters())  # five times for each step
class Seldom(torch.optim.Adam):
    def zero_grad(self, *given):
        for _ in range(5):
            critic(torch.randn(2, 3, 8, 8)).mean().backward()
            often.step()
        super().zero_grad(*given)
model = Model()
"""


@pytest.mark.parametrize(
    ("first", "arguments", "events"),
    [
        pytest.param(VALIDATES, "", 1, marks=pytest.mark.slow),
        (OFTEN, ", Seldom(model.parameters())", 6),
    ],
)
def test_a_run_whose_numbers_count_goes_on_in_blocks_that_do_not(
    first, arguments, events, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    script = tmp_path / "train.py"
    script.write_text(f"{TRAINS}{first}\ntrain(model{arguments}, epochs=5)")

    def run(toggle, steps):
        plan = Plan((Wanted("bf16"),), seed=0, outputs=True, toggle=toggle)
        folder = tmp_path / f"run-{steps}"
        settings = Settings(steps, step_ends=("optimizer", events))
        return run_trial([sys.executable, str(script)], plan, folder, settings), folder

    checked, _ = run(None, 6)
    assert checked.evidence.step_events == events
    both, folder = run(Toggle(steps=2, warmup=7), 20)  # of epochs of 4, three of which begin here
    assert both.ending.error == ""
    assert [block.on for block in read_blocks(folder)] == [False, True, True]
    assert len(both.evidence.steps) == 6
    assert both.readings == checked.readings
    assert sample(both.recording).batch == sample(checked.recording).batch == 4


def test_numbers_count_though_steps_were_seen_that_were_none(tmp_path, monkeypatch):
    """What makes a step is not known here until the second optimizer has stepped twice."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    script = tmp_path / "train.py"
    script.write_text(f"{TRAINS}{OFTEN}\ntrain(model, Seldom(model.parameters()), epochs=5)")
    plan = Plan((Wanted("bf16"),), seed=0, outputs=True, toggle=Toggle(steps=1, warmup=4, lead=0))
    ran = run_trial([sys.executable, str(script)], plan, tmp_path / "run", Settings(12))
    assert ran.ending.error == ""
    assert len(ran.evidence.steps) == 3
    assert all(ran.readings.learning[-1])
    assert [block.on for block in read_blocks(tmp_path / "run")][:3] == [False, True, True]


def told_enough(off_ms, on_ms, folder, monkeypatch):
    """After how many blocks of one step a run may end, where they take so long in turn."""
    now, series = [0.0], {False: cycle(off_ms), True: cycle(on_ms)}
    monkeypatch.setattr(toggle_module, "perf_counter", lambda: now[0])
    state = [True]
    blocks = Blocks(Toggle(steps=1, warmup=3, lead=0, pairs=24), folder, state.append)
    for done in range(1, 3 + 46):  # at the last look it ends in any case
        now[0] += next(series[state[-1]]) / 1e3 if done > 3 else 1.0
        if blocks.step_ended(done):
            return len(read_blocks(folder))
    return None


@pytest.mark.parametrize(
    ("off_ms", "on_ms", "blocks"),
    [
        ([100.0], [80.0], 12),  # clear at the first look
        ([100.0, 90.0], [104.0, 88.0], 24),  # seems no faster at the second
        ([100.0, 90.0], [94.0, 92.0], None),  # seems so, and is never clear
    ],
)
def test_a_run_may_end_where_its_blocks_tell_enough(off_ms, on_ms, blocks, tmp_path, monkeypatch):
    assert told_enough(off_ms, on_ms, tmp_path, monkeypatch) == blocks


def test_no_rank_ends_by_its_own_times(tmp_path, monkeypatch):
    """The others would wait for it."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert told_enough([100.0], [80.0], tmp_path, monkeypatch) is None
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert told_enough([100.0], [80.0], tmp_path, monkeypatch) == 12
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert told_enough([100.0], [80.0], tmp_path, monkeypatch) is None


@pytest.mark.parametrize(("steps", "lead"), [(1, 0), (2, 0), (2, 1), (3, 1), (4, 1), (5, 1)])
def test_what_a_script_does_every_few_steps_does_not_meet_one_side_alone(steps, lead):
    """As a log line, or the batches of as many workers: else it would seem a gain."""
    toggle = Toggle(steps=steps, warmup=0, lead=lead, pairs=24)
    blocks = [
        range(toggle.length(number + 1) - steps, toggle.length(number + 1)) for number in range(48)
    ]
    for period in range(2, 17):
        for phase in range(period):
            slow = [sum(step % period == phase for step in block) for block in blocks]
            sides = [
                sorted([(is_on(each), slow[each]), (is_on(each + 1), slow[each + 1])])
                for each in range(0, 48, 2)
            ]
            seems = sum((off > on) - (off < on) for (_, off), (_, on) in sides)
            assert abs(seems) < 10  # of 24, where 14 more of one side than of the other are clear


def test_a_trial_ends_where_its_blocks_tell_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    script = tmp_path / "train.py"
    slower = "import time; time.sleep(0.1 * (not torch.is_autocast_enabled('cpu'))); return x + "
    source = TRAINS.replace("return x + ", slower)
    assert source != TRAINS
    script.write_text(f"{source}\ntrain(Model(), epochs=99)\nprint('not to be seen')")
    toggle = Toggle(steps=1, warmup=7, lead=0, pairs=24)
    plan = Plan((Wanted("bf16"),), seed=0, outputs=True, toggle=toggle)
    settings = Settings(toggle.length(48) + 1)
    ran = run_trial([sys.executable, str(script)], plan, tmp_path / "run", settings)
    assert ran.ending.error == ""
    assert len(read_blocks(tmp_path / "run")) == 12
    assert len(ran.evidence.steps) == 6
    assert ran.evidence.steps[-1].loss is not None
    assert "not to be seen" not in ran.recording.printed()


@pytest.mark.parametrize(
    ("change", "outputs", "steps"),
    [
        ("no-empty-cache", True, 7),  # nothing is emptied in all steps whose numbers count
        ("no-empty-cache", False, 40),  # it was, in another run: it may come later
        ("inference-mode", True, 1),  # the script trains
        ("inference-mode", False, 1),
        ("bf16", True, 40),
    ],
)
def test_a_trial_that_will_tell_nothing_ends_at_once(change, outputs, steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    script = tmp_path / "train.py"
    script.write_text(f"{TRAINS}\ntrain(Model(), epochs=99)")
    toggle = Toggle(steps=1, warmup=7, lead=0, pairs=12, looks=False)
    plan = Plan((Wanted(change),), outputs=outputs, toggle=toggle)
    ran = run_trial([sys.executable, str(script)], plan, tmp_path / "run", Settings(40))
    assert ran.ending.error == ""
    assert bool(read_blocks(tmp_path / "run")) is (steps > 7)
    assert len(ran.recording.printed()) == steps - 1  # it prints after each step


def test_the_process_of_the_script_needs_nothing_but_python_and_torch():
    """It may have less installed than ours."""
    code = """
import importlib, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"msgspec", "click", "rich", "psutil", "pynvml"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import pitstop.tune.script, pitstop.tune.changes
for each in pkgutil.iter_modules(pitstop.tune.changes.__path__):
    importlib.import_module(f"pitstop.tune.changes.{each.name}")
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


JOINED = """
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(99):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
"""


def test_ranks_are_switched_together_and_end_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "joined.py").write_text(JOINED)
    toggle = Toggle(steps=1, warmup=7, lead=0, pairs=24)
    plan = Plan((Wanted("bf16"),), seed=0, outputs=True, toggle=toggle)
    launch = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone", "joined.py"]
    settings = Settings(toggle.length(48) + 1, timeout_s=120)
    ran = run_trial([sys.executable, *launch], plan, tmp_path / "run", settings)
    assert ran.ending.error == ""
    assert len(read_blocks(tmp_path / "run")) >= 48
    assert len(ran.recording.evidences) == 2
    assert [each.declined for each in ran.outcomes] == [""]  # not what the launcher says at its end
