import pytest

from diagnose.builders import call, line, recording, without_ledger, work
from pitstop.core.evidence import Discarded, Parameters
from pitstop.diagnose.rules.gradients_discarded import gradients_discarded
from pitstop.diagnose.rules.parameter_outside_optimizer import parameter_outside_optimizer

CALLS = (
    call("PoseNetwork", 30, graph=True),
    call("backbone", 2, 0, graph=True),
    call("Discriminator", 37, graph=True),
    call("Discriminator", 38, graph=True),
    call("Discriminator", 52, graph=True),
)


def run(backward_us=40.0, kind="optimizer", **found):
    operations = work(backward_us, 1, backward=True), work(100 - backward_us, 1)
    return recording(
        calls=CALLS, operations=operations, step_kind=kind, parameters=Parameters(100, **found)
    )


def discarded(**more):
    lost = Discarded(line(37), (("backbone.weight", 90),), ((0, 2),))
    return run(discards=(lost,), **more)


def test_names_the_line_that_lets_the_pass_through_and_whom_it_reaches():
    (finding,) = gradients_discarded(discarded())
    assert (finding.code, finding.span.line) == ("PIT603", 37)
    assert finding.saving == pytest.approx(0.20)  # one of two passes through the network
    assert finding.message == (
        "A backward pass comes by train.py:37 and fills the gradients of `PoseNetwork`, which are "
        "then zeroed: up to 20.0 ms of 100 ms."
    )


@pytest.mark.parametrize("at", [52, 60])  # where it is called, or the backward pass itself
def test_an_adversary_that_a_pass_must_go_through_is_frozen_and_not_cut_off(at):
    calls = call("Generator", 30, graph=True), call("Discriminator", 52, graph=True)
    lost = Discarded(line(at), (("Discriminator.weight", 90),), ((1, 1),))
    found = Parameters(100, discards=(lost,))
    operations = work(40.0, 1, backward=True), work(60.0, 0)
    (finding,) = gradients_discarded(
        recording(calls=calls, operations=operations, parameters=found)
    )
    assert finding.cure.startswith("`requires_grad_(False)` on `Discriminator` for that pass")


def test_each_pass_has_its_own_line_and_cure():
    """The critic's runs on into the generator, whose own has to run through the critic."""
    operations = work(30.0, 1, backward=True), work(30.0, 4, backward=True), work(40.0, 1)
    lost = (
        Discarded(line(37), (("backbone.weight", 90),), ((0, 1),)),
        Discarded(line(60), (("Discriminator.weight", 9),), ((4, 1),)),
    )
    first, second = gradients_discarded(
        recording(calls=CALLS, operations=operations, parameters=Parameters(100, discards=lost))
    )
    assert ("`PoseNetwork`" in first.message, first.cure[:6]) == (True, "detach")
    assert (first.span.line, first.saving) == (37, pytest.approx(0.30))
    assert ("`Discriminator`" in second.message, second.cure[:24]) == (
        True,
        "`requires_grad_(False)` ",
    )
    assert (second.span.line, second.saving) == (60, pytest.approx(0.15))  # of its weights alone


def test_only_the_calls_on_the_way_of_the_pass_count():
    calls = *CALLS, call("PoseNetwork", 49, graph=True)
    work_of = (1, 40.0), (5, 20.0), (2, 40.0)
    operations = [work(micros, place, backward=True) for place, micros in work_of]
    lost = Discarded(line(37), (("backbone.weight", 90),), ((0, 2), (9, 1)))  # 9: not recorded
    found = Parameters(100, discards=(lost,))
    made = recording(calls=calls, operations=tuple(operations), parameters=found)
    (finding,) = gradients_discarded(made)
    assert finding.saving == pytest.approx(0.20)


BACKBONE, HEAD = ("Net.backbone.weight", 90), ("Net.head.weight", 10)


@pytest.mark.parametrize(
    ("unused", "frozen", "named"),
    [
        ((BACKBONE, HEAD), False, ("Net", 30, 0.20)),
        ((BACKBONE,), True, ("Net", 30, 0.20)),
        ((BACKBONE,), False, ("Net.backbone", 2, 0.15)),  # the head learns, and so Net must
        ((("Net.backbone.bias", 5),), False, None),
        ((HEAD,), False, None),  # 2.5 % of the step
    ],
)
def test_names_the_network_whose_gradients_nobody_uses(unused, frozen, named):
    calls = (
        call("Net", 30, graph=True),
        call("Net.backbone", 2, 0, parameters=90, graph=True),
        call("Net.head", 3, 0, parameters=10, graph=True, frozen=frozen),
    )
    backward = (
        work(30.0, 1, backward=True),
        work(5.0, 2, backward=True),
        work(5.0, 0, backward=True),
    )
    found = gradients_discarded(
        recording(
            calls=calls,
            operations=(*backward, work(60.0, 0)),
            parameters=Parameters(100, gradient_unused=unused),
        )
    )
    told = [(each.span.line, each.saving) for each in found]
    assert told == ([(named[1], pytest.approx(named[2]))] if named else [])
    assert not named or f"`requires_grad_(False)` on `{named[0]}`," in found[0].cure


@pytest.mark.parametrize(
    "run",
    [
        discarded(backward_us=3.0),
        discarded(kind="loader"),
        run(),
        recording(),
        without_ledger(calls=CALLS),
    ],
)
def test_quiet(run):
    assert gradients_discarded(run) == []


def judged(**vgg):
    """A loss network that looks at a prediction and at its target, and gets gradients of both."""
    calls = call("Net", 5), *(call("VGG", 9, fed=fed, **vgg) for fed in (True, False))
    operations = work(70.0, 0), work(20.0, 1, backward=True), work(10.0, 2, backward=True)
    weights = (("VGG.weight", 100),)
    found = Parameters(200, gradient_unused=weights, outside_optimizer=weights)
    return recording(calls=calls, operations=operations, parameters=found)


def test_a_loss_network_is_to_be_frozen_and_never_to_be_trained():
    (finding,) = gradients_discarded(judged())
    assert finding.cure == "`requires_grad_(False)` on `VGG`"
    assert finding.saving == pytest.approx(0.20)  # half of the prediction's, all of the target's
    assert parameter_outside_optimizer(judged()) == []
    assert parameter_outside_optimizer(judged(training=False)) == []
