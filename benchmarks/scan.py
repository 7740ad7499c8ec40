"""How fast is ``pitstop scan``? Lines per second, and its cost beside a bare ast.parse.

python benchmarks/scan.py PATH...    prints one line per contestant, all timed in this run.
"""

import ast
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from pitstop.scan.decode import UnreadableError, decode
from pitstop.scan.files import find_files
from pitstop.scan.run import Options, scan

REPEATS = 3  # the best of them: other programs only ever make it slower


def main(paths: list[Path]) -> None:
    """Time all contestants on the same files and print ratios."""
    texts = [text for text in map(_read, find_files(paths).files) if text is not None]
    lines = sum(text.count("\n") for text in texts)
    print(f"{len(texts)} Python files, {lines:,} lines, best of {REPEATS}")
    base = _best(lambda: _parse_all(texts))
    _show("ast.parse, one process", base, lines, base)
    one = Options(use_cache=False, jobs=1)
    _show("pitstop scan --jobs 1", _best(lambda: scan(paths, one)), lines, base)
    _show_ratio_in_cpu_time(texts, paths, one)
    _show("pitstop scan", _best(lambda: scan(paths, Options(use_cache=False))), lines, base)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PITSTOP_CACHE"] = folder
        scan(paths)
        _show("pitstop scan, unchanged", _best(lambda: scan(paths)), lines, base)
    for tool, arguments in (("ruff", ["check", "--no-cache", "-q"]), ("torchfix", [])):
        _show_tool(tool, [*arguments, *map(str, paths)], lines, base)


def _show_ratio_in_cpu_time(texts: list[str], paths: list[Path], one: Options) -> None:
    """The ratio that a busy machine does not disturb: adjacent pairs, in CPU seconds."""
    ratios = []
    for _ in range(REPEATS):
        start = time.process_time()
        _parse_all(texts)
        middle = time.process_time()
        scan(paths, one)
        ratios.append((time.process_time() - middle) / (middle - start))
    print(f"{'  the same in CPU time':<26} {sorted(ratios)[REPEATS // 2]:42.2f} x")


def _read(file: object) -> str | None:
    path: Path = file.path  # type: ignore[attr-defined]  # a scan.files.File
    try:
        text, _ = decode(path.read_bytes())
        ast.parse(text)
    except (UnreadableError, SyntaxError, OSError, ValueError):
        return None
    return text if path.suffix == ".py" else None


def _parse_all(texts: list[str]) -> None:
    """What the ratio is against: with the collector off, as the scan has it."""
    gc.disable()
    for text in texts:
        ast.parse(text)
    gc.enable()


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _show_tool(tool: str, arguments: list[str], lines: int, base: float) -> None:
    program = shutil.which(
        tool, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if program is None:
        print(f"{tool:<26} n/a (not installed)")
        return
    command = [program, *arguments]
    quiet = subprocess.DEVNULL
    seconds = _best(lambda: subprocess.run(command, check=False, stdout=quiet, stderr=quiet))
    _show(tool, seconds, lines, base)


def _show(name: str, seconds: float, lines: int, base: float) -> None:
    print(f"{name:<26} {seconds:8.3f} s {lines / seconds:12,.0f} lines/s {seconds / base:7.2f} x")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main([Path(argument) for argument in sys.argv[1:]] or [Path()])
