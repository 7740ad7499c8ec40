"""Calls that nobody needs hand back stand-ins, and whoever needs them after all is heard."""

import json
import sys

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from pitstop.tune.inside.made import Made
from pitstop.tune.inside.models import Models
from pitstop.tune.inside.script import Script
from pitstop.tune.left_out.calls import Calls, _lines, _Open
from pitstop.tune.left_out.wanted import CALLS
from pitstop.tune.plan import Plan, Wanted

KEPT = []
ON_FROM = 5  # steps: what is looked at first is known by then


class Head(nn.Module):
    """Counts its calls in a list of the test's."""

    def __init__(self, inputs=4, norm=False):
        super().__init__()
        self.layer = nn.Linear(inputs, 2)
        self.norm = nn.BatchNorm1d(2) if norm else nn.Identity()
        self.ran = []

    def forward(self, x):
        self.ran.append(None)
        return self.norm(self.layer(x))


class Stores(Head):
    def forward(self, x):
        KEPT[:] = [super().forward(x)]
        return KEPT[0]


class Counts(Head):
    times = 0

    def forward(self, x):
        self.times += 1
        return super().forward(x)


class Training:
    """A net and a head, stepped by ``step``; the head's calls there are said to be of no use."""

    def __init__(self, step, head, why):
        torch.manual_seed(0)
        self.net, self.head = nn.Linear(4, 4), head
        weights = [*self.net.parameters(), *head.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-2)
        self.step, self.why, self.losses = step, why, []

    def run(self, steps, left_out=True):
        """A step that is recorded, and then so many with the change, on from the fifth."""
        undos, seen, wanted = [], _Open(lambda module: type(module).__name__), set()

        def begins(module, _):
            known = seen.begin(module, _lines(sys._getframe(1), inside=False))
            wanted.update({known} if module is self.head else ())
            seen.end()

        hook = register_module_forward_pre_hook(begins)
        for number in range(steps + 1):
            if number == 1:
                hook.remove()
                options = {CALLS: json.dumps(list(wanted))}
                script = Script(
                    Wanted("leave-out", options), Plan(), Made(undos), Models(undos), undos
                )
                script.toggled, script.on = True, False
                calls = Calls(script, wanted if left_out else set(), self.why)
                script.patch(torch.autograd, "backward", calls.backward)
            loss = self.step(self, number, torch.ones(3, 4) * number)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            if number:
                calls.step_ended()
                script.turn(number >= ON_FROM)
        for undo in reversed(undos):
            undo()
        return script.outcome()


def trained(step, head=None, why="unused", steps=12):
    training = Training(step, head or Head(), why)
    return training, training.run(steps)


def main(training, x):
    return training.net(x).square().mean()


def test_a_result_that_nobody_reads_is_no_longer_computed_and_losses_stay_equal():
    def step(training, _, x):
        training.head(x)
        return main(training, x)

    training, outcome = trained(step)
    assert not outcome.declined
    assert len(training.head.ran) < 10  # a recorded step, the first ones, and one to look at
    other = Training(step, Head(), "unused")
    other.run(12, left_out=False)
    assert training.losses == other.losses


def test_a_term_that_is_multiplied_by_zero_leaves_the_same_gradients():
    def step(training, _, x):
        out = training.net(x)
        return out.square().mean() + 0.0 * training.head(out).mean()

    training, outcome = trained(step, why="zero")
    assert not outcome.declined
    assert len(training.head.ran) < 10
    assert all(not each.grad.any() for each in training.head.parameters())  # there, and zero


def test_what_a_log_would_lose_is_said():
    def step(training, _, x):
        said = training.head(training.net(x)).mean()
        said.item()
        return main(training, x) + 0.0 * said

    _, outcome = trained(step, why="zero")
    assert not outcome.declined
    assert "would log another number" in outcome.lost[0]
    assert "test_leave_out.py" in outcome.lost[0]


def test_running_statistics_that_stand_still_are_said():
    def step(training, _, x):
        return main(training, x) + 0.0 * training.head(x).mean()

    _, outcome = trained(step, Head(norm=True), "zero")
    assert not outcome.declined
    assert outcome.lost == ("the running statistics of Head would stand still",)


def every_tenth(training, number, x):
    said = training.head(x)
    loss = main(training, x)
    return loss + said.mean() if number == 10 else loss


def by_item(training, _, x):
    training.head(x).mean().item()
    return main(training, x)


def decides(training, _, x):
    if training.head(x).mean() > 10:
        return 2 * main(training, x)
    return main(training, x)


def in_an_attribute(training, _, x):
    training.last = training.head(x)
    return main(training, x)


def for_validation(training, number, x):
    if number == 9:
        training.head.eval()(x)
        training.head.train()
    return main(training, x) + 0.0 * training.head(x).mean()


def in_place(training, _, x):
    total = torch.zeros(3, 2)
    total += training.head(x).detach()
    return main(training, x) + 0 * total.sum()


def weight_turns_on(training, number, x):
    return main(training, x) + float(number > 8) * training.head(x).mean()


def plain(training, _, x):
    training.head(x)
    return main(training, x)


def with_hook(hook):
    head = Head()
    head.register_forward_hook(hook)
    return head


@pytest.mark.parametrize(
    ("step", "head", "why", "said"),
    [
        (every_tenth, Head, "unused", "it is learned from"),
        (weight_turns_on, Head, "zero", "it is learned from"),
        (by_item, Head, "unused", "its result is read"),
        (decides, Head, "zero", "Python decides by its result"),
        (in_an_attribute, Head, "unused", "its result is kept in self.last"),
        (in_place, Head, "unused", "its result is written into another tensor"),
        (for_validation, lambda: Head(norm=True), "zero", "it is evaluated elsewhere"),
        (plain, Stores, "unused", "keeps what it has computed"),
        (plain, Counts, "unused", "counts its calls"),
        (
            plain,
            lambda: with_hook(lambda *args: KEPT.append(args[-1])),
            "unused",
            "keeps what it has computed",
        ),
    ],
)
def test_what_somebody_needs_after_all_is_refused(step, head, why, said):
    KEPT.clear()
    _, outcome = trained(step, head(), why)
    assert said in outcome.declined
