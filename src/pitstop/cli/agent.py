"""Agent: whether a coding agent reads us, and how it is told of an error."""

import os
from collections.abc import Mapping, Sequence

FORMAT = "agent"
# Each is set by its agent for the commands that it runs, by its documentation or its source.
KNOWN = (
    "AI_AGENT",  # what several agree on, Claude Code among them
    "AUGMENT_AGENT",
    "CLAUDECODE",
    "CLINE_ACTIVE",
    "CODEX_CI",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "COPILOT_CLI",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
    "QWEN_CODE",
)
SEPARATORS = ("; ", ": ")  # between what happened and what to do, as our errors have it
HELP = "pitstop --help lists the commands, and pitstop COMMAND --help their options"


def is_there(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a known coding agent runs this command."""
    found = os.environ if environment is None else environment
    return any(found.get(name, "") not in {"", "0", "false"} for name in KNOWN)


def reads(arguments: Sequence[str]) -> bool:
    """Whether errors are for an agent: its format was asked for, or is chosen by itself."""
    asked = any(
        each == f"--format={FORMAT}" or (each == "--format" and after == FORMAT)
        for each, after in zip(arguments, [*arguments[1:], ""], strict=True)
    )
    return asked or ("--format" not in " ".join(arguments) and is_there())


def error(code: str, message: str) -> str:
    """Code, cause and what to do next; a line each, then what is quoted."""
    first, *below = message.splitlines() or [""]
    cause, separator, cure = first.removesuffix(")").rpartition(" (see ")
    for each in SEPARATORS if not cause else ():
        cause, separator, cure = first.rpartition(each)
        if separator and cause:
            break
    if not cause:
        cause, cure = first, HELP
    lines = [f"error: {code}", f"cause: {cause}", *(f"  {each.strip()}" for each in below)]
    return "\n".join([*lines, f"next: {cure}"])
