"""Evidence: what one run did, as plain numbers. No tensors, no torch."""

from dataclasses import dataclass
from statistics import fmean, median, quantiles


@dataclass(frozen=True, slots=True)
class Step:
    """Wall time of one training or inference step, and where it went."""

    total_ms: float
    data_wait_ms: float = 0.0
    forward_ms: float = 0.0  # from the last event before a backward pass to that pass
    backward_ms: float = 0.0
    optimizer_ms: float = 0.0
    other_ms: float = 0.0  # all the rest; in a run without backward passes, the model too
    device_ms: float | None = None  # between the ends of two steps, on the GPU's clock
    loss: float | None = None  # the last root of backward, unscaled; null when not finite
    loss_finite: bool = True
    inspected: bool = False  # looked at closely, so slower than it would be
    ended_s: float = 0.0  # since torch was imported


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


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory at one moment of the run."""

    at_s: float
    host_bytes: int | None = None  # of the script and its workers, shared pages counted once
    gpu_peak_bytes: int | None = None  # allocated at most, so far
    gpu_reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sensor:
    """What one GPU's sensors said at one moment of the run."""

    at_s: float
    gpu: int
    busy: float | None = None  # share of the last second with a kernel running
    sm_clock_mhz: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's source."""

    path: str = ""
    line: int = 0
    function: str = ""


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


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory that outlived the step it was made in."""

    where: Line
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """How often a line was found running in the sampled steps."""

    where: Line
    samples: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """All calls of one GPU kernel in an inspected step."""

    name: str
    calls: int
    micros: float


@dataclass(frozen=True, slots=True)
class Parameters:
    """What became of the gradients in an inspected step; name and size of each parameter."""

    count: int = 0
    without_gradient: tuple[tuple[str, int], ...] = ()
    gradient_unused: tuple[tuple[str, int], ...] = ()  # computed, and in no optimizer
    outside_optimizer: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """One recorded process: all that a run-time rule may look at. It may have finished no step."""

    rank: int = 0
    step_kind: str = ""  # what ended a step: "optimizer", "loader", "module" or "marked"
    steps: tuple[Step, ...] = ()
    warmup_steps: int = 0
    start_s: float = 0.0  # before the first step
    beside_s: float = 0.0  # validation and saving, which belong to no step
    left_out_slices: int = 0  # of a run too long to keep whole
    loaders: tuple[Loader, ...] = ()
    memory: tuple[Memory, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    operations: tuple[Operation, ...] = ()
    calls: tuple[ModuleCall, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    kept: tuple[Kept, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    parameters: Parameters | None = None
    compiled_graphs: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    stacks: tuple[str, ...] = ()  # of a run that finished no step

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
