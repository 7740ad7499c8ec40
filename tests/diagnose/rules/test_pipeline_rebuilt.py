import pytest

from diagnose.builders import call, recording
from pitstop.diagnose.rules.pipeline_rebuilt import pipeline_rebuilt

ENCODER = call("TextModel", 36, kind="TextModel", parameters=123_000_000)


def run(*rebuilt, resident="TextModel", **more):
    calls = (call(resident, 88, kind=resident),)
    return recording(rebuilt=rebuilt, calls=calls, **more)


def test_names_what_is_built_again_beside_the_resident_one():
    (finding,) = pipeline_rebuilt(run(ENCODER, validation_s=3.0))
    assert (finding.code, finding.span.line, finding.per) == ("PIT504", 36, "validation")
    assert finding.message == (
        "`TextModel` with 123 M parameters is built again during the run, and used at this line."
    )


def test_names_what_is_built_several_times():
    (finding,) = pipeline_rebuilt(run(ENCODER, ENCODER, resident="Transformer"))
    assert finding.per == "step"


@pytest.mark.parametrize(
    "run",
    [
        run(ENCODER, resident="Transformer"),  # a network that comes late is not built again
        run(call("Head", 36, kind="Head", parameters=900), resident="Head"),
        recording(),
    ],
)
def test_quiet(run):
    assert pipeline_rebuilt(run) == []
