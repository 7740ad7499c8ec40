"""``pitstop memory``: what a script's step will need of a GPU, and what fits."""

import shlex
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.cli.output import check_target
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.profile.start import launch

DOES_NOT_FIT = 1
PAGE = "<!doctype html>"

EXAMPLES = """\b
Examples:
  pitstop memory train.py --batch 8                      what does a step need?
  pitstop memory --gpu "RTX 4070 SUPER" train.py         does it fit, and which batch would?
  pitstop memory --gpu 24GiB --output step.html train.py with a picture of the step
  pitstop memory --real train.py                         from two real steps

\b
The script runs as it is until its model is called, then goes on with stand-ins: tensors that
have shapes and no bytes. After two steps its process ends. Options of ours end at SCRIPT; the
rest is the script's. Exit code: 0, 1 where it does not fit the GPU, 2 where nothing was seen.
"""


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option("--gpu", default="", metavar="NAME", help="A card by name, or its memory: 12GiB.")
@click.option("--real", is_flag=True, help="Take two real steps instead of stand-ins.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="How long to look at calls without training.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page with a picture to FILE.html.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def command(
    gpu: str,
    real: bool,
    seconds: float,
    output: Path | None,
    force: bool,
    module: bool,
    script: tuple[str, ...],
) -> int:
    """Run SCRIPT until its first steps, and tell what they need of a GPU's memory."""
    from pitstop.memory import to_page, to_text  # noqa: PLC0415 needs torch; --help does not
    from pitstop.memory.answer import answer_of  # noqa: PLC0415 likewise
    from pitstop.memory.cards import bytes_of  # noqa: PLC0415 likewise
    from pitstop.memory.see import see  # noqa: PLC0415 likewise

    if gpu:
        bytes_of(gpu)
    if output:
        if output.suffix != ".html":
            raise PitstopError(f"{output}: the page is HTML: name it {output.stem}.html")
        check_target(output, force, _is_ours)
    words = launch.command_line(script, module, None)
    seen = see(words, real, seconds, lambda text: say(f"pitstop: {text}"))
    answer = answer_of(seen, shlex.join(script), gpu)
    click.echo(to_text.render(answer), nl=False, err=True)
    if output:
        store.write_text(output, to_page.render(answer))
        say(f"page written to {printable(str(output))}")
    return 0 if answer.card is None or answer.card.fits else DOES_NOT_FIT


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(len(PAGE)) == PAGE and "Memory of" in stream.read(200)
