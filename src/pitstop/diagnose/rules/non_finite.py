"""PIT701 non-finite."""

from collections.abc import Iterator

from pitstop.core.evidence import Evidence, Line, NonFinite
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

CURES = {
    "input": "look at the file behind that batch; a NaN that is read in poisons everything",
    "forward": "keep its input away from where it is not defined: an epsilon, or a clamp before it",
    "backward": "keep the operation away from where its slope is infinite, such as sqrt of zero",
    "weights": "lower the learning rate or clip the gradient norm before the step",
}
LARGE = "weights as large as"  # so a detail begins where they are finite, but not for long
WRITES = "a line of the script writes"  # so a detail begins where no step did it
OF_THE_OPERATION = ("of ", "by ", "over ", "with ", "whose ")  # how such a detail begins


@rule("PIT701")
def non_finite(recording: Recording) -> Iterator[Finding]:
    """The loss turns NaN or infinite, and no step after that learns anything.

    The first number that is not finite has one origin: a batch, an operation of the forward
    pass, its derivative, or weights after a step that was too large. What moved just before
    says where to look: a gradient norm that rose, a rate that jumped, or nothing at all.
    Checking the loss in each step finds it too late, and makes Python wait for the GPU.

    Bad:
        loss = -torch.log(probability).mean()

    Good:
        loss = -torch.log(probability.clamp(min=1e-6)).mean()
    """
    evidence = recording.evidence
    found, first = evidence.non_finite, _first_bad_step(evidence)
    if found is not None and not (_scaler_at_work(evidence, found) and not first):
        yield Finding(
            _story(found, found.step or first),
            span=span(_place(evidence, found)),
            item=found.module,
            cure=CURES.get(found.phase, ""),
            severity="error",
            confidence="measured",
            metrics=(Metric("first bad step", found.step or first, "step"),),
        )
    elif found is None and first:
        yield Finding(
            f"The loss is not finite from step {first} of {len(evidence.steps)} on.",
            severity="error",
            confidence="measured",
            metrics=(Metric("first bad step", first, "step"),),
        )


def _first_bad_step(evidence: Evidence) -> int:
    """Counted from 1; 0: there is none."""
    steps = enumerate(evidence.steps, 1)
    return next((number for number, step in steps if not step.loss_finite), 0)


def _scaler_at_work(evidence: Evidence, found: NonFinite) -> bool:
    """Whether it is a gradient that overflowed in half precision, which a scaler is there for."""
    return found.phase == "backward" and any(step.scale for step in evidence.steps)


def _place(evidence: Evidence, found: NonFinite) -> Line:
    """The line to look at; weights are made by their optimizer, unless a line writes into them."""
    made = (each.made for each in evidence.optimizers if each.made.path)
    by_a_step = found.phase == "weights" and not found.detail.startswith(WRITES)
    return next(made, found.where) if by_a_step else found.where


def _story(found: NonFinite, step: int) -> str:
    """What happened; a detail that belongs to the operation stands beside it, others at the end."""
    who = f"`{found.operation}`" if found.operation else "an operation"
    beside = found.detail.startswith(OF_THE_OPERATION)
    clause = found.detail.startswith("whose ")
    who += (f", {found.detail}," if clause else f" {found.detail}") if beside else ""
    end = f": {found.detail}" if found.detail and not beside else ""
    module = f" in `{found.module}`" if found.module else ""
    goes_into = f" that goes into `{found.module}`" if found.module else " that comes in"
    what = {
        "input": f"the batch{goes_into} already is not finite",
        "forward": f"{who}{module} gives the first result that is not finite",
        "backward": f"the gradient of {who}{module} is the first that is not finite",
        "weights": f"weights{module} are not finite after the step before",
    }
    when = f"Step {step}: " if step else ""
    if found.phase == "weights" and found.detail.startswith(LARGE):
        return f"{when}the step before left {found.detail}."
    if found.phase == "weights" and found.detail.startswith(WRITES):
        return f"{when}weights are not finite: {found.detail}."
    return f"{when}{what.get(found.phase, 'a number is not finite' + module)}{end}."
