import pytest

from diagnose.builders import recording
from pitstop.core.evidence import Step
from pitstop.diagnose.rules.gradient_explodes import gradient_explodes


def norms(*values):
    return recording(steps=tuple(Step(100.0, gradient_norm=value) for value in values))


def losses(*values):
    return recording(steps=tuple(Step(100.0, loss=value) for value in values))


def test_names_the_first_step_that_jumps():
    (finding,) = gradient_explodes(norms(*[2.0] * 20, 900.0, 9000.0))
    assert finding.code == "PIT703"
    assert finding.message == "Step 21: the gradient norm jumps from about 2 to 900."


def test_a_loss_tells_it_too():
    (finding,) = gradient_explodes(losses(*[0.5] * 20, 70.0))
    assert finding.message == "Step 21: the loss jumps from about 0.5 to 70."


@pytest.mark.parametrize("place", [0, 1])
def test_of_two_losses_each_tells_it(place):
    """One that is small beside the other, too."""
    both = [(0.01, 5.0)] * 20 + [(9.0, 5.0)]
    steps = [Step(100.0, loss=pair[place], earlier_losses=(pair[1 - place],)) for pair in both]
    (finding,) = gradient_explodes(recording(steps=tuple(steps)))
    assert finding.message == "Step 21: the loss jumps from about 0.01 to 9."


@pytest.mark.parametrize(
    "run",
    [
        norms(*[2.0] * 20, 150.0),
        norms(900.0, *[2.0] * 20),  # the first steps of a run are wild
        norms(*[2.0] * 7, 900.0),
        norms(*[2.0] * 20, float("nan"), float("inf")),
        losses(*[0.001, 0.9] * 10, 0.9),  # near zero a ratio says nothing
        losses(*[0.0] * 20, 1.0),
        recording(),
    ],
)
def test_quiet(run):
    assert gradient_explodes(run) == []
