"""``pitstop completion``: the script that teaches a shell to complete our commands."""

import click
from click.shell_completion import get_completion_class

from pitstop.cli import main

EXAMPLES = """\b
Examples:
  eval "$(pitstop completion bash)"                       this session
  pitstop completion zsh >> ~/.zshrc                      every session
  pitstop completion fish > ~/.config/fish/completions/pitstop.fish
"""


@click.command(epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL."""
    found = get_completion_class(shell)
    assert found is not None
    script = found(main.command, {}, "pitstop", "_PITSTOP_COMPLETE").source()
    click.echo(script)
