"""Runs of a script that are scripted instead of started."""

from dataclasses import dataclass, field

from pitstop.compare.quantities import Sample
from pitstop.core.evidence import Evidence, Step
from pitstop.profile.read.runs import About
from pitstop.tune.change import Change
from pitstop.tune.guard.readings import Readings
from pitstop.tune.plan import Outcome, Wanted
from pitstop.tune.runs.endings import Ending


def change(name, effect, precision="float32", environment=None):
    return Change(name, effect, ("time",), "", lambda _: None, precision, environment=environment)


CHANGES = {
    each.name: each
    for each in (
        change("exact", "exact"),
        change("fused", "rounding"),
        change("bf16", "rounding", "bfloat16"),
        change("loader", "other-randomness"),
        change("allocator", "exact", environment=lambda _: {"ALLOC": "x"}),
    )
}


ENDED = Ending(0)


@dataclass
class Script:
    """Losses of a run by what is asked of it; what was asked is kept."""

    losses: object  # callable: plan -> losses
    ending: Ending = ENDED
    steps: int = 6
    psnr: object = lambda _: 30.0
    declined: str = ""
    batch: object = lambda _: "same"
    effect: object = ""  # of the change on this script's numbers, or a function of its name
    first_ms: float = 100.0  # the first step
    torch: str = "2.13.0"
    plans: list = field(default_factory=list)
    settings: list = field(default_factory=list)

    def run_trial(self, words, wanted, folder, settings):
        assert wanted.folder == ""
        self.plans.append(wanted)
        self.settings.append(settings)
        folder.mkdir(parents=True)
        return Scripted(self, wanted)


class Scripted:
    steps_ms = ()

    def __init__(self, script, wanted):
        losses = tuple(script.losses(wanted))
        steps = (Step(script.first_ms), *[Step(100.0)] * (script.steps - 1)) * bool(script.steps)
        steps = tuple(map(Step, self.steps_ms)) or steps
        self.evidence = Evidence(steps=steps, warmup_steps=min(3, script.steps))
        effect = script.effect if callable(script.effect) else lambda _: script.effect
        self.outcomes = [
            Outcome(each.name, {}, 1, script.declined, effect(each.name)) for each in wanted.changes
        ]
        self.readings = Readings(losses, batches=(script.batch(wanted),) * len(losses))
        self.recording = Sample(self.evidence, 4, (f"psnr={script.psnr(wanted)}",))
        self.ending = script.ending(wanted) if callable(script.ending) else script.ending
        self.peak_bytes = 2**30
        self.about = About(torch=script.torch)


def wanted(*names):
    return tuple(Wanted(name) for name in names)


def rounding(asked):
    """Moved weights and changes that round part by a little, bfloat16 by more."""
    size = {"float32": 1e-4, "bfloat16": 1e-2}.get(asked.perturb, 0.0)
    names = {each.name for each in asked.changes}
    size += (1e-4 if "fused" in names else 0) + (1e-2 if "bf16" in names else 0)
    return [1.0 + size * step for step in range(6)]
