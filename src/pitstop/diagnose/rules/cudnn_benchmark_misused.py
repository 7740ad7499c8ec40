"""PIT408 cudnn-benchmark-misused."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.loading import feeding_loader
from pitstop.diagnose.facts.operations import short
from pitstop.diagnose.facts.precision import CONVOLUTIONS
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step, in convolutions above their floor; half may be there
FEWEST_BATCHES = 10  # that must have had one shape before it counts as the only one
MANY_SHAPES = 8  # each is timed anew, with some ten algorithms for every convolution
RARELY_REPEATED = 0.25  # shapes over batches; above it the search is never paid back


@rule("PIT408")
def cudnn_benchmark_misused(recording: Recording) -> Iterator[Finding]:
    """The search for fast convolutions runs on ever new shapes, or not on one that repeats.

    `cudnn.benchmark` times every algorithm once for each new shape. With one shape that is paid
    back in a few steps; with ever new ones it never is.

    Bad:
        torch.backends.cudnn.benchmark = False

    Good:
        torch.backends.cudnn.benchmark = True
    """
    ledger, settings = recording.ledger, recording.evidence.settings
    loader = feeding_loader(recording.evidence)
    if ledger is None or ledger.device != "cuda" or settings is None or loader is None:
        return
    if not any(short(each) in CONVOLUTIONS for each in recording.evidence.operations):
        return
    shapes, batches = loader.batch_shapes, loader.batches
    if settings.cudnn_benchmark and shapes >= max(MANY_SHAPES, RARELY_REPEATED * batches):
        yield Finding(
            f"cudnn.benchmark is on, and {batches} batches came in {shapes} shapes: each is "
            "searched for anew.",
            span=span(loader.made),
            cure="torch.backends.cudnn.benchmark = False, or pad the batches to a few shapes",
            confidence="measured",
            metrics=(Metric("shapes", shapes, "shapes"),),
            changes=("cudnn-benchmark",),
        )
    rows = [row for row in ledger.rows if row.cause == "above" and row.what in CONVOLUTIONS]
    ms = sum(row.ms for row in rows)
    searches = settings.cudnn_benchmark or settings.deterministic
    one_shape = shapes == 1 and batches >= FEWEST_BATCHES
    if one_shape and not searches and ledger.at_stake(ms) >= WORTH_MENTIONING:
        yield Finding(
            f"cudnn.benchmark is off, all batches have one shape, and convolutions take "
            f"{cost_phrase(ms, ledger)} beyond full speed.",
            span=span(max(rows, key=lambda row: row.ms).where),
            cure="torch.backends.cudnn.benchmark = True",
            confidence="measured",
            metrics=(Metric("above the floor", ms, "ms"),),
            saving=ledger.at_stake(ms),
            claims=tuple(rows),
            changes=("cudnn-benchmark",),
        )
