"""Forms that take turns, and what is made of their steps."""

import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.workloads import edits, forms, results_text
from pitstop.workloads.before_after import compared
from pitstop.workloads.forms import Form
from pitstop.workloads.lanes import WARMUP, rounds, started
from pitstop.workloads.results import BenchResult, Gain, Measured, Quality, load_all, save_all

SCRIPT = """
import sys, threading, time
from pathlib import Path
from pitstop.workloads.paced import Pace

pace = Pace(open(sys.argv[1], "a"), sys.stdout)
sys.stdout = pace

def beat():
    while True:
        Path("beats").open("a").write(".")
        time.sleep(0.01)

threading.Thread(target=beat, daemon=True).start()
look = pace.phase("look", lambda: time.sleep(0.05))
look()
for step in range(1, 9):
    print(f"[step {step}/8] loss=1 time=0.1s")
    if step == 5:
        look()
{last}
"""


@dataclass(frozen=True, slots=True)
class Toy(Form):
    last: str = "print('[done] batch=2')"

    def command(self, record, options):
        script = Path(record).with_name("toy.py")
        script.write_text(textwrap.dedent(SCRIPT).replace("{last}", self.last))
        return [sys.executable, str(script), str(record)]


def test_forms_take_turns_and_nothing_goes_on_in_one_that_is_held(tmp_path):
    toys = [Toy("one", "toy", ()), Toy("other", "toy", ())]
    with started(toys, (), {"PYTHONPATH": ":".join(sys.path)}, tmp_path) as lanes:
        for lane in lanes:
            lane.warm_up()
        assert [lane.warm for lane in lanes] == [WARMUP, WARMUP]
        before = [(lane.folder / "beats").stat().st_size for lane in lanes]
        time.sleep(0.1)
        assert [(lane.folder / "beats").stat().st_size for lane in lanes] == before
        rounds(lanes, 1, (4,), lambda: False)
        assert [len(lane.turns) for lane in lanes] == [4, 4]
        assert compared(*lanes).pairs == 4
        for lane in lanes:
            assert lane.to_the_end()[-1] == "[done] batch=2"
            assert len(lane.steps) == 8 - WARMUP + 1
            (look,) = lane.phases["look"]  # the one before the first step had company
            assert look > 0.04 > max(lane.steps)  # and is a part of no step
            assert lane.host_bytes > 0


def test_a_form_that_fails_says_its_last_words(tmp_path):
    toy = Toy("one", "toy", (), last="raise SystemExit('no room left')")
    with started([toy], (), {"PYTHONPATH": ":".join(sys.path)}, tmp_path) as (lane,):
        lane.warm_up()
        with pytest.raises(PitstopError, match=r"toy, one: .*no room left"):
            lane.to_the_end()


@pytest.mark.parametrize("name", forms.names())
def test_a_waterfall_has_each_edit_alone_and_in_sum(name):
    every = [each.name for each in edits.load(name)]
    made = forms.waterfall(name)
    assert [each.words[1] for each in made[: len(every)]] == every
    assert [each.words[1].split("+") for each in made[len(every) :]] == [
        every[:last] for last in range(2, len(every))
    ]


@pytest.mark.parametrize("name", forms.names())
def test_the_samples_of_a_step_are_those_that_the_system_prints(name):
    settings = forms.settings(name)
    assert settings.small.options[0] == "--small"
    assert settings.small.batch > 0 < settings.full.batch


def faster(ratio, low, high, verdict="better"):
    return Comparison("step", verdict, ratio, low, high, 6, before=100.0, after=100 * ratio)


def test_results_are_read_as_they_were_written_and_told(tmp_path):
    one = Measured("as found", 100.0, 99.0, 101.0, 20.0, 5.0, 2**30, 2**31, {"validation": 500.0})
    other = Measured(
        "fast", 50.0, 49.0, 51.0, 40.0, 0.0, 2**29, 2**31, {}, Quality("psnr", 20.0, 30.5, 40),
        faster(0.5, 0.4, 0.625),
    )  # fmt: skip
    gain = Gain("loader", "Workers", faster(0.8, 0.5, 1.0), faster(0.9, 0.8, 1.25, "inconclusive"))
    result = BenchResult(
        "toy", "full", "a GPU", "2.11", "abc", "2026-11-19", "pitstop bench", "", (one, other),
        (gain,),
    )  # fmt: skip
    save_all(tmp_path, [result])
    assert load_all(tmp_path) == [result]
    told = results_text.table(result)
    assert "2.00x (1.60 to 2.50)" in told
    assert "20 to 30.5, 40 steps" in told
    assert "1.11x (0.80 to 1.25), inconclusive" in told
    assert result.fast == other
