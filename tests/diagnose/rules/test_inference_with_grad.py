import pytest

from diagnose.builders import call, recording, steps, without_ledger, work
from pitstop.diagnose.rules.inference_with_grad import inference_with_grad

CALLS = call("Denoiser", 12, graph=True), call("block", 3, 0, graph=True), call("Vae", 14)


def run(**more):
    return recording(**{"calls": CALLS, "step_kind": "loader", "steps": steps()} | more)


def test_names_the_outermost_call_that_keeps_its_activations():
    (finding,) = inference_with_grad(run())
    assert (finding.code, finding.span.line) == ("PIT503", 12)
    assert (finding.saving, finding.changes) == (None, ("inference-mode",))
    assert finding.message == (
        "`Denoiser` keeps its activations for a backward pass (1 call a step), and the run has "
        "none."
    )


@pytest.mark.parametrize(
    "run",
    [
        run(step_kind="optimizer"),
        run(steps=steps(backward_ms=1.0)),
        run(operations=(work(1.0, backward=True),)),  # gradients that guide, such as autograd.grad
        run(calls=CALLS[2:]),
        recording(),
        without_ledger(calls=CALLS),
    ],
)
def test_quiet(run):
    assert inference_with_grad(run) == []
