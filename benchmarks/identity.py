"""Does recording change a number? Run each of the five systems bare and profiled, and compare.

    python benchmarks/identity.py [--steps 9] [NAME ...]

Everything a system prints but its times must be equal to the letter, inspected steps included.
About three minutes on two idle cores; exit code 1 where anything differs.
"""

import argparse
import re
import subprocess
import sys
import tempfile

from pitstop.workloads import bench
from pitstop.workloads.expect import load

TIMES = re.compile(r"time=\S+")


def main() -> int:
    """Compare and print one line per system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=bench.names())
    parser.add_argument("--steps", type=int, default=9)  # enough that two steps are inspected
    arguments = parser.parse_args()
    changed = False
    for name in arguments.names:
        options = ["--small", "--steps", str(arguments.steps), *load(name).learn]
        bare = printed([], name, options)
        profiled = printed(["pitstop", "profile", "--warmup", "1", "-m"], name, options)
        print(f"{name:<20} {'the same' if bare == profiled else 'DIFFERENT'}", flush=True)
        changed |= bare != profiled
    return int(changed)


def printed(before: list[str], name: str, options: list[str]) -> tuple[int, str]:
    """Exit code and output of one run, times left out."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", *before, f"pitstop.workloads.{name}.slow", *options]
        done = subprocess.run(
            [*command, "--out", folder], capture_output=True, text=True, cwd=folder, check=False
        )
    return done.returncode, TIMES.sub("", done.stdout)


if __name__ == "__main__":
    sys.exit(main())
