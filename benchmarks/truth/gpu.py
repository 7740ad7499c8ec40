"""The same on a GPU, within minutes: all programs start at once and are held at their first step.

    python benchmarks/truth/gpu.py export --clones FOLDER    sources into carry/public/truth
    python benchmarks/truth/gpu.py run                       there, where the GPU is

Then one after the other has the GPU to itself: profiled, and in turns with its change. Results go
to $OUT/truth_gpu.json, one file for all since few come back from there.

    python benchmarks/truth/gpu.py keep truth_gpu.json       into results_gpu, for ``truth.py page``
"""

import argparse
import json
import os
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from program import changed, export, furnish
from recipe import Recipe, load, names
from turns import WARMUP, Side, alternate, started

from truth import HERE, OF_DATA, ON_GPU, Result, facts

BUNDLE = HERE.parent.parent / "carry" / "public" / "truth"
ENOUGH_S = 210.0  # of the machine for all programs
TURN_S = 0.4
LONGEST_LOOK_S = 40.0  # for one profile


def main() -> int:
    """Bring the sources together, or run them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("export")
    one.add_argument("--clones", type=Path, required=True)
    run = commands.add_parser("run")
    run.add_argument("names", nargs="*", help="some of those that were exported")
    commands.add_parser("keep").add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "keep":
        ON_GPU.mkdir(exist_ok=True)
        for each in json.loads(given.file.read_text(encoding="utf-8")):
            text = json.dumps(each, indent=1) + "\n"
            (ON_GPU / f"{each['name']}.json").write_text(text, encoding="utf-8")
        return 0
    if given.command == "export":
        for recipe in (each for each in map(load, names()) if each.on_gpu):
            export(recipe, given.clones.resolve(), BUNDLE / recipe.name / "before", gpu=True)
        return 0
    known = sorted(each.name for each in BUNDLE.iterdir() if each.is_dir())
    _run([load(name) for name in given.names or known])
    return 0


def _run(recipes: list[Recipe]) -> None:
    end = time.monotonic() + ENOUGH_S
    out = Path(os.environ.get("OUT") or BUNDLE)
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        waiting = [(recipe, _all_started(recipe, stack)) for recipe in recipes]
        for _, sides in waiting:
            for side in sides:
                _hold(side, end)
        print(f"all started, {end - time.monotonic():.0f} s left", flush=True)
        everything = []
        for recipe, sides in waiting:
            if time.monotonic() < end:
                found = _looked_at(recipe, *sides, end)
                everything.append(found)
                print(json.dumps(found), flush=True)
        (out / "truth_gpu.json").write_text(json.dumps(everything), encoding="utf-8")


def _all_started(recipe: Recipe, stack: ExitStack) -> tuple[Side, Side, Side]:
    """The program to be profiled, and the two that are compared."""
    before = BUNDLE / recipe.name / "before"
    for old in ("look", "after"):
        shutil.rmtree(before.with_name(old), ignore_errors=True)
    furnish(recipe, before)
    look, after = before.with_name("look"), changed(recipe, before)
    shutil.copytree(before, look)
    options = "--quick", "--output", "found.json", "--force"
    return (
        stack.enter_context(started(recipe.on_gpu, look / recipe.folder, *options)),
        stack.enter_context(started(recipe.on_gpu, before / recipe.folder)),
        stack.enter_context(started(recipe.on_gpu, after / recipe.folder)),
    )


def _hold(side: Side, end: float) -> None:
    """Stop it at its first step; what fails is told when its turn comes."""
    while not side.steps() and side.process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    if side.process.poll() is None:
        side.stop()


def _looked_at(recipe: Recipe, look: Side, first: Side, second: Side, end: float) -> Result:
    """What was found in one program, and what its change brings."""
    result: Result = {"name": recipe.name, "finding": recipe.finding}
    try:
        look.go()
        look.process.wait(timeout=min(LONGEST_LOOK_S, max(1.0, end - time.monotonic())))
        result |= facts(json.loads((look.folder / "found.json").read_text(encoding="utf-8")))
        if recipe.change:
            for side in (first, second):
                side.go()
                side.until(2 * WARMUP)
                side.stop()
            result["step"] = asdict(alternate(first, second, TURN_S, recipe.finding in OF_DATA))
    except (Exception, SystemExit) as error:  # noqa: BLE001 one program must not cost the others
        told = (look.folder / "output.txt").read_text(encoding="utf-8", errors="replace")
        result |= {"error": repr(error), "told": told[-500:]}
    return result


if __name__ == "__main__":
    sys.exit(main())
