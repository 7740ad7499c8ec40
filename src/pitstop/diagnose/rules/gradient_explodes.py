"""PIT703 gradient-explodes."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import inf
from statistics import median

from pitstop.core.explosion import ENOUGH, EXPLOSION, HIGHEST
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.recording import Recording


@rule("PIT703")
def gradient_explodes(recording: Recording) -> Iterator[Finding]:
    """The gradient norm or the loss jumps to a hundred times what it was.

    One such step undoes many, and is often the last before the loss turns NaN. Clipping the norm
    limits the damage; the batch or the operation behind it is the cause.

    Bad:
        loss.backward()
        optimizer.step()

    Good:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    """
    steps = recording.evidence.steps
    norms = [step.gradient_norm for step in steps]
    losses = zip_longest(*(step.losses for step in steps))  # of a generator, of its opponent
    sizes = [[None if each is None else abs(each) for each in column] for column in losses]
    for name, values in (("gradient norm", norms), *(("loss", column) for column in sizes)):
        found = _explosion(values)
        if found:
            step, usual, value = found
            yield Finding(
                f"Step {step}: the {name} jumps from about {usual:.3g} to {value:.3g}.",
                cure="clip the gradient norm; look at that batch, and at the learning rate",
                confidence="measured",
                metrics=(Metric("step", step, "step"), Metric(name, value, "")),
            )
            return


def _explosion(values: Sequence[float | None]) -> tuple[int, float, float] | None:
    """The first step, from 1, that exceeds all before it by far, with the usual value."""
    before: list[float] = []
    for number, value in enumerate(values, 1):
        if value is None or not value < inf:
            continue
        if len(before) >= ENOUGH:
            usual = median(before)
            if usual and value > EXPLOSION * usual and value > HIGHEST * max(before):
                return number, usual, value
        before.append(value)
    return None
