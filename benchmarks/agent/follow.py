"""The loop of SKILL.md, followed to the letter on five slow scripts, with an edit that cures each.

    python benchmarks/agent/follow.py [--only NAME] [--budget 10] [--transcript FILE]

For each script: commit, profile, a wrong edit that is faster, its proof (it must be refused), the
right edit, its proof (it must be better). The edits are written beforehand, so what is tested is
whether the reports lead to the line and whether the verdicts are right, not how an agent thinks.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BETTER, DRIFTED = 0, 5  # exit codes of `pitstop prove`
TOKEN_CHARACTERS = 4  # of plain text, about
SHOWN = 28  # lines of a report in the transcript


@dataclass(frozen=True, slots=True)
class Said:
    """What a command answered."""

    code: int
    text: str

    @property
    def verdict(self) -> str:
        """Its first line that says something."""
        lines = [each for each in self.text.splitlines() if each.startswith(("verdict", "error"))]
        return lines[0].partition(": ")[2] if lines else "nothing"


class Session:
    """A repository with one script, and the commands that were typed in it."""

    def __init__(self, folder: Path, transcript: list[str]) -> None:
        self._folder = folder
        self._transcript = transcript

    def type(self, *words: str) -> Said:
        """Run a command, and note it with what it said on stdout."""
        command = [sys.executable, "-m", *words] if words[0] == "pitstop" else list(words)
        environment = {**os.environ, "AI_AGENT": "benchmark"}
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False
        )
        text = done.stdout + (done.stderr if done.returncode == 2 else "")
        shown = text.splitlines()[:SHOWN]
        self._transcript += [f"$ {shlex.join(words)}", *shown, f"exit code {done.returncode}", ""]
        return Said(done.returncode, text)


def follow(name: str, options: list[str], transcript: list[str]) -> str:
    """One script; a line of the table."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agent-") as place:
        folder = Path(place)
        shutil.copy(HERE / f"{name}.py", folder / "train.py")
        (folder / ".gitignore").write_text("data/\n.pitstop/\n", encoding="utf-8")
        session = Session(folder, transcript)
        subprocess.run([sys.executable, "train.py"], cwd=folder, check=True, capture_output=True)
        session.type("git", "init", "-q")
        session.type("git", "add", "-A")
        user = ("-c", "user.name=agent", "-c", "user.email=agent@localhost")
        session.type("git", *user, "commit", "-q", "-m", "as found")
        looked = session.type("pitstop", "profile", "--quick", "train.py")
        report = looked.text[looked.text.find("pitstop-agent") :]
        rank = _rank(report, name)
        prove = ("pitstop", "prove", *options, "--", "train.py")
        session.type("git", "apply", str(HERE / f"{name}.wrong.patch"))
        wrong = session.type(*prove)
        session.type("git", "checkout", "--", ".")
        session.type("git", "apply", str(HERE / f"{name}.edit.patch"))
        right = session.type(*prove)
    good = wrong.code == DRIFTED and right.code == BETTER
    tokens = len(report) // TOKEN_CHARACTERS
    cells = (
        "as it must" if good else "NOT AS IT MUST",
        f"named as {rank}",
        f"{tokens} tokens",
        f"wrong edit {wrong.code}: {wrong.verdict}",
        f"edit {right.code}: {right.verdict}",
        f"{time.monotonic() - begun:.0f} s",
    )
    return f"{name}: {'; '.join(cells)}"


def _rank(report: str, name: str) -> str:
    """Which finding names a line that the edit takes away; the ledger counts as the last one."""
    patch = (HERE / f"{name}.edit.patch").read_text(encoding="utf-8").splitlines()
    source = (HERE / f"{name}.py").read_text(encoding="utf-8").splitlines()
    gone = {line[1:] for line in patch if line.startswith("-") and not line.startswith("---")}
    places = {f"train.py:{number}" for number, line in enumerate(source, 1) if line in gone}
    for line in report.splitlines():
        first, _, rest = line.partition(". ")
        if first.isdigit() and rest.split(" ")[0] in places:
            return f"finding {first}"
    return "a line of the step" if any(f"{each} " in f"{report} " for each in places) else "nothing"


def main() -> None:
    """Follow the loop on each script, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--in-place", action="store_true", help="where there is no Landlock")
    parser.add_argument("--transcript", type=Path)
    arguments = parser.parse_args()
    names = sorted(each.name.removesuffix(".edit.patch") for each in HERE.glob("*.edit.patch"))
    transcript: list[str] = []
    options = ["--budget", f"{arguments.budget:g}", *(["--in-place"] * arguments.in_place)]
    for name in arguments.only or names:
        print(follow(name, options, transcript), flush=True)
        if arguments.transcript:
            arguments.transcript.write_text("\n".join(transcript), encoding="utf-8")


if __name__ == "__main__":
    main()
