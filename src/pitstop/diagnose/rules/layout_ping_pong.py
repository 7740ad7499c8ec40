"""PIT406 layout-ping-pong."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.calls import labels, stretch
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.02  # of the step; the layout of a whole model must be changed for it
MOST = 4  # lines named; the rest goes away with the same change


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
    ms = ledger.total("layout") if ledger else 0.0
    if ledger is None or ledger.at_stake(ms) < WORTH_MENTIONING:
        return
    lines: dict[Line, float] = defaultdict(float)
    for row in ledger.rows:
        if row.cause == "layout" and row.where.path:
            lines[row.where] += row.ms
    dearest = sorted(lines, key=lambda line: -lines[line])[:MOST]
    most = f", most of it at {labels(dearest)}" if dearest else ""
    yield Finding(
        f"Converting layouts takes {cost_phrase(ms, ledger)}{most}.",
        span=stretch(dearest),
        cure="model.to(memory_format=torch.channels_last), and the input as well",
        confidence="measured",
        metrics=(Metric("conversion", ms, "ms"),),
        saving=ledger.at_stake(ms),
        claims=ledger.chosen("layout"),
        changes=("channels-last",),
    )
