"""What docs/safety.md promises of all of Pitstop at once."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pitstop"
NETWORK = {
    *("aiohttp", "ftplib", "http", "httpx", "requests", "smtplib", "socket", "socketserver"),
    *("ssl", "telnetlib", "urllib.request", "urllib3", "webbrowser", "xmlrpc"),
}
CODE = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}
OTHERS = {"workloads", "parts"}  # other people's programs, and what runs inside yours
READ_RECORDINGS = ("core", "diagnose", "report", "compare", "cli")
WATCHED = """
import sys

def refuse(event, arguments):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.")):
        raise SystemExit(f"{event}: {arguments}")

sys.addaudithook(refuse)
from pitstop.cli.main import run
code = run(sys.argv[1:])
sys.exit(0 if code in (0, 1) else code)
"""


def modules(*rooms):
    paths = [path for room in rooms for path in (SOURCE / room).rglob("*.py")]
    assert len(paths) > 10
    return paths


def imported(path):
    """Names of the modules that a file imports, each with those above it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def test_no_module_can_open_a_connection():
    rooms = [each.parent.name for each in SOURCE.glob("*/__init__.py")]
    for path in modules(*(each for each in rooms if each not in OTHERS)):
        assert not NETWORK & set(imported(path)), path


@pytest.mark.parametrize(
    "words", [["scan", "."], ["doctor", "--no-limits"], ["rules"], ["explain", "PIT001"], ["runs"]]
)
def test_no_command_opens_a_connection(words, tmp_path):
    (tmp_path / "train.py").write_text("import torch\nx = torch.ones(8).to('cuda')\n")
    found = subprocess.run(
        [sys.executable, "-c", WATCHED, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def test_what_reads_recordings_can_run_no_code():
    """Recordings are JSON; these rooms know no format that runs code, and evaluate no text."""
    for path in [*modules(*READ_RECORDINGS), SOURCE / "profile" / "read" / "collect.py"]:
        assert not CODE & set(imported(path)), path
        calls = [
            each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)
        ]
        named = {each.func.id for each in calls if isinstance(each.func, ast.Name)}
        assert not named & {"eval", "exec", "compile", "__import__"}, path
