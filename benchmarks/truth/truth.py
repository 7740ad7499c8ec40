"""Are the promises of ``pitstop profile`` true? Public programs, mended by hand.

    python benchmarks/truth/truth.py run vae --clone PATH   PATH: a clone of the recipe's repository
    python benchmarks/truth/truth.py page                   docs/truth.md from all results

``run`` exports the recipe's commit twice, makes its data, profiles the program, makes the change of
the finding by hand in the second copy, and compares both in adjacent pairs. All of it runs on one
thread, and what a step waits for a core is left out: others may use the machine.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from made import MADE
from page import page
from recipe import Edit, Recipe, load, names

from pitstop.compare.pairs import Pairs
from pitstop.profile import runs
from pitstop.profile.collect import collect
from pitstop.tune.looks import compared

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCS = HERE.parent.parent / "docs" / "truth.md"
PITSTOP = [sys.executable, "-m", "pitstop"]
PAIRS = 6
WARMUP = 3  # steps of each run
PATIENCE_S = 3600  # of one command


def main() -> int:
    """Run a recipe, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("name", choices=names())
    run.add_argument("--clone", type=Path, required=True)
    run.add_argument("--only-profile", action="store_true", help="to see what it finds")
    commands.add_parser("page")
    given = parser.parse_args()
    if given.command == "page":
        results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
        DOCS.write_text(page([(load(each["name"]), each) for each in results]), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        result = _truth(load(given.name), given.clone, Path(folder), given.only_profile)
    if not given.only_profile:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(result, indent=1) + "\n"
        (RESULTS / f"{given.name}.json").write_text(text, encoding="utf-8")
    return 0


def _truth(recipe: Recipe, clone: Path, folder: Path, only_profile: bool) -> dict[str, Any]:
    """What was found, what one finding promised, and what its change brought."""
    before, after = folder / "before", folder / "after"
    _export(recipe, clone, before)
    shutil.copytree(before, after)
    for edit in recipe.change:
        _apply(edit, after / recipe.folder)
    found = _profiled(recipe, before / recipe.folder, folder / "found.json")
    findings = [
        {key: each[key] for key in ("code", "severity", "confidence", "saving", "message")}
        for each in found["findings"]
        if each["confidence"] != "suspected"
    ]
    result = {"name": recipe.name, "torch": _torch(), "step_ms": found["ledger"]["step_ms"]}
    waits = [row["ms"] for row in found["ledger"]["rows"] if row["cause"] == "core"]
    result |= {"others": found["ranks"][0]["others"], "core_wait_ms": sum(waits)}
    result["findings"] = findings
    if recipe.change and not only_profile:
        result["step"] = _compared(recipe, before, after)
    return result


def _export(recipe: Recipe, clone: Path, folder: Path) -> None:
    """The program as it was at that commit, with our data and stand-ins."""
    folder.mkdir()
    options = ["--work-tree", str(folder), "checkout", recipe.commit, "--", recipe.folder]
    index = os.environ | {"GIT_INDEX_FILE": str(folder.parent / f"{folder.name}.index")}
    git = ["git", "--git-dir", str(clone / ".git" if (clone / ".git").exists() else clone)]
    subprocess.run([*git, *options], check=True, env=index)
    for edit in recipe.prepare:
        _apply(edit, folder / recipe.folder)
    for name, at in recipe.data:
        MADE[name](folder / recipe.folder / at)


def _apply(edit: Edit, folder: Path) -> None:
    path = folder / edit.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if edit.find and text.count(edit.find) != 1:
        raise SystemExit(f"{edit.file}: {edit.find!r} is there {text.count(edit.find)} times")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = text.replace(edit.find, edit.replace) if edit.find else edit.replace
    path.write_text(new, encoding="utf-8")


def _profiled(recipe: Recipe, folder: Path, path: Path) -> dict[str, Any]:
    """The report of the program as it is."""
    words = [*PITSTOP, "profile", "--quick", "--output", str(path), *shlex.split(recipe.command)]
    _run(words, folder)
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def _compared(recipe: Recipe, before: Path, after: Path) -> dict[str, Any]:
    """The step with the change against the step without, from adjacent pairs of runs."""
    sides = [[_on_core_ms(recipe, each) for each in (before, after)] for _ in range(PAIRS)]
    found = compared(Pairs(tuple(a for a, _ in sides), tuple(b for _, b in sides)))
    return asdict(found)


def _on_core_ms(recipe: Recipe, folder: Path) -> float:
    """The median step of one run, without the time in which it waited for a core or a batch."""
    words = ["profile", "--inspect", "0", "--steps", str(recipe.steps)]
    _run([*PITSTOP, *words, *shlex.split(recipe.command)], folder / recipe.folder)
    (evidence,) = collect(runs.find(folder / recipe.folder, "last"), WARMUP)
    return median(
        step.total_ms - (step.core_wait_ms or 0.0) * (1 - step.data_wait_ms / step.total_ms)
        for step in evidence.steady
    )


def _run(words: list[str], folder: Path) -> None:
    """Run it with its output in sight, on one thread: its time on a core is then its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(words, cwd=folder, check=True, timeout=PATIENCE_S, env=environment)


def _torch() -> str:
    return subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
