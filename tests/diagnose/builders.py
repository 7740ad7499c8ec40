"""Hand-made recordings: the few values that a rule looks at, and a ledger that adds up."""

from pitstop.core.evidence import (
    Evidence,
    Line,
    Loader,
    ModuleCall,
    Operation,
    Sampled,
    Settings,
    Step,
)
from pitstop.core.ledger import Ledger, Row
from pitstop.core.machine import Machine
from pitstop.diagnose.recording import Recording

STEP_MS = 100.0


def line(number, path="train.py", function="train"):
    """A line of the user's script."""
    return Line(path, number, function)


def recording(*rows, device="cpu", machine=None, **evidence):
    """A run whose ledger has these rows, and full speed in the rest of its median step."""
    evidence.setdefault("steps", (Step(STEP_MS),) * 10)
    evidence.setdefault("settings", Settings(device=device))
    evidence.setdefault("step_kind", "optimizer")
    made = Recording((Evidence(**evidence),), machine or Machine())
    rest_ms = made.evidence.median_ms() - sum(row.ms for row in rows)
    assert rest_ms >= 0, "rows of a ledger never add up to more than its step"
    rest = [Row("floor", rest_ms)] if rest_ms else []
    made.__dict__["ledger"] = Ledger(made.evidence.median_ms(), device, (*rows, *rest))
    return made


def without_ledger(**evidence):
    """A run that finished no step."""
    return Recording((Evidence(**evidence),), Machine())


def loader(**settings):
    """A loader that the steps are fed by; made at line 5 of the script."""
    usual = {"dataset": "Clips", "workers": 0, "batches": 40, "trains": True, "made": line(5)}
    return Loader(**usual | settings)


def operation(name, where, shapes="float32[8,3]@cpu", calls=1, micros=10.0, **more):
    """One operation of an inspected step."""
    return Operation(f"aten.{name}.default", where, shapes, calls, micros, **more)


def sampled(where, samples, inside="", waiting=False):
    """A line that was found running."""
    return Sampled(where, samples, inside, waiting)


def call(path, number, parent=-1, **more):
    """A module call of an inspected step, made at that line of the script."""
    usual = {"kind": path.rpartition(".")[2].title(), "where": line(number), "parent": parent}
    usual |= {"shapes": "float32[8,3]@cpu", "parameters": 100}
    return ModuleCall(path, **usual | more)


def work(micros, position=-1, **more):
    """So much time in the module call at that position."""
    return operation("convolution", line(99, "model.py"), micros=micros, call=position, **more)


def backward_passes(count):
    """The operation that starts so many backward passes."""
    return operation("ones_like", line(50), "float32[]@cpu", calls=count, micros=0.0)


def steps(count=10, **fields):
    """Equal steps of 100 ms that end a second apart."""
    return tuple(Step(**{"total_ms": STEP_MS, "ended_s": n + 1.0} | fields) for n in range(count))
