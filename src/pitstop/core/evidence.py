"""Evidence: what one run did, as plain numbers. No tensors, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's source."""

    path: str = ""
    line: int = 0
    function: str = ""


NOWHERE = Line()
NUMBERS_ONLY = {"steps", "memory", "sensors"}  # fields of Evidence that are long and hold no text
ENOUGH_SAMPLES = 150  # a line with a tenth of the time is seen often enough to be sure of it
PHASES = {  # fields of a step that add up to it, and what people call them
    "data_wait_ms": "waiting for data",
    "forward_ms": "forward",
    "backward_ms": "backward",
    "optimizer_ms": "optimizer",
    "other_ms": "everything else",
    "queued_ms": "the GPU, after the script",
}


@dataclass(frozen=True, slots=True)
class Step:
    """Wall time of one training or inference step, and where it went."""

    total_ms: float
    data_wait_ms: float = 0.0
    dry_ms: float | None = None  # the part of that wait in which the GPU had nothing to do
    collective_ms: float = 0.0  # in calls of torch.distributed, part of other phases
    core_wait_ms: float | None = None  # ready to run, and no core was free; part of other phases
    forward_ms: float = 0.0  # from the last event before a backward pass to that pass
    backward_ms: float = 0.0
    optimizer_ms: float = 0.0
    other_ms: float = 0.0  # all the rest; in a run without backward passes, the model too
    queued_ms: float = 0.0  # what the GPU took beyond all that, where the script runs ahead of it
    device_ms: float | None = None  # between the ends of two steps, on the GPU's clock
    loss: float | None = None  # the last root of backward, unscaled; null when not finite
    earlier_losses: tuple[float | None, ...] = ()  # likewise, of other models and part batches
    loss_finite: bool = True  # all of them
    gradient_norm: float | None = None  # as clip_grad_norm_ found it, before clipping
    scale: float | None = None  # of a gradient scaler
    inspected: bool = False  # looked at closely, so slower than it would be
    ended_s: float = 0.0  # since torch was imported

    @property
    def losses(self) -> tuple[float | None, ...]:
        """All of them, the last one first: what comes before it may be missing in some steps."""
        return self.loss, *reversed(self.earlier_losses)


@dataclass(frozen=True, slots=True)
class Cache:
    """A dataset's own cache, as an epoch after the first finds it."""

    name: str  # of the attribute: "frame_cache"
    entries: int
    made: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Loader:
    """A DataLoader of the run and its settings."""

    dataset: str
    workers: int
    pinned: bool = False
    persistent: bool = False
    prefetch: int | None = None
    batches: int = 0  # fetched in the run
    trains: bool = False  # its batches are followed by a backward pass
    length: int | None = None  # samples of the dataset; null where it does not tell
    batch_size: int | None = None
    per_epoch: int | None = None  # batches; null where the loader does not tell
    batch_bytes: int = 0  # of the first batch
    batch_shapes: int = 0  # different ones among the batches seen
    starts: int = 0  # iterators made, one for each epoch
    start_ms: float = 0.0  # mean wait for the first batch of an epoch
    computes: float | None = None  # share of the wait in which the waiting thread itself computed
    made: Line = NOWHERE  # where the loader was built
    used: Line = NOWHERE  # where it is iterated over
    asked_by: str = ""  # the library that does so for the script, such as "transformers"
    caches: tuple[Cache, ...] = ()  # of its dataset, in the process that starts the epochs


@dataclass(frozen=True, slots=True)
class Headspace:
    """A step when its batches come from memory: what a perfect loader would give."""

    step_ms: float
    steps: int  # measured
    batches: int = 1  # in memory, given again and again
    took_s: float = 0.0  # all of it


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer of the run and its settings."""

    name: str
    parameters: int = 0  # numbers in them
    tensors: int = 0
    fused: bool = False
    foreach: bool | None = None  # null: torch decides by the device
    made: Line = NOWHERE
    groups: int = 1  # of parameters
    unlike_groups: int = 1  # that would be left if those of equal settings were one


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory at one moment of the run."""

    at_s: float
    host_bytes: int | None = None  # of the script and its workers, shared pages counted once
    gpu_peak_bytes: int | None = None  # allocated at most, so far
    gpu_reserved_bytes: int | None = None
    inspected: bool = False  # an inspected step ran since the reading before, and may be the peak


