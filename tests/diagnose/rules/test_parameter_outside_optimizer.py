import pytest

from diagnose.builders import call, line, recording
from pitstop.core.evidence import Parameters
from pitstop.diagnose.rules.parameter_outside_optimizer import parameter_outside_optimizer

LEARNED = ("PoseLoss.position", 1), ("PoseLoss.orientation", 1)
CALLS = call("PoseNetwork", 30, parameters=900), call("PoseLoss", 49, parameters=2)


def run(used=(), outside=(), kind="optimizer", made=()):
    found = Parameters(902, gradient_unused=used, outside_optimizer=outside, made=made)
    return recording(calls=CALLS, parameters=found, step_kind=kind)


def test_names_the_parameters_and_their_module():
    (finding,) = parameter_outside_optimizer(run(LEARNED, LEARNED))
    assert (finding.code, finding.severity, finding.span.line) == ("PIT706", "warning", 49)
    assert finding.message == (
        "`PoseLoss.position`, `PoseLoss.orientation` (2 numbers) get a gradient, but no optimizer "
        "holds them: they never learn."
    )


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ((("PoseLoss", line(12)),), 12),
        ((("PoseNetwork", line(13)),), 49),  # another module's line is no use
    ],
)
def test_the_line_that_builds_the_module_is_named_where_it_is_known(made, expected):
    (finding,) = parameter_outside_optimizer(run(LEARNED, LEARNED, made=made))
    assert finding.span.line == expected


def test_several_modules_share_the_line_of_the_one_they_are_in():
    two = ("loss.a.weight", 1), ("loss.b.weight", 1)
    made = (("loss", line(12)), ("loss.a", line(70)))
    (finding,) = parameter_outside_optimizer(run(two, two, made=made))
    assert finding.span.line == 12


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
