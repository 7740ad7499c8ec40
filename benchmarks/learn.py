"""Do the five systems learn? Train each at small size and print its quality before and after.

    python benchmarks/learn.py [--steps 300] [NAME ...]

About three minutes a system on two idle cores. Exit code 1 where the quality that the system's
expect.toml asks for is not reached.
"""

import argparse
import sys
import time

from pitstop.workloads import bench
from pitstop.workloads.expect import Quality, load


def main() -> int:
    """Train and print one row per system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=bench.names())
    parser.add_argument("--steps", type=int, help="default: what expect.toml asks for")
    arguments = parser.parse_args()
    print("system               steps metric       before    after    bound  minutes")
    missed = False
    for name in arguments.names:
        quality = load(name).quality
        steps = arguments.steps or quality.after_steps
        begun = time.perf_counter()
        outcome = bench.run(name, ["--small", "--steps", str(steps), *load(name).learn])
        minutes = (time.perf_counter() - begun) / 60
        after = outcome.quality_after if outcome.quality_after is not None else float("nan")
        before = outcome.quality_before if outcome.quality_before is not None else float("nan")
        bound = quality.at_least if quality.at_least is not None else quality.at_most
        print(
            f"{name:<20} {steps:>5} {quality.metric:<10} {before:>8.3f} {after:>8.3f} "
            f"{bound:>8.3f}  {minutes:.1f}",
            flush=True,
        )
        missed |= steps >= quality.after_steps and not kept(quality, after)
    return int(missed)


def kept(quality: Quality, value: float) -> bool:
    """Whether a value is on the right side of the bound."""
    if quality.at_least is not None:
        return value >= quality.at_least
    return quality.at_most is not None and value <= quality.at_most


if __name__ == "__main__":
    sys.exit(main())
