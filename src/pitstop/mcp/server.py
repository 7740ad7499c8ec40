"""Server: the tools, over stdio. Each of them is a command of ours, run in the start folder."""

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from pitstop import __version__
from pitstop.core.errors import PitstopError
from pitstop.mcp import confined
from pitstop.mcp.command import run

QUICK_MINUTES = 5.0  # what runs nothing of the user's ends long before
SPARE = 2.0  # times its budget a command may take: trials wait for their turn on a machine
COULD_NOT_RUN = 2
INSTRUCTIONS = (
    "Find what makes a PyTorch image or video script slow, mend it, prove it. Loop: profile, "
    "choose the largest finding that an edit can mend, edit, prove, keep what is better and "
    "revert the rest."
)
Args = list[str]


class Tools:
    """The tools of one server; all paths lie in its folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def doctor(self, context: Context) -> str:
        """Is this machine set up well? Runs nothing of yours."""
        return await self._run(context, QUICK_MINUTES, "doctor", "--no-limits")

    async def scan(self, context: Context, path: str = ".") -> str:
        """What does the source let suspect? Ranked findings; executes nothing."""
        return await self._run(context, QUICK_MINUTES, "scan", confined.inside(self._root, path))

    async def profile(
        self, context: Context, script: str, args: Args | None = None, minutes: float = 10.0
    ) -> str:
        """Where does each step of a script go, and why? Runs it until enough was seen."""
        return await self._run(context, minutes, "profile", "--quick", *self._script(script, args))

    async def explain(self, context: Context, rule: str) -> str:
        """Why does a rule exist? With bad and good code."""
        return await self._run(context, QUICK_MINUTES, "explain", confined.name(rule, "rule"))

    async def prove(
        self,
        context: Context,
        script: str,
        args: Args | None = None,
        base: str = "HEAD",
        patch: str = "",
        goal: str = "time",
        budget_minutes: float = 5.0,
    ) -> str:
        """Prove an edit: the working tree, or a patch, against a base; numbers and time."""
        words = ["--base", confined.name(base, "revision", confined.REVISION)]
        words += ["--patch", confined.inside(self._root, patch)] if patch else []
        words += ["--for", confined.name(goal, "goal"), "--budget", str(budget_minutes)]
        limit = SPARE * budget_minutes + QUICK_MINUTES
        return await self._run(context, limit, "prove", *words, *self._script(script, args))

    async def tune(
        self,
        context: Context,
        script: str,
        args: Args | None = None,
        only: str = "",
        budget_minutes: float = 5.0,
    ) -> str:
        """Which changes make an unedited script faster? Tries them, guards its numbers."""
        words = ["--force", "--budget", str(budget_minutes)]
        words += ["--only", only] if only else []
        limit = SPARE * budget_minutes + QUICK_MINUTES
        return await self._run(context, limit, "tune", *words, *self._script(script, args))

    async def report(self, context: Context, recording: str = "last") -> str:
        """A recording of before, diagnosed again."""
        return await self._run(
            context, QUICK_MINUTES, "report", confined.name(recording, "recording")
        )

    def _script(self, script: str, args: Args | None) -> list[str]:
        """Options of ours end at the script; the rest is its own."""
        return [confined.script(self._root, script), *(args or [])]

    async def _run(self, context: Context, limit_minutes: float, command: str, *words: str) -> str:
        async def hear(number: int, line: str) -> None:
            await context.report_progress(number, None, line)

        shown = [] if command == "explain" else ["--format", "agent"]
        done = await run([command, *shown, *words], self._root, 60 * limit_minutes, hear)
        if done.report.strip() and done.code != COULD_NOT_RUN and done.code >= 0:
            return done.report
        raise ToolError(done.said or done.report or f"ended with exit code {done.code}")


def build(root: Path) -> "MCPServer[None]":
    """The server for a folder."""
    server: MCPServer[None] = MCPServer(
        "pitstop", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(root)
    for each in (
        tools.doctor,
        tools.scan,
        tools.profile,
        tools.explain,
        tools.prove,
        tools.tune,
        tools.report,
    ):
        server.add_tool(_foreseen(each), name=each.__name__)
    return server


def _foreseen(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """The same; a mistake of the client's is told to it in our words."""

    @functools.wraps(tool)
    async def call(*given: Any, **named: Any) -> str:
        try:
            return await tool(*given, **named)
        except PitstopError as error:
            raise ToolError(str(error)) from None

    return call
