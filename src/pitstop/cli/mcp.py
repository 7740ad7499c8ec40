"""``pitstop mcp``: the commands as tools of an MCP server, over stdin and stdout."""

from pathlib import Path

import click

from pitstop.core.errors import PitstopError

EXAMPLES = """\b
Examples:
  claude mcp add pitstop -- pitstop mcp
  {"mcpServers": {"pitstop": {"command": "pitstop", "args": ["mcp"]}}}

\b
Tools: doctor, scan, profile, explain, prove, tune, report. They see the folder that the
server was started in, and run nothing but the script that the client names.
"""


@click.command(epilog=EXAMPLES)
def command() -> None:
    """Serve doctor, scan, profile, explain, prove, tune and report to an agent, over stdio."""
    try:
        from pitstop.mcp.server import build  # noqa: PLC0415 an extra, which most do without
    except ImportError as error:
        if not (error.name or "").startswith("mcp"):
            raise
        raise PitstopError("its SDK is not installed: pip install 'pitstop[mcp]'") from None
    build(Path.cwd()).run("stdio")
