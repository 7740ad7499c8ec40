"""Files: which files under the given paths are scanned, and which are not and why."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.scan.gitignore import FILE_NAME, Pattern, is_ignored, parse_pattern, read_patterns
from pitstop.scan.notebook import SUFFIX as NOTEBOOK
from pitstop.scan.pins import is_pin_file

PYTHON = (".py", ".pyi")
CONFIGS = (".yaml", ".yml", ".json", ".toml")
# Never the user's own code, whatever an ignore file says.
EXCLUDED_FOLDERS = {
    *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "build", "dist", "__pycache__"),
    *("site-packages", ".tox", ".nox", ".eggs", ".mypy_cache", ".ruff_cache", ".pytest_cache"),
    *(".ipynb_checkpoints", ".pitstop"),
}
# Configs of tools, not of models; lock files are long and change with every install.
TOOL_CONFIGS = {
    *("pyproject.toml", "pitstop.toml", "ruff.toml", "package.json", "package-lock.json"),
    *("tsconfig.json", "composer.json", "mkdocs.yml", "environment.yml", "environment.yaml"),
}
LARGEST_PYTHON_BYTES = 2_000_000  # nobody writes 2 MB by hand: generated code
LARGEST_NOTEBOOK_BYTES = 50_000_000  # most of it are pictures that the cells have shown
LARGEST_CONFIG_BYTES = 64_000  # larger YAML or JSON is data, not settings
MOST_CONFIGS = 2_000  # more of them are a dataset's annotations


@dataclass(frozen=True, slots=True)
class File:
    """A file to scan: where it is, and the name that reports show."""

    path: Path
    name: str  # relative to the working folder where that is possible, with slashes


@dataclass
class Found:
    """Files to scan in order, and one line for each thing left out."""

    files: list[File] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # likewise, of what should have been scanned
    pins: list[File] = field(default_factory=list)  # not scanned: what they say of torch's version


def find_files(paths: Iterable[Path], exclude: Sequence[str] = ()) -> Found:
    """Python and config files under ``paths``; a file that is named outright is always one."""
    found = Found()
    extra = [pattern for text in exclude if (pattern := parse_pattern(text))]
    tops = set()
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise PitstopError(f"{path}: {error.strerror}; give one that can be read") from None
        top, patterns = _top(path if stat.S_ISDIR(mode) else path.parent)
        tops.add(top)
        if stat.S_ISDIR(mode):
            _Walk(found, top, patterns, extra).below(path.absolute())
        elif not is_ignored(extra, show(path), False):
            _add(found, path)
    found.files = list({file.path: file for file in found.files}.values())
    found.pins = [file for top in sorted(tops) for file in _pins(top)]
    _limit_configs(found)
    return found


def _pins(top: Path) -> Iterator[File]:
    try:
        with os.scandir(top) as entries:
            names = sorted(entry.name for entry in entries if is_pin_file(entry.name))
    except OSError:
        return
    yield from (File(top / name, show(top / name)) for name in names)


def show(path: Path) -> str:
    """A path as reports show it: relative to the working folder if below it, with slashes.

    Bytes that are no UTF-8 are shown as ``\\xe9``: they could be neither printed nor saved.
    """
    shown = path.absolute()
    if shown.is_relative_to(Path.cwd()):
        shown = shown.relative_to(Path.cwd())
    return os.fsencode(shown.as_posix()).decode("utf-8", "backslashreplace")


def _add(found: Found, path: Path) -> None:
    limit = largest_bytes(path)
    try:
        state = path.stat()
    except OSError as error:
        found.unread.append(f"{show(path)}: cannot be read ({error.strerror})")
        return
    size = state.st_size
    if not stat.S_ISREG(state.st_mode):
        found.unread.append(f"{show(path)}: not a regular file")
    elif size <= limit:
        found.files.append(File(path.absolute(), show(path)))
    elif path.suffix not in CONFIGS:
        why = f"{size / 1e6:.1f} MB, so generated; limit {limit // 1_000_000} MB"
        found.skipped.append(f"{show(path)}: {why}")


def largest_bytes(path: Path) -> int:
    """More than that is not read."""
    if path.suffix == NOTEBOOK:
        return LARGEST_NOTEBOOK_BYTES
    return LARGEST_CONFIG_BYTES if path.suffix in CONFIGS else LARGEST_PYTHON_BYTES


def _limit_configs(found: Found) -> None:
    configs = [file for file in found.files if file.path.suffix in CONFIGS]
    if len(configs) > MOST_CONFIGS:
        drop = set(configs[MOST_CONFIGS:])
        found.files = [file for file in found.files if file not in drop]
        found.skipped.append(f"{configs[0].name}: {len(configs)} config files, first 2000 read")


def _top(path: Path) -> tuple[Path, list[Pattern]]:
    """The repository around a folder, and the patterns that reach into the folder from above."""
    start = path.absolute()
    for top in (start, *start.parents):
        if (top / ".git").exists():
            patterns = read_patterns(top / ".git" / "info" / "exclude", "")
            for above in reversed(list(_between(top, start))):
                folder = above.relative_to(top).as_posix()
                patterns += read_patterns(above / FILE_NAME, "" if folder == "." else folder)
            return top, patterns
    return start, []


def _between(top: Path, start: Path) -> Iterator[Path]:
    """The folders from just above ``start`` up to ``top``."""
    while start != top:
        start = start.parent
        yield start


@dataclass(frozen=True)
class _Walk:
    """One walk down from a given folder."""

    found: Found
    top: Path
    patterns: list[Pattern]
    extra: list[Pattern]

    def below(self, start: Path) -> None:
        """Visit a folder and all below it, in sorted order; folders may be nested very deep."""
        waiting: list[tuple[Path | os.DirEntry[str], list[Pattern]]] = [(start, self.patterns)]
        while waiting:
            each, patterns = waiting.pop()
            path = Path(each)
            if isinstance(each, Path) or self._is_folder(each, patterns):
                relative = path.relative_to(self.top).as_posix()
                own = read_patterns(path / FILE_NAME, "" if relative == "." else relative)
                inner = [*patterns, *own] if own else patterns
                waiting += [(entry, inner) for entry in reversed(self._entries(path))]

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.found.unread.append(f"{show(folder)}: cannot be read ({error.strerror or error})")
            return []

    def _is_folder(self, entry: os.DirEntry[str], patterns: list[Pattern]) -> bool:
        """Whether to go into it; take it when it is a file, or say why not."""
        path = Path(entry.path)
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            link = entry.is_symlink()
        except OSError as error:
            self.found.unread.append(f"{show(path)}: cannot be read ({error.strerror})")
            return False
        if not self._wanted(path, is_folder, link, patterns):
            return False
        if link:
            self.found.skipped.append(f"{show(path)}: symbolic link, not followed")
        elif not is_folder:
            _add(self.found, path)
        return is_folder and not link

    def _wanted(self, path: Path, is_folder: bool, link: bool, patterns: list[Pattern]) -> bool:
        name = path.name
        if is_folder or (link and path.is_dir()):
            if name in EXCLUDED_FOLDERS:
                return False
        elif path.suffix in CONFIGS:
            if name in TOOL_CONFIGS or name.startswith(".") or "/." in path.as_posix():
                return False
        elif path.suffix not in (*PYTHON, NOTEBOOK):
            return False
        relative = path.relative_to(self.top).as_posix()
        shown = show(path)
        ignored = is_ignored(patterns, relative, is_folder)
        return not ignored and not is_ignored(self.extra, shown, is_folder)
