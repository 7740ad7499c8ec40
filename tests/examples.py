"""One value of every shared type, filled in: what the golden files and the store tests use."""

from pitstop.core.comparison import Comparison
from pitstop.core.evidence import Evidence, Line, Memory, ModuleCall, Operation, Step
from pitstop.core.finding import Edit, Finding, Fix, Metric, Span
from pitstop.core.ledger import Ledger, Row
from pitstop.core.machine import Gpu, Machine, Package
from pitstop.core.report import Check, Report, Table
from pitstop.core.timing import Timing
from pitstop.core.trial import Trial

MACHINE = Machine(
    system="Linux",
    release="6.1",
    architecture="x86_64",
    cpu="a CPU",
    cores=2,
    memory_bytes=24 * 2**30,
    shared_memory_bytes=64 * 2**20,
    python="3.11.7",
    start_method="fork",
    packages=(Package("torch", "2.7.1+cu118", cuda="11.8", archs=("sm_80", "sm_90")),),
    gpus=(Gpu("NVIDIA GeForce RTX 5070", "12.0"),),
)

FINDING = Finding(
    message="`.item()` waits for the GPU in every step; log the tensor | or <every> 100th.",
    span=Span("src/train.py", 88, 9, 88, 30),
    metrics=(Metric("sync", 3.2, "ms"), Metric("step", 41.0, "ms")),
    saving=0.078,
    excerpt=("  87 |     loss = model(x)", "> 88 |     log(loss.item())  # <b>"),
    confidence="measured",
    fix=Fix("Keep the tensor", (Edit(120, 127, ""),), safe=False),
    changes=("no-sync",),
    code="PIT201",
    rule="sync-in-hot-loop",
)

LINE = Line("src/train.py", 88, "train")
LEDGER = Ledger(
    41.0,
    "cuda",
    (
        Row("floor", 12.5, "convolution", Line("src/model.py", 30, "forward"), 52),
        Row("above", 13.0, "native_group_norm", Line("src/model.py", 31, "forward"), 26),
        Row("data", 9.0),
        Row("sync", 3.2, "", LINE, 4),
        Row("idle", 3.3),
    ),
)
EVIDENCE = Evidence(
    step_kind="optimizer",
    steps=(Step(900.0, 800.0, other_ms=100.0), *[Step(41.0, 9.0, other_ms=32.0)] * 6, Step(80.0)),
    warmup_steps=1,
    memory=(Memory(0.0, 10**9, 2 * 10**9, 3 * 10**9), Memory(1.0, 2 * 10**9, 4 * 10**9)),
    operations=(Operation("aten.convolution.default", LINE, "f", 52, 9e3, 20e3, 10**9, 10**12, 1),),
    calls=(
        ModuleCall("Net", "Net", LINE, -1, "f[8]", parameters=9),
        ModuleCall("head", "Conv2d", LINE, 0, "f[8]", parameters=9, unused=True),
    ),
)

REPORT = Report(
    command="profile",
    verdict="41.0 ms per step; the hardware could do it in 12.5 ms.",
    why="22 % of the step waits for data, 7.8 % for synchronisation.",
    next="pitstop tune train.py",
    where="src/train.py:88",
    machine=MACHINE,
    checks=(
        Check("ok", "python", "3.11.7"),
        Check("warn", "/dev/shm", "64.0 MiB", "docker run --shm-size=8g", "PIT005"),
        Check("FAIL", "torch", "2.7.1+cu118 has no sm_120", "pip install torch", "PIT001"),
        Check("n/a", "tf32", "no GPU"),
    ),
    ledger=LEDGER,
    tables=(
        Table("phase", ("ms", "share"), (("data", "9.0", "22 %"), ("[forward]", "32.0", "78 %"))),
    ),
    findings=(FINDING,),
    trials=(
        Trial("loader", "kept", Timing((41.0, 41.2, 40.8, 41.0)), Timing((32.0, 32.1, 31.9, 32.0))),
        Trial("compile", "failed", Timing((41.0, 41.2, 40.8, 41.0)), note="AssertionError: root"),
    ),
    comparisons=(
        Comparison("step", "better", 0.78, 0.75, 0.81, 6, "more than 1.0 %", 41.0, 32.0, "ms"),
        Comparison("psnr", "inconclusive", 1.0, pairs=3, reason="3 pairs", before=30.5, after=30.5),
    ),
    notes=("3 warm-up steps, not in the step time",),
    ranks=(EVIDENCE,),
    skipped=("src/old.py: Python 2 syntax at line 3",),
    docs={"PIT201": "Python waits for the GPU in every step."},
)
