import pytest

from diagnose.builders import line, loader, operation, recording, without_ledger
from pitstop.core.evidence import Settings
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.cudnn_benchmark_misused import cudnn_benchmark_misused

CONVOLVES = operation("convolution", line(9, "model.py"), "float32[8,3,64,64]@cuda")
ABOVE = Row("above", 20, "convolution", line(9, "model.py"))


def run_of(shapes, batches=40, rows=(ABOVE,), operations=(CONVOLVES,), device="cuda", **settings):
    set_to = Settings(device=device, **settings)
    fed = (loader(batch_shapes=shapes, batches=batches),)
    return recording(*rows, device=device, loaders=fed, settings=set_to, operations=operations)


def test_off_with_one_shape_costs_what_is_above_the_floor_at_most():
    (finding,) = cudnn_benchmark_misused(run_of(1))
    assert (finding.code, finding.span.line, finding.saving) == ("PIT408", 9, 0.2)
    assert finding.message == (
        "cudnn.benchmark is off, all batches have one shape, and convolutions take 20.0 ms of "
        "100 ms beyond full speed."
    )


def test_speaks_up_at_the_edge():
    edge = Row("above", 5, "convolution", line(9, "model.py"))
    assert len(cudnn_benchmark_misused(run_of(1, batches=10, rows=(edge,)))) == 1
    assert len(cudnn_benchmark_misused(run_of(8, batches=32, cudnn_benchmark=True))) == 1


def test_on_with_many_shapes_searches_for_ever():
    (finding,) = cudnn_benchmark_misused(run_of(12, cudnn_benchmark=True))
    assert (finding.span.line, finding.saving) == (5, None)
    assert "40 batches came in 12 shapes" in finding.message


@pytest.mark.parametrize(
    "run",
    [
        run_of(1, cudnn_benchmark=True),
        run_of(2),
        run_of(0),  # nobody looked
        run_of(1, batches=9),
        run_of(1, deterministic=True),
        run_of(1, rows=(Row("above", 4.9, "convolution"),)),
        run_of(1, rows=(Row("above", 20, "mm"),)),
        run_of(1, operations=()),
        run_of(1, device="cpu"),
        run_of(12),  # off, as it should be
        run_of(7, batches=20, cudnn_benchmark=True),
        run_of(12, batches=100, cudnn_benchmark=True),  # they repeat often enough
        recording(ABOVE, device="cuda", operations=(CONVOLVES,)),  # no loader tells the shapes
        without_ledger(),
    ],
)
def test_quiet_where_the_switch_is_right_or_unknown(run):
    assert cudnn_benchmark_misused(run) == []
