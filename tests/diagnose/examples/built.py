"""Runs on a GPU, or that hang, as their recordings would be: the bad one and the good one.

Only the evidence is made by hand. What it means is up to the real ledger.
"""

from dataclasses import replace

from diagnose.builders import line, loader, operation
from pitstop.core.evidence import (
    Break,
    Compiled,
    Evidence,
    Gap,
    Kernel,
    Memory,
    ModuleCall,
    Optimizer,
    Sampled,
    Settings,
    Step,
)
from pitstop.core.machine import Gpu, Limits, Machine
from pitstop.diagnose.recording import Recording

GIB = 2**30
LIMITS = Limits("cuda:0", 4e12, 5e13, 4e14, 8e14, 8e14, 5.0, 5e10, 1e10)
MACHINE = Machine(gpus=(Gpu(memory_bytes=40 * GIB),), limits=(LIMITS,))
GPU = Settings(device="cuda", tf32_matmul=False, tf32_cudnn=True)
HERE, THERE = line(10), line(11)
FLOAT, DOUBLE = "float32[64,64]@cuda", "float64[64,64]@cuda"
STACK = """Thread 0x1 (most recent call first):
  File "/usr/lib/python3.11/queue.py", line 171 in get
  File "/home/me/data.py", line 31 in __getitem__
  File "/home/me/train.py", line 9 in <module>
"""


def kernel(name, where=HERE, ms=30.0, shapes=FLOAT, **more):
    """An operation that keeps the GPU busy for so long."""
    return operation(name, where, shapes, micros=50.0, device_micros=ms * 1e3, **more)


def gpu(*operations, gaps=(), machine=MACHINE, settings=GPU, **evidence):
    """A training on a GPU with steps of 100 ms; the rest of each step is one convolution."""
    idle = sum(each.micros for each in gaps) / 1e3
    busy = sum(each.device_micros or 0.0 for each in operations) / 1e3
    rest = kernel(
        "convolution", line(50), 100.0 - idle - busy, "bfloat16[8,8]@cuda", flops=int(6e13)
    )
    given = {"steps": (Step(100.0, forward_ms=50.0, backward_ms=50.0),) * 12}
    given |= {"operations": (*operations, rest), "gaps": tuple(gaps), "settings": settings}
    given |= {"step_kind": "optimizer", "timeline_ms": 100.0} | evidence
    return Recording((Evidence(**given),), machine)


def copying(pageable, waits):
    copy = operation(
        "copy_", HERE, "float32[9]@cuda float32[9]@cpu", micros=2e4, moved_bytes=2**24, waits=waits
    )
    gaps = (Gap("copy", 2e4, 1, HERE),) if waits else ()
    moved = Kernel("Memcpy HtoD (Pageable -> Device)" if pageable else "Memcpy HtoD (Pinned)", 1, 9)
    feeds = loader(workers=4, pinned=not pageable)
    return gpu(copy, gaps=gaps, transfers=(moved,), loaders=(feeds,))


def emptied(empties):
    calls = [replace(operation("x", HERE, micros=2e4, waits=True), name="torch.cuda.empty_cache")]
    return gpu(*calls * empties, gaps=(Gap("sync", 2e4, 1, HERE),) * empties)


def launching(gap_ms):
    kernels = (Kernel("small", 4000, 1e4),)
    return gpu(gaps=(Gap("launch", gap_ms * 1e3, 4000),), kernels=kernels)


def on_cpu(device):
    return gpu(
        operation("add_", HERE, f"float32[900,900]@{device}", micros=2e4),
        gaps=(Gap("python", 2e4, 1, HERE),) if device == "cpu" else (),
    )


def multiplying(kind, settings=GPU):
    flops = int(1.5e12) if kind == "float32" else int(2.4e13)
    return gpu(kernel("mm", shapes=f"{kind}[9,9]@cuda", flops=flops), settings=settings)


def compiling(recompiled, breaks):
    function = line(3, function="loss_of")
    compiled = (Compiled(function, 4.0, 0), *[Compiled(function, 4.0, 1)] * recompiled)
    broken = (Break("call to print", 24, HERE),) * breaks
    return gpu(gaps=(Gap("python", 2e4, 9, HERE),) * breaks, compiled=compiled, breaks=broken)


def convolving(layout_ms=0.0, above_ms=0.0, benchmark=False):
    work = kernel("convolution", layout_micros=layout_ms * 1e3, flops=int(0.03 * 8e14))
    slow = kernel("convolution", THERE, above_ms, "bfloat16[9]@cuda", flops=int(1e6))
    settings = replace(GPU, cudnn_benchmark=benchmark, tf32_matmul=True)
    return gpu(work, slow, settings=settings, loaders=(loader(batches=40, batch_shapes=1),))


