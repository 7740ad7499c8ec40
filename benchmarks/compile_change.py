"""What a compiler takes and gains, as the change `compile` puts it on: seconds first, then time.

Run ``python benchmarks/compile_change.py [resnet] [vit] [unet]``. Each program runs as it is, with
layout and precision, and compiled on top of that. "first s" is the first step with the compiler
beyond a usual one, "predicted s" what `pitstop.tune.compile_cost` says for so many operations. The
last column is the relative difference of the loss, or of the result, to the program as it is.
ResNet-50 and the ViT train, the U-Net (diffusers, Stable Diffusion 1.5's shape) does not.
"""

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.blocks import repeated_blocks
from pitstop.tune.compile_cost import OPERATION_S, START_S
from pitstop.tune.inside.script import Run, Script
from pitstop.tune.plan import Options, Plan, Wanted

STEPS, ROUNDS = 6, 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = DEVICE == "cpu"  # a trial of this script itself
Step = Callable[[], torch.Tensor]
BLOCKS: Options = {"scope": "blocks", "dynamic": False}
CAPTURED: Options = {**BLOCKS, "mode": "reduce-overhead"}


class Row(NamedTuple):
    """One program, one way."""

    program: str
    way: str
    ms: float
    first_s: float | None
    predicted_s: float | None
    apart: float


class Counted(internals.TorchDispatchMode):
    """Operations that a compiler would see."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = 0

    def __torch_dispatch__(
        self, function: Any, _types: Any, given: Any = (), named: Any = None
    ) -> Any:
        self.number += 1
        return function(*given, **(named or {}))


class Program(NamedTuple):
    """A model, one step of it, and the ways to try."""

    model: nn.Module
    step: Step
    forward: Callable[[], object]
    ways: dict[str, tuple[tuple[str, Options], ...]]


class Block(nn.Module):
    """Of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two layers."""
        b, n, c = x.shape
        q, k, v = self.mix(self.before(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.join(y.transpose(1, 2).reshape(b, n, c))
        deep: torch.Tensor = self.down(nn.functional.gelu(self.up(self.between(x))))
        return x + deep


class Vit(nn.Module):
    """Twelve blocks on patches of a picture."""

    def __init__(self, width: int = 384) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.ModuleList(Block(width, 6) for _ in range(12))
        self.head = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(x.mean(1))
        return logits


def learning(model: nn.Module, side: int, batch: int, *, scopes: tuple[str, ...]) -> Program:
    """Classification of random pictures, with SGD."""
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, foreach=True)
    x = torch.randn(batch, 3, side, side, device=DEVICE)
    y = torch.randint(1000, (batch,), device=DEVICE)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    kept: tuple[tuple[str, Options], ...] = (("bf16", {}),)
    if any(isinstance(each, nn.BatchNorm2d) for each in model.modules()):
        kept = (("channels-last", {}), *kept)
    ways = {"as it is": (), " + ".join(name for name, _ in kept): kept}
    for scope in scopes:
        given: Options = BLOCKS if scope == "blocks" else {"scope": scope}
        ways[f"the same, compile {scope}"] = (*kept, ("compile", given))
    return Program(model, step, lambda: model(x), ways)


def resnet() -> Program:
    """torchvision's, batch 256 as the ImageNet example has it."""
    model = importlib.import_module("torchvision.models").resnet50()
    return learning(model, *((64, 2) if SMALL else (224, 256)), scopes=("blocks",))


def vit() -> Program:
    """A small one."""
    return learning(
        Vit(),
        *((32, 2) if SMALL else (224, 128)),
        scopes=("blocks",) if SMALL else ("blocks", "whole"),
    )


def unet() -> Program:
    """Stable Diffusion 1.5's, one call in half precision."""
    made = importlib.import_module("diffusers").UNet2DConditionModel(cross_attention_dim=768)
    model = made.to(DEVICE, torch.float16).eval()
    x = torch.randn(2, 4, 64, 64, device=DEVICE, dtype=torch.float16)
    t = torch.tensor(500, device=DEVICE)
    text = torch.randn(2, 77, 768, device=DEVICE, dtype=torch.float16)

    def call() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = model(x, t, encoder_hidden_states=text).sample
            return found

    last: tuple[tuple[str, Options], ...] = (("channels-last", {}),)
    ways = {
        "as it is": (),
        "channels-last": last,
        "channels-last, compile blocks": (*last, ("compile", BLOCKS)),
        "the same, reduce-overhead": (*last, ("compile", CAPTURED)),
    }
    return Program(model, call, call, ways)


