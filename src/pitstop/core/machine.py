"""Machine: what one computer is, as plain values. Read by ``doctor``; replayed in tests."""

from dataclasses import dataclass

BUSY = 0.25  # of the cores, used by others: they take turns with a script's own threads then


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU as NVML reports it; ``None`` is what the driver would not tell."""

    name: str = ""
    capability: str = ""  # "9.0"; empty: unknown
    memory_bytes: int = 0
    driver: str = ""  # "580.95.05"
    driver_cuda: str = ""  # the newest CUDA this driver runs: "13.0"
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    default_power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    throttle_reasons: tuple[str, ...] = ()  # NVML's words: "hw-thermal-slowdown"
    pcie_generation: int | None = None
    max_pcie_generation: int | None = None
    pcie_width: int | None = None
    max_pcie_width: int | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package and what it was built for; ``error`` is why its import fails."""

    name: str = ""  # as people say it: "torch", "flash-attn"
    version: str = ""
    distribution: str = ""  # what pip calls it: "cupy-cuda12x"; empty: the same as name
    error: str = ""
    cuda: str = ""  # the CUDA version of its build, "12.8"; empty: none
    hip: str = ""  # the ROCm version of its build
    cudnn: str = ""
    archs: tuple[str, ...] = ()  # GPU architectures in its binaries: "sm_90", "compute_90"
    jit_archs: tuple[str, ...] = ()  # those its run-time compiler can make code for
    built_for_torch: str = ""
    pins: tuple[str, ...] = ()  # the exact versions it asks for: "triton==3.3.1"
    import_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Measured ceilings of one device. ``None`` is unmeasured, never a guess."""

    device: str = "cpu"  # or "cuda:0"
    copy_bytes_per_s: float | None = None  # bytes read plus bytes written
    fp32_flops: float | None = None
    tf32_flops: float | None = None
    bf16_flops: float | None = None
    fp16_flops: float | None = None
    launch_us: float | None = None
    pinned_bytes_per_s: float | None = None
    pageable_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """One computer with its Python and its packages. Zero and empty mean unknown."""

    system: str = "Linux"  # "Linux", "Windows", "Darwin"
    release: str = ""
    architecture: str = ""
    container: bool = False
    cpu: str = ""
    cores: int = 0  # those this process may use
    memory_bytes: int = 0  # what this process may use
    shared_memory_bytes: int | None = None  # size of /dev/shm; None where there is none
    shared_memory_free_bytes: int | None = None
    python: str = ""
    start_method: str = "fork"  # how DataLoader workers start: "fork", "spawn", "forkserver"
    workers: int | None = None  # DataLoader workers the user means to start; None: not said
    batch_bytes: int | None = None  # size of one batch the workers pass on; None: not said
    packages: tuple[Package, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_error: str = ""  # why NVML could not be asked, where there is a driver
    limits: tuple[Limits, ...] = ()

    def package(self, name: str) -> Package | None:
        """The installed package of that name."""
        return next((each for each in self.packages if each.name == name), None)