def remembering(peak_gib, reserved_gib, **more):
    memory = (Memory(1.0, None, int(peak_gib * GIB), int(reserved_gib * GIB)),)
    return gpu(memory=memory, loaders=(loader(),), **more)


def checkpointing(recomputes):
    again = kernel("gelu", ms=30.0, phase="backward", moved_bytes=GIB)
    call = ModuleCall("block", "Block", HERE, -1, FLOAT, parameters=9, recomputed=recomputes)
    again = again if recomputes else replace(again, phase="", backward=False)
    return gpu(replace(again, call=0), calls=(call,), memory=(Memory(1.0, None, 9 * GIB),))


def normalising(ms):
    return gpu(kernel("native_group_norm", ms=ms, moved_bytes=int(0.002 * 4e12)))


def tiling(size, tiles):
    cut = operation("slice", HERE, "float32[1,3,512,512]@cuda", calls=2 * tiles)
    clone = operation("clone", HERE, f"float32[1,3,{size},{size}]@cuda", calls=tiles)
    shapes = f"float32[1,3,{size},{size}]@cuda"
    calls = tuple(ModuleCall("vae", "Vae", HERE, -1, shapes, parameters=9) for _ in range(tiles))
    work = [kernel("convolution", THERE, 90.0 / tiles, call=place) for place in range(tiles)]
    return gpu(cut, clone, *work, calls=calls, step_kind="loader")


def chaining(fused):
    names = ("fused",) if fused else ("mul", "add", "gelu", "silu")
    return gpu(*(kernel(name, ms=40.0 / len(names), moved_bytes=9) for name in names))


def scaling(falls):
    scales = [2.0 ** (16 - falls * number) for number in range(24)]
    steps = tuple(Step(100.0, forward_ms=50.0, backward_ms=50.0, scale=each) for each in scales)
    return gpu(steps=steps)


def straggling(extra_ms):
    def rank(number, own_ms):
        waited = 100.0 - own_ms
        steps = (Step(100.0, forward_ms=own_ms, backward_ms=waited, collective_ms=waited),) * 12
        operations = (operation("convolution", HERE, micros=own_ms * 1e3, flops=9),)
        seen = (Sampled(line(8, function="save_samples"), 100),) if number == 0 and extra_ms else ()
        seen += (Sampled(HERE, 200),)
        return Evidence(
            rank=number, step_kind="optimizer", steps=steps, operations=operations, sampled=seen
        )

    return Recording((rank(0, 50.0 + extra_ms), rank(1, 50.0), rank(2, 50.0)))


def grouped(groups):
    adam = Optimizer("AdamW", 10**6, 480, made=HERE, groups=groups, unlike_groups=2)
    steps = tuple(Step(100.0, optimizer_ms=30.0) for _ in range(12))
    return gpu(kernel("_fused_adamw", ms=2.0), steps=steps, optimizers=(adam,))


HANGS = Recording((Evidence(stacks=(STACK,)),))
CURED = GPU, replace(GPU, tf32_matmul=True)

SCENES = {
    "pageable-batches": (copying(True, True), copying(False, False)),
    "run-hangs": (HANGS, gpu()),
    "blocking-copy": (copying(False, True), copying(False, False)),
    "cache-emptied-in-loop": (emptied(1), emptied(0)),
    "launch-bound": (launching(40.0), launching(1.0)),
    "op-runs-on-cpu": (on_cpu("cpu"), on_cpu("cuda")),
    "fp32-matmul-without-tf32": tuple(multiplying("float32", each) for each in CURED),
    "fp32-where-bf16-fits": (multiplying("float32"), multiplying("bfloat16")),
    "float64-on-device": (gpu(kernel("mul", shapes=DOUBLE)), gpu(kernel("mul"))),
    "recompiles": (compiling(4, 0), compiling(0, 0)),
    "graph-breaks": (compiling(0, 1), compiling(0, 0)),
    "layout-ping-pong": (convolving(layout_ms=20.0), convolving()),
    "cudnn-benchmark-misused": (convolving(above_ms=30.0), convolving(above_ms=30, benchmark=True)),
    "memory-fragmented": (remembering(18, 36), remembering(30, 36)),
    "checkpointing-not-needed": (checkpointing(True), checkpointing(False)),
    "batch-headroom-unused": tuple(
        remembering(each, each, gaps=(Gap("launch", 4e4, 900),)) for each in (9, 30)
    ),
    "kernel-far-above-floor": (normalising(30.0), normalising(3.0)),
    "overlap-recomputed": (tiling(128, 49), tiling(512, 1)),
    "elementwise-unfused": (chaining(False), chaining(True)),
    "scaler-spiral": (scaling(1), scaling(0)),
    "parameter-groups-alike": (grouped(480), grouped(2)),
    "rank-straggles": (straggling(30.0), straggling(0.0)),
}
