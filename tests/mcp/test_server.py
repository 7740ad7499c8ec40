"""The server, asked by the official client: its tools, its bounds, and how runs end."""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from pitstop.core.errors import PitstopError
from pitstop.mcp import confined

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters, stdio_client

TOOLS = {"doctor", "scan", "profile", "explain", "prove", "tune", "report"}
LOOP = """
for x in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    total += loss.item()
"""
HANGS = """
import os, subprocess, sys, time
sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
helper = subprocess.Popen(sleeps, start_new_session=True)
open("pids", "w").write(f"{os.getpid()} {helper.pid}")
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "net.py").write_text(LOOP)
    (tmp_path / "hangs.py").write_text(HANGS)
    (tmp_path / "out.py").symlink_to("/etc/hostname")
    return tmp_path


def served(folder, ask):
    """What ``ask(client)`` answers, of a server in this folder."""

    async def main():
        environment = {**os.environ, "PITSTOP_CACHE": str(folder / "cache")}
        words = StdioServerParameters(
            command=sys.executable, args=["-m", "pitstop", "mcp"], env=environment, cwd=folder
        )
        async with Client(stdio_client(words)) as client:
            return await ask(client)

    return anyio.run(main)


def text(result):
    return "\n".join(each.text for each in result.content)


def is_gone(pid):
    with_status = psutil.pid_exists(pid) and psutil.Process(pid).status()
    return not with_status or with_status == psutil.STATUS_ZOMBIE


def all_gone(folder):
    """Whether the script and its helper have ended, at last."""
    pids = [int(each) for each in (folder / "pids").read_text().split()]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not all(map(is_gone, pids)):
        time.sleep(0.1)
    return len(pids) == 2 and all(map(is_gone, pids))


async def begun(folder):
    while not (folder / "pids").exists() or len((folder / "pids").read_text().split()) < 2:
        await anyio.sleep(0.1)


def test_its_tools_are_asked_and_what_lies_outside_is_refused(folder):
    heard = []

    async def ask(client):
        async def hear(progress, total, message):
            heard.append(message)

        names = {each.name for each in (await client.list_tools()).tools}
        scanned = await client.call_tool("scan", {"path": "net.py"}, progress_callback=hear)
        explained = await client.call_tool("explain", {"rule": "PIT202"})
        refused = [
            await client.call_tool(tool, words)
            for tool, words in (
                ("scan", {"path": "/etc"}),
                ("scan", {"path": "../.."}),
                ("profile", {"script": "/bin/ls"}),
                ("profile", {"script": "out.py"}),
                ("prove", {"script": "net.py", "base": "--help"}),
                ("report", {"recording": "../../x"}),
                ("explain", {"rule": "--help"}),
            )
        ]
        return names, scanned, explained, refused

    names, scanned, explained, refused = served(folder, ask)
    assert names == TOOLS
    assert text(scanned).startswith("pitstop-agent 1 scan\n")
    assert "net.py:6 PIT201" in text(scanned)
    assert "tensor-built-on-cpu" in text(explained)
    assert [each.is_error for each in refused] == [True] * 7
    assert all(("outside of" in text(e)) or ("no name of a" in text(e)) for e in refused), refused


def test_a_cancelled_request_leaves_no_process_behind(folder):
    async def ask(client):
        with anyio.move_on_after(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "profile", {"script": "hangs.py"})
                await begun(folder)
                tasks.cancel_scope.cancel()
        return await client.call_tool("explain", {"rule": "PIT202"})  # it still serves

    assert "PIT202" in text(served(folder, ask))
    assert all_gone(folder)


def test_a_script_that_hangs_is_ended_when_its_time_is_up(folder):
    async def ask(client):
        return await client.call_tool("profile", {"script": "hangs.py", "minutes": 0.4})

    result = served(folder, ask)
    assert result.is_error
    assert "did not end within 24 s" in text(result)
    assert not (folder / "pids").exists() or all_gone(folder)


def test_the_end_of_the_server_ends_what_it_runs(folder):
    async def ask(client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "profile", {"script": "hangs.py"})
            await begun(folder)
            (server,) = [
                each
                for each in psutil.Process().children(recursive=True)
                if each.cmdline()[-1:] == ["mcp"]
            ]
            server.kill()
            tasks.cancel_scope.cancel()

    with suppress(Exception):  # the client's connection is gone, which it may mind
        served(folder, ask)
    assert all_gone(folder)


@pytest.mark.parametrize("name", ["../x", "a/b", "-x", "", "a..b"])
def test_a_name_is_no_path_and_no_option(name):
    with pytest.raises(PitstopError, match="no name of a"):
        confined.name(name, "recording")


def test_only_scripts_of_python_inside_the_folder_are_run(folder):
    assert confined.script(folder, "net.py") == "./net.py"
    assert confined.inside(folder, ".") == "."
    for outside in ("/bin/ls", "pids.txt", "../x.py", "out.py"):
        with pytest.raises(PitstopError):
            confined.script(Path(folder), outside)
