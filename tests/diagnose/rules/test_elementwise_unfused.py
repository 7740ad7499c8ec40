import pytest

from diagnose.builders import call, line, operation, recording, without_ledger
from pitstop.core.evidence import Compiled
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.elementwise_unfused import elementwise_unfused

BUSY = Row("copy", 40.0), Row("above", 20.0)


def op(name, micros, number=7, position=0, **more):
    """An operation of one module call with so much time on the GPU."""
    where = line(number, "model.py", "forward")
    return operation(name, where, device_micros=micros, call=position, **more)


def run(*operations, device="cuda", **more):
    return recording(*BUSY, device=device, operations=operations, calls=(call("a", 1),), **more)


CHAIN = op("_to_copy", 20e3), op("mul", 30e3, 8), op("add", 10e3, 9), op("mm", 40e3, 10)


def test_a_chain_of_one_module_becomes_its_dearest_operation():
    (finding,) = elementwise_unfused(run(*CHAIN))
    assert (finding.code, finding.span.line) == ("PIT615", 7)  # of the others the dearest
    assert finding.saving == pytest.approx(0.30)
    assert finding.changes == ("compile",)
    assert finding.message == (
        "3 elementwise operations take 60.0 ms of 100 ms, each through memory and back; fused "
        "within each module they would take 30.0 ms less."
    )


def test_forward_and_backward_are_chains_of_their_own():
    (finding,) = elementwise_unfused(run(*CHAIN, op("mul", 25e3, 8, backward=True)))
    assert finding.saving == pytest.approx(30 / 125)


def test_outside_of_modules_a_function_is_a_chain():
    loose = [op("mul", 30e3, number, position=-1) for number in (3, 4)]
    (finding,) = elementwise_unfused(run(*loose, op("mm", 40e3)))
    assert finding.saving == pytest.approx(0.30)


def test_the_scores_of_written_out_attention_are_another_rules():
    scores = "float32[2,4,64,64]@cuda"
    products = [
        op("bmm", 10e3, shapes="float32[8,64,32]@cuda float32[8,32,64]@cuda"),
        op("bmm", 10e3, shapes="float32[8,64,64]@cuda float32[8,64,32]@cuda"),
    ]
    handling = [op("mul", 40e3, 8, shapes=scores), op("add", 30e3, 9, shapes=scores)]
    back = [op("mul", 20e3, 8, shapes=scores, backward=True) for _ in range(2)]
    attention = [*products, op("_softmax", 10e3, shapes=scores), *handling, *back]
    assert elementwise_unfused(run(*attention)) == []
    assert elementwise_unfused(run(*handling)) != []


@pytest.mark.parametrize(
    "run",
    [
        run(op("mul", 60e3), op("mm", 40e3)),  # alone: nothing to fuse it with
        run(op("mul", 30e3), op("mul", 30e3, position=-1), op("mm", 40e3)),  # of two places
        run(*CHAIN, device="cpu"),
        run(*CHAIN, compiled=(Compiled(line(3)),)),
        run(*CHAIN, op("mm", 900e3)),
        run(op("mul", 30e3, phase="optimizer"), op("mul", 30e3, phase="optimizer")),
        recording(),
        without_ledger(),
    ],
)
def test_quiet(run):
    assert elementwise_unfused(run) == []
