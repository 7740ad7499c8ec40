"""PIT406 layout-ping-pong."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import percent
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.02  # of the step; the layout of a whole model must be changed for it
LEAST_OF_A_LINE = 0.005  # of the step, for a line to be named beside the dearest
MOST = 5  # the rest goes away with the same change


@rule("PIT406")
def layout_ping_pong(recording: Recording) -> Iterator[Finding]:
    """Tensors are turned to channels-last and back around every convolution.

    The fast kernels want channels-last. A model and input in that layout need no conversion, as
    long as no operation in between insists on the other one.

    Bad:
        model = Decoder().cuda()

    Good:
        model = Decoder().cuda().to(memory_format=torch.channels_last)
    """
    ledger = recording.ledger
    if ledger is None or ledger.share(ledger.total("layout")) < WORTH_MENTIONING:
        return
    whole = percent(ledger.share(ledger.total("layout")))
    lines: dict[Line, float] = defaultdict(float)
    for row in ledger.rows:
        if row.cause == "layout":
            lines[row.where] += row.ms
    dearest = sorted(lines.items(), key=lambda item: -item[1])[:MOST]
    for line, ms in dearest:
        if ms < dearest[0][1] and ledger.share(ms) < LEAST_OF_A_LINE:
            break
        yield Finding(
            f"Converting layouts here takes {of_step(ms, ledger)}, and {whole} of the step in all.",
            span=span(line),
            cure="model.to(memory_format=torch.channels_last), and the input as well",
            confidence="measured",
            metrics=(Metric("conversion", ms, "ms"),),
            saving=ledger.share(ms),
            changes=("channels-last",),
        )
