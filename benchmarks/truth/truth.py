"""Are the promises of ``pitstop profile`` true? Public programs, mended by hand.

    python benchmarks/truth/truth.py profile vae dcgan --clones FOLDER    what it finds in them
    python benchmarks/truth/truth.py measure vae --clones FOLDER          and what the change brings
    python benchmarks/truth/truth.py page                                 docs/truth.md from it all

FOLDER holds clones of the recipes' repositories as OWNER+NAME; what is missing is cloned there.
``profile`` exports the recipe's commit, makes its data and stand-ins, and profiles the program.
Recordings that are kept can be judged again by the rules of today, without a run.
``measure`` makes the change of the finding by hand in a copy, and lets both run in turns.
"""

import argparse
import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from page import page
from program import changed, export, furnish
from recipe import Recipe, load, names
from turns import PITSTOP, alone, in_turns

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ON_GPU = HERE / "results_gpu"
DOCS = HERE.parent.parent / "docs" / "truth.md"
PATIENCE_S = 900  # of one profile

OF_DATA = {"PIT101", "PIT102", "PIT110", "PIT113"}  # what they find comes in bursts

Result = dict[str, Any]


def main() -> int:
    """Look at programs, measure their changes, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for word in ("profile", "measure"):
        one = commands.add_parser(word)
        one.add_argument("names", nargs="*", choices=[*names(), []], metavar="NAME")
        one.add_argument("--clones", type=Path, required=True)
        one.add_argument("--recordings", type=Path, help="kept here, and not recorded again")
    commands.add_parser("page")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # programs end with us
    if given.command == "page":
        DOCS.write_text(page(_stored(RESULTS), _stored(ON_GPU)), encoding="utf-8")
        return 0
    kept = given.recordings and given.recordings.resolve()
    work = partial(_profiled, kept=kept) if given.command == "profile" else _measured
    failed = [name for name in given.names or names() if not _done(name, given.clones, work)]
    if failed:
        print("failed:", *failed, file=sys.stderr)
    return bool(failed)


def _stored(folder: Path) -> list[tuple[Recipe, Result]]:
    """The results in a folder, each beside its recipe."""
    told = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    each = [
        one for several in told for one in (several if isinstance(several, list) else [several])
    ]
    return [(load(one["name"]), one) for one in each]


def _done(name: str, clones: Path, work: Callable[[Recipe, Path], Result]) -> bool:
    """Whether one recipe went through; its result is stored beside what is known of it."""
    recipe, stored = load(name), RESULTS / f"{name}.json"
    with tempfile.TemporaryDirectory(prefix=f"truth-{name}-") as folder:
        before = Path(folder) / "before"
        try:
            export(recipe, clones.resolve(), before)
            furnish(recipe, before)
            found = work(recipe, before)
        except (subprocess.SubprocessError, OSError, SystemExit) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return False
    known = json.loads(stored.read_text()) if stored.exists() else {"name": name}
    RESULTS.mkdir(exist_ok=True)
    stored.write_text(json.dumps(known | found, indent=1) + "\n", encoding="utf-8")
    return True


def _profiled(recipe: Recipe, before: Path, kept: Path | None) -> Result:
    """What was found in the program as it is."""
    path, folder = before / "found.json", before / recipe.folder
    recorded, recording = folder / ".pitstop", kept / recipe.name if kept else None
    words = [recipe.ends, "--output", str(path), *shlex.split(recipe.command)]
    if recording and recording.exists():
        shutil.copytree(recording, recorded)
        words = ["--from", "last", "--output", str(path)]
    words = [*PITSTOP, "profile", *words]
    nothing = subprocess.DEVNULL
    subprocess.run(words, check=False, cwd=folder, timeout=PATIENCE_S, env=alone(), stdout=nothing)
    found = facts(json.loads(path.read_text()))
    if recording and not recording.exists():
        shutil.copytree(recorded, recording)
    return found


def facts(found: Result) -> Result:
    """What the page tells of a report."""
    ledger, machine = found["ledger"], found["machine"]
    waits = [row["ms"] for row in ledger["rows"] if row["cause"] == "core"]
    return {
        "torch": next(each["version"] for each in machine["packages"] if each["name"] == "torch"),
        "device": ledger["device"],
        "step_ms": round(ledger["step_ms"], 3),
        "core_wait_ms": round(sum(waits), 3),
        "others": found["ranks"][0]["others"],
        "findings": [
            {key: each[key] for key in ("code", "severity", "confidence", "saving", "message")}
            | {"line": each["span"]["line"] if each["span"] else None}
            for each in found["findings"]
            if each["confidence"] != "suspected"
        ],
    }


def _measured(recipe: Recipe, before: Path) -> Result:
    """What the change of one finding brings."""
    if not recipe.change:
        raise SystemExit("no change to make")
    after = changed(recipe, before)
    folders = before / recipe.folder, after / recipe.folder
    found = in_turns(recipe.command, *folders, recipe.finding in OF_DATA)
    print(f"{recipe.name}: {found}")
    return {"finding": recipe.finding, "step": asdict(found)}


if __name__ == "__main__":
    sys.exit(main())
