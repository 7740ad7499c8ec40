"""Do the fixes of `pitstop scan` break anything? All of them, applied to copies of checkouts.

python benchmarks/scan_fixes.py FOLDER                  all of FOLDER/owner+name, one line for each
python benchmarks/scan_fixes.py FOLDER --diffs OUT      also write OUT/owner+name.diff, to be read
python benchmarks/scan_fixes.py FOLDER --only NAME --run 'python -m pytest -q tests'
                                                        run a command before, with the safe fixes,
                                                        and with all fixes

A copy is fixed twice: with the safe fixes, then with all. After each, every changed Python file
must compile, as it did before; every changed config file must still be read, with as many
settings; and a second round must find nothing more to fix. Nothing of a checkout runs unless
`--run` is given.
"""

import argparse
import ast
import difflib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.scan.run import Options, Scanned, scan_and_fix
from pitstop.scan.settings import read_settings
from pitstop.scan.source import is_config

OPTIONS = Options(use_cache=False, jobs=1)
LAST_LINES = 3  # of what a command printed


@dataclass
class Outcome:
    """What fixing one copy did."""

    applied: Counter[str] = field(default_factory=Counter)  # by rule
    files: int = 0
    broken: list[str] = field(default_factory=list)
    diff: str = ""


def fix_copy(copy: Path, unsafe: bool) -> Outcome:
    """Fix a folder in place and look whether it is still whole."""
    scanned = scan_and_fix([copy], OPTIONS, fix=True, unsafe=unsafe)
    scanned.write()
    found = Outcome(Counter(each.code for each in scanned.applied), len(scanned.changes))
    found.broken += _broken(scanned)
    again = scan_and_fix([copy], OPTIONS, fix=True, unsafe=unsafe)
    found.broken += [f"{each.code} finds more to fix when run again" for each in again.applied]
    found.diff = "".join(_diff(scanned, copy))
    return found


def _broken(scanned: Scanned) -> Iterator[str]:
    for name, (before, after) in scanned.changes.items():
        if is_config(name):
            if len(read_settings(before, name)) > len(read_settings(after, name)):
                yield f"{name}: settings are gone"
            if name.endswith(".toml"):
                tomllib.loads(after)
        elif _compiles(before, name) and not _compiles(after, name):
            yield f"{name}: does not compile any more"


def _compiles(text: str, name: str) -> bool:
    try:
        compile(ast.parse(text), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _diff(scanned: Scanned, copy: Path) -> Iterator[str]:
    for name, (before, after) in scanned.changes.items():
        shown = Path(name).absolute().relative_to(copy.absolute()).as_posix()
        old, new = (text.splitlines(keepends=True) for text in (before, after))
        yield from difflib.unified_diff(old, new, shown, shown, n=6)


def run(command: str, copy: Path) -> str:
    """The exit status of a command in a folder, and the last lines of what it printed."""
    done = subprocess.run(  # noqa: S602 the user's own command
        command, shell=True, cwd=copy, capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:]
    return f"exit {done.returncode}: " + " | ".join(said)


def try_fixes(checkout: Path, command: str, diffs: Path | None) -> tuple[Outcome, Outcome]:
    """The safe fixes and then all fixes of a checkout, in a copy that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, checkout.name)
        shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        if command:
            print(f"  before     {run(command, copy)}")
        safe = fix_copy(copy, unsafe=False)
        if command:
            print(f"  safe fixes {run(command, copy)}")
        every = fix_copy(copy, unsafe=True)
        if command:
            print(f"  all fixes  {run(command, copy)}")
    if diffs:
        diffs.mkdir(parents=True, exist_ok=True)
        (diffs / f"{checkout.name}.safe.diff").write_text(safe.diff, encoding="utf-8")
        (diffs / f"{checkout.name}.all.diff").write_text(every.diff, encoding="utf-8")
    return safe, every


def main() -> int:
    """Print a line for each checkout and a sum by rule; 1 where something broke."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="checkouts, as owner+name")
    parser.add_argument("--only", metavar="NAME", help="one checkout")
    parser.add_argument(
        "--run", default="", metavar="COMMAND", help="in the copy, before and after"
    )
    parser.add_argument("--diffs", type=Path, metavar="OUT", help="where to write the diffs")
    wanted = parser.parse_args()
    every_folder = sorted(each for each in wanted.folder.iterdir() if "+" in each.name)
    checkouts = [each for each in every_folder if wanted.only in (None, each.name)]
    sums: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    files, broken = 0, 0
    for checkout in checkouts:
        try:
            safe, every = try_fixes(checkout, wanted.run, wanted.diffs)
        except PitstopError as error:
            print(f"{checkout.name}: {error}")
            continue
        for outcome, is_safe in ((safe, True), (every, False)):
            sums[is_safe] += outcome.applied
            files, broken = files + outcome.files, broken + len(outcome.broken)
        numbers = (safe.applied.total(), every.applied.total(), safe.files + every.files)
        print("{}: {} safe fixes, {} others, {} files".format(checkout.name, *numbers))
        for problem in (*safe.broken, *every.broken):
            print(f"  BROKEN {problem}")
    print(f"\nsafe: {_by_rule(sums[True])}\nothers: {_by_rule(sums[False])}")
    print(f"{files} files changed in {len(checkouts)} checkouts, {broken} broken")
    return int(bool(broken))


def _by_rule(counts: Counter[str]) -> str:
    return ", ".join(f"{code} {number}" for code, number in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