PROGRAMS = {"resnet": resnet, "vit": vit, "unet": unet}


def operations(program: Program) -> dict[str, int]:
    """How many the whole has, and its blocks, each kind once."""
    kinds: dict[object, int] = {}
    counter = Counted()

    def around(block: nn.Module) -> None:
        begun = 0

        def before(*_: object) -> None:
            nonlocal begun
            begun = counter.number

        def after(_: object, given: Any, __: object) -> None:
            shapes = tuple(each.shape for each in given if isinstance(each, torch.Tensor))
            sizes = tuple(each.shape for each in block.parameters())
            kinds[type(block), shapes, sizes] = counter.number - begun

        hooks.append(block.register_forward_pre_hook(before))
        hooks.append(block.register_forward_hook(after))

    hooks: list[Any] = []
    for block in repeated_blocks(program.model):
        around(block)
    with torch.no_grad(), counter:
        program.forward()
    for each in hooks:
        each.remove()
    return {"whole": counter.number, "blocks": sum(kinds.values())}


def wait() -> None:
    """Let the device finish."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def took_s(step: Step, times: int = 1) -> float:
    """Seconds of so many steps."""
    wait()
    begun = time.perf_counter()
    for _ in range(times):
        step()
    wait()
    return time.perf_counter() - begun


def rows(name: str) -> list[Row]:
    """All ways of one program, in turn."""
    program = PROGRAMS[name]()
    number = operations(program)
    begun = [each.detach().clone() for each in program.model.state_dict().values()]
    wanted = list(dict.fromkeys(_key(each) for way in program.ways.values() for each in way))
    changes = tuple(Wanted(change, dict(options)) for change, options in wanted)
    run = Run(Plan(changes=changes, folder=tempfile.mkdtemp(), earnest=True))
    scripts: list[Script] = run._scripts

    def turn(way: str) -> None:
        on = [wanted.index(_key(each)) for each in program.ways[way]]
        for place, script in enumerate(scripts):
            script.turn(place in on)

    found, firsts = {}, {}
    for way in program.ways:
        turn(way)
        with torch.no_grad():
            for each, value in zip(program.model.state_dict().values(), begun, strict=True):
                each.copy_(value)
        torch.manual_seed(0)
        wait()
        begun_s = time.perf_counter()
        found[way] = program.step().double()
        wait()
        firsts[way] = time.perf_counter() - begun_s
        took_s(program.step, 4)
    times: dict[str, list[float]] = {way: [] for way in program.ways}
    for _ in range(ROUNDS):
        for way in program.ways:
            turn(way)
            program.step()
            times[way].append(1e3 * took_s(program.step, STEPS) / STEPS)
    run.close()
    for script in scripts:
        if script.has_declined:
            print(f"{name}: {script.outcome()}")
    plain = found["as it is"]
    return [
        Row(
            name,
            way,
            statistics.median(times[way]),
            firsts[way] - statistics.median(times[way]) / 1e3 if "compile" in str(made) else None,
            _predicted(number, made),
            float((found[way] - plain).norm() / plain.norm()),
        )
        for way, made in program.ways.items()
    ]


def _key(change: tuple[str, Options]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    return change[0], tuple(dict(change[1]).items())


def _predicted(number: dict[str, int], made: tuple[tuple[str, Options], ...]) -> float | None:
    for change, options in made:
        if change == "compile":
            return START_S[DEVICE] + OPERATION_S[DEVICE] * number[str(options["scope"])]
    return None


def table(every: list[Row]) -> str:
    """One line for each way."""
    lines = [f"{'':8s} {'way':42s} {'ms':>8s} {'first s':>8s} {'predicted s':>12s} {'apart':>9s}"]
    for each in every:
        first = "" if each.first_s is None else f"{each.first_s:.1f}"
        predicted = "" if each.predicted_s is None else f"{each.predicted_s:.1f}"
        lines.append(
            f"{each.program:8s} {each.way:42s} {each.ms:8.2f} {first:>8s} {predicted:>12s} "
            f"{each.apart:9.1e}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, and print the table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))
    names = parser.parse_args().programs
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    print(f"{where}, torch {torch.__version__}")
    print(table([row for name in names for row in rows(name)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