@dataclass(frozen=True, slots=True)
class Sensor:
    """What one GPU's sensors said at one moment of the run."""

    at_s: float
    gpu: int
    busy: float | None = None  # share of the last second with a kernel running
    sm_clock_mhz: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None


LEARNED_BIAS, DROPOUT = "a bias that is learned", "dropout"  # what attention may come with


@dataclass(frozen=True, slots=True)
class Settings:
    """What torch was set to in an inspected step."""

    device: str = "cpu"  # where the model's parameters are
    threads: int = 0  # that one operation may use on the CPU
    tf32_matmul: bool = False
    tf32_cudnn: bool = False
    cudnn_benchmark: bool = False
    deterministic: bool = False
    autocast: str = ""  # the type that autocast computes in, where a model call ran under it
    bfloat16: bool = True  # whether the device has arithmetic for it, and does not emulate it
    unfused: tuple[str, ...] = ()  # with what torch's own attention writes its scores as well


@dataclass(frozen=True, slots=True)
class Operation:
    """All calls of one ATen operation from one line with equal shapes, in one inspected step."""

    name: str
    where: Line
    shapes: str
    calls: int
    micros: float  # on the calling thread
    device_micros: float | None = None  # in kernels; null without a GPU
    moved_bytes: int = 0  # of all tensors read and written
    flops: int = 0
    call: int = -1  # the module call it ran in, by position; -1: in none
    backward: bool = False  # in a backward pass; line and call are then the forward one's
    waits: bool = False  # the thread waits for the device, or the device for the thread: a sync
    phase: str = ""  # "wait" (for a batch), "backward", "optimizer" or "saving"; empty: none
    layout_micros: float = 0.0  # of the device time: kernels that only change the memory layout
    summed: bool = False  # over shapes and module calls: too small to be listed one by one


@dataclass(frozen=True, slots=True)
class Gap:
    """All idle stretches of the GPU with one cause and line, in one step of undisturbed speed."""

    cause: str  # "sync", "copy", "launch", "data" or "python"
    micros: float
    count: int
    where: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """One call of a module in an inspected step."""

    path: str
    kind: str
    where: Line
    parent: int  # the call it was made from, by position; -1: the script
    shapes: str
    inputs: tuple[tuple[int, int], ...] = ()  # address and version of each input tensor
    frozen: bool = False  # no parameter asks for a gradient
    parameters: int = 0  # numbers in the module's parameters
    training: bool = True  # the module's mode
    graph: bool = False  # its result can be differentiated
    recomputed: bool = False  # called in a backward pass, as checkpointing does
    unused: bool = False  # nothing that was learned from, read or kept depends on its result
    chained: bool = False  # its input depends on an earlier call of the same module
    content: str = ""  # checksum of the inputs; of outermost frozen modules only
    through: tuple[Line, ...] = ()  # the user's lines from ``where`` out to the call it is in
    again: bool = False  # it got the same content in an earlier inspected step
    interval: int = 0  # optimizer steps before it in the step: between two, weights are the same
    passes: tuple[int, ...] = ()  # backward passes that need its result, in their order
    fed: bool = True  # an input asks for a gradient; true as well where nobody looked


@dataclass(frozen=True, slots=True)
class Zeroed:
    """A term multiplied by zero, and the module calls that serve nothing else."""

    where: Line
    calls: tuple[int, ...] = ()  # by position


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory that outlived the step it was made in."""

    where: Line  # that made it
    held_bytes: int
    graph: bool = False  # a tensor with its graph, which keeps all it was computed from
    holder: str = ""  # the name of what keeps it: "losses", "self.history"
    kept_at: Line = NOWHERE  # the line that put it there


@dataclass(frozen=True, slots=True)
class Sampled:
    """How often a line was found running in the sampled steps."""

    where: Line
    samples: int
    inside: str = ""  # the innermost function then: "PIL/ImageFile.py:load"
    waiting: bool = False  # while the script waited for a batch


@dataclass(frozen=True, slots=True)
class Kernel:
    """All calls of one GPU kernel in an inspected step."""

    name: str
    calls: int
    micros: float


@dataclass(frozen=True, slots=True)
class Discarded:
    """Gradients of backward passes from one line that were zeroed before any optimizer step."""

    where: Line  # the call that let the pass through to them; else the pass itself
    parameters: tuple[tuple[str, int], ...] = ()  # name and size
    calls: tuple[tuple[int, int], ...] = ()  # outermost ones on its way to them, and their passes


@dataclass(frozen=True, slots=True)
class Parameters:
    """What became of the gradients in an inspected step; name and size of each parameter."""

    count: int = 0
    without_gradient: tuple[tuple[str, int], ...] = ()
    gradient_unused: tuple[tuple[str, int], ...] = ()  # computed, and in no optimizer
    outside_optimizer: tuple[tuple[str, int], ...] = ()
    discards: tuple[Discarded, ...] = ()
    made: tuple[tuple[str, Line], ...] = ()  # where the modules of all these were built, by path
    tops: tuple[str, ...] = ()  # the outermost modules that ran, whole or in part


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compilation of one function by Dynamo."""

    where: Line  # the function's first line
    seconds: float = 0.0
    again: int = 0  # how many compiled versions there were before
    reason: str = ""  # why an earlier version did not fit
    failure: str = ""  # why nothing came of it


