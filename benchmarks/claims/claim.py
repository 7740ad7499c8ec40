"""Claims: a sentence of a report, and a function that measures whether it is true.

A function of one of the files beside this one is a claim if ``@claim`` stands before it. It is
given the device, and answers with what it measured and a verdict. The reports are in English,
Turkish and Chinese; sentences are translated.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pitstop.compare import pairs
from pitstop.core.comparison import Comparison
from pitstop.core.units import milliseconds, percent

Verdict = Literal["true", "partly", "false", "depends", "inconclusive", "not measured"]
Measure = Callable[[str], "Answer"]

PAIRS = {"cuda": 12, "cpu": 6}
TURN_S = 0.05  # of a side, at least


@dataclass(frozen=True, slots=True)
class Answer:
    """What was run, what came of it, and what that says of the claim."""

    ran: str
    measured: str
    verdict: Verdict
    why: str = ""  # where the numbers do not say it by themselves


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as written, where it can be measured, and how."""

    name: str
    words: str
    devices: tuple[str, ...]
    measure: Measure | None
    why_not: str = ""  # where nothing can measure it


def claim(words: str, on: tuple[str, ...] = ("cpu", "cuda")) -> Callable[[Measure], Claim]:
    """Make a claim of a function; ``on`` are the devices that say something about it."""

    def made(measure: Measure) -> Claim:
        return Claim(measure.__name__, words, on, measure)

    return made


def unmeasured(name: str, words: str, why: str) -> Claim:
    """A claim that nothing of ours can answer, and why."""
    return Claim(name, words, (), None, why)


def side_by_side(
    before: Callable[[], object], after: Callable[[], object], device: str, most: int = 24
) -> Comparison:
    """Time both in turns: ``after`` against ``before``, per call, by ``most`` pairs at most."""
    for each in (before, after):
        each()
        each()
    calls = max(1, round(TURN_S / max(1e-7, _seconds(before, 1, device))))
    found = pairs.measure(
        lambda: _seconds(before, calls, device) * 1e3,
        lambda: _seconds(after, calls, device) * 1e3,
        lambda _: False,
        pairs.looks_within(min(most, PAIRS[device])),
    )
    noise = pairs.noise(found.before, found.after)
    return pairs.verdict(found.before, found.after, noise)


def _seconds(run: Callable[[], object], calls: int, device: str) -> float:
    """Of one call: on a CPU the time of this thread, as others use the machine."""
    if device == "cuda":
        torch.cuda.synchronize()
        begun = time.perf_counter()
    else:
        begun = time.thread_time()
    for _ in range(calls):
        run()
    if device == "cuda":
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / calls
    return (time.thread_time() - begun) / calls


def faster(found: Comparison) -> str:
    """``1.20x (1.18 to 1.25)``, the times before and after behind it."""
    assert found.ratio
    assert found.before
    assert found.after
    text = f"{1 / found.ratio:.2f}x"
    if found.low and found.high:
        text += f" ({1 / found.high:.2f} to {1 / found.low:.2f})"
    return f"{text}: {milliseconds(found.before)} before, {milliseconds(found.after)} after"


def gained(found: Comparison, least: float, most: float = 1e9) -> Verdict:
    """Whether it is as many times as fast as was claimed, from ``least`` to ``most``.

    Partly: it is faster, but by less; or by more than was said.
    """
    if not (found.ratio and found.low and found.high):
        return "not measured"
    slowest, fastest = 1 / found.high, 1 / found.low
    if found.verdict in {"same", "worse"} or fastest < least:
        return "partly" if found.verdict == "better" else "false"
    if found.verdict == "inconclusive":
        return "inconclusive"
    return "true" if slowest <= most else "partly"


def relative(one: Tensor, other: Tensor) -> float:
    """How far two results are apart, as a share of their size."""
    return float((one.float() - other.float()).norm() / other.float().norm().clamp(min=1e-30))


def peak(run: Callable[[], object]) -> int:
    """The most bytes on the GPU while it runs, beyond what was there."""
    run()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - base


def share(part: float, whole: float) -> str:
    """A part of a whole in percent."""
    return percent(part / whole)
