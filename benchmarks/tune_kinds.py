"""Does `pitstop tune` keep what helps, and nothing else? Seven kinds of small scripts on a CPU.

    python benchmarks/tune_kinds.py [NAME ...]      each takes one to ten minutes on two cores

The scripts are those of ``tests/tune/scripts``, unedited. A kind is right if what must be kept is
kept, what must be refused is refused with that verdict, and the script's own files are untouched.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from pitstop.core import store
from pitstop.core.report import Report

SCRIPTS = Path(__file__).parents[1] / "tests" / "tune" / "scripts"
PICTURES = 64
REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class Kind:
    """The changes to try, and the verdicts that some of them must have."""

    only: str
    verdicts: dict[str, str] = field(default_factory=dict)
    nothing: bool = False  # nothing at all may be kept


KINDS = {
    "loader_bound": Kind("loader,fused-optimizer", {"loader": "kept"}),
    "launch_bound": Kind("fused-optimizer,compile", {"compile": "kept"}),
    "nothing_helps": Kind("fused-optimizer,compile", nothing=True),
    "bf16_breaks": Kind("bf16,fused-optimizer", {"bf16": "drifted"}),
    "compile_crashes": Kind(
        "fused-optimizer,compile", {"compile": "failed", "fused-optimizer": "kept"}
    ),
    "random_pictures": Kind("loader", {"loader": "kept"}),
    "resumes": Kind("loader", {"loader": "kept"}),
}


def judge(name: str, kind: Kind, folder: Path) -> bool:
    """Tune one script, print what became of it, and say whether that is right."""
    shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
    begun = time.monotonic()
    options = ["--only", kind.only, "--output", REPORT, f"{name}.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pitstop", "tune", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begun
    if done.returncode:
        *_, last = done.stderr.strip().split("\n")
        print(f"{name}: exit code {done.returncode}: {last}")
        return False
    report = store.load(folder / REPORT, Report)
    verdicts = {(each.change.split()[0], each.verdict) for each in report.trials}
    right = verdicts >= set(kind.verdicts.items()) and not (folder / "last.pt").exists()
    if kind.nothing:
        right = right and all(verdict != "kept" for _, verdict in verdicts)
    print(f"{'right' if right else 'WRONG'} in {seconds:.0f} s: {report.verdict}")
    print("  " + "; ".join(f"{each.change}: {each.verdict}" for each in report.trials), flush=True)
    return right


def draw_pictures(folder: Path) -> None:
    """Blurred noise, which takes as long to decode as a photograph."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(PICTURES):
        pixels = noise.integers(0, 255, (720, 960, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels).resize((1280, 960))
        picture.save(folder / f"{number:03}.png", compress_level=1)


def main() -> None:
    """Judge all kinds, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(KINDS))
    names = parser.parse_args().names or list(KINDS)
    if unknown := set(names) - set(KINDS):
        parser.error(f"{', '.join(unknown)}: no such kind; choose from {', '.join(KINDS)}")
    right = []
    with tempfile.TemporaryDirectory() as place:
        draw_pictures(Path(place, "pictures"))
        for name in names:
            folder = Path(place, name)
            folder.mkdir()
            (folder / "pictures").symlink_to(Path(place, "pictures"))
            right.append(judge(name, KINDS[name], folder))
    print(f"{sum(right)} of {len(right)} right")
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