@dataclass(frozen=True, slots=True)
class Break:
    """Why a compiled graph ended early."""

    reason: str
    count: int = 1
    where: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Where the first number that is not finite came from."""

    step: int  # counted from 1
    phase: str = ""  # "input", "forward", "backward" or "weights"; empty: not found
    where: Line = NOWHERE
    module: str = ""
    operation: str = ""  # as people say it: "log"
    detail: str = ""  # "of 3 numbers that are zero or less"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One recorded process: all that a run-time rule may look at. It may have finished no step."""

    rank: int = 0
    step_kind: str = ""  # what ended a step: "optimizer", "loader", "module" or "marked"
    step_events: int = 1  # how many of them make a step: a critic may step more often than all else
    steps: tuple[Step, ...] = ()
    warmup_steps: int = 0
    start_s: float = 0.0  # before the first step
    validation_s: float = 0.0  # work on batches of other loaders, and what is outside marks
    saving_s: float = 0.0
    left_out_slices: int = 0  # of a run too long to keep whole
    unreadable: int = 0  # lines of the recording and slices in them that are damaged, so left out
    settings: Settings | None = None
    loaders: tuple[Loader, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    memory: tuple[Memory, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    others: float | None = None  # share of its cores that other programs used, in the usual second
    operations: tuple[Operation, ...] = ()
    calls: tuple[ModuleCall, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    transfers: tuple[Kernel, ...] = ()  # between host and GPU, by the names that CUDA has for them
    gaps: tuple[Gap, ...] = ()
    timeline_ms: float | None = None  # length of the step that these three are of
    zeroed: tuple[Zeroed, ...] = ()
    rebuilt: tuple[ModuleCall, ...] = ()  # outermost models that the step before did not have
    kept: tuple[Kept, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    parameters: Parameters | None = None
    compiled: tuple[Compiled, ...] = ()
    breaks: tuple[Break, ...] = ()
    non_finite: NonFinite | None = None
    stacks: tuple[str, ...] = ()  # of a run that finished no step
    headspace: Headspace | None = None  # measured after the run; null: not measured

    @property
    def steady(self) -> tuple[Step, ...]:
        """The undisturbed steps: after warm-up, not inspected."""
        return tuple(step for step in self.steps[self.warmup_steps :] if not step.inspected)

    def mean_ms(self, field: str) -> float:
        """Mean of one ``Step`` field over the undisturbed steps."""
        return fmean(self._values(field))

    def median_ms(self, field: str = "total_ms") -> float:
        """Median of one ``Step`` field over the undisturbed steps."""
        return median(self._values(field))

    def quartiles_ms(self, field: str = "total_ms") -> tuple[float, float]:
        """The middle half of one ``Step`` field."""
        values = self._values(field)
        if len(values) < 2:
            return values[0], values[0]
        low, _, high = quantiles(values, n=4, method="inclusive")
        return low, high

    def _values(self, field: str) -> list[float]:
        values = [getattr(step, field) for step in self.steady]
        if not values:
            raise ValueError(
                f"{len(self.steps)} steps, none of them undisturbed: record more steps"
            )
        return values


def phases(ranks: Sequence[Evidence]) -> dict[str, str]:
    """The phases of these runs; the last only where a script runs ahead of its GPU."""
    ahead = any(step.queued_ms for each in ranks for step in each.steady)
    return {field: name for field, name in PHASES.items() if ahead or field != "queued_ms"}
