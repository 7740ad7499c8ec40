import pytest

from diagnose.builders import call, recording
from pitstop.core.evidence import Parameters
from pitstop.diagnose.rules.parameter_outside_optimizer import parameter_outside_optimizer

LEARNED = ("position", 1), ("orientation", 1)
CALLS = call("PoseNetwork", 30, parameters=900), call("PoseLoss", 49, parameters=2)


def run(used=(), outside=(), kind="optimizer"):
    found = Parameters(902, gradient_unused=used, outside_optimizer=outside)
    return recording(calls=CALLS, parameters=found, step_kind=kind)


def test_names_the_parameters_and_their_module():
    (finding,) = parameter_outside_optimizer(run(LEARNED, LEARNED))
    assert (finding.code, finding.severity, finding.span.line) == ("PIT706", "warning", 49)
    assert finding.message == (
        "`position`, `orientation` of `PoseLoss` (2 numbers) get a gradient, but no optimizer "
        "holds them: they never learn."
    )


def test_many_are_counted():
    many = tuple((f"layers.{number}.weight", 10) for number in range(9))
    (finding,) = parameter_outside_optimizer(run(many, many))
    assert finding.message.startswith("9 parameters (90 numbers) get a gradient")


@pytest.mark.parametrize(
    "run",
    [
        run(outside=LEARNED),  # no gradient either: a copy that is averaged, or runs under no_grad
        run(used=LEARNED),
        run(LEARNED, LEARNED, kind="loader"),
        recording(),
    ],
)
def test_quiet(run):
    assert parameter_outside_optimizer(run) == []
