"""Change `tiled-vae`."""

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pitstop.core.errors import PitstopError
from pitstop.tune.change import Facts, When, change
from pitstop.tune.plan import Options
from pitstop.tune.ranges import Number

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

SHARES = (0.5, 0.25)  # of what a picture takes at once: half costs little time, a quarter more
RANGES = {"share": Number(0.01, 1.0)}


def variants(facts: Facts) -> Iterator[Options]:  # noqa: ARG001 the same for any script
    """How much of its memory a VAE may keep."""
    for share in SHARES:
        yield {"share": share}


@change(
    "rounding",
    helps=("memory",),
    toggles=True,
    variants=variants,
    ranges=RANGES,
    when=When(device="cuda", work="inference"),
)
def tiled_vae(script: "Script") -> None:
    """Encode and decode with a VAE in strips and tiles, within a share of the memory at once.

    It takes the place of diffusers' own tiling, too. Tiles that the script cuts itself stay: there
    the patch says what to write instead. A VAE is found at its first call and tiles from the second
    on.
    """
    met: set[int] = set()

    def set_up(module: Any) -> None:
        vae = vae_around(module, script.torch.nn.Module)
        if vae is None:
            script.needs("VAE that can be tiled as it is was called on a GPU")
        elif id(vae) not in met:
            met.add(id(vae))
            _tile(script, vae)

    script.on_cuda_model(set_up)
    script.on_optimizer_built(lambda _: script.decline("the script trains"))


def vae_around(module: Any, kind: Any) -> Any:
    """The VAE that a module is or belongs to: ``vae.decode`` calls its parts alone."""
    from pitstop.parts.vae.codecs import codec_of  # noqa: PLC0415 needs torch

    for each in gc.get_objects():
        if not issubclass(type(each), kind) or not hasattr(each, "decoder"):
            continue
        if any(part is module for part in each.modules()):
            try:
                codec_of(each)
            except PitstopError:
                continue
            return each
    return None


def _tile(script: "Script", vae: Any) -> None:
    from pitstop.parts import Tiling, enable_tiling  # noqa: PLC0415 needs torch

    tiling = Tiling(share=float(str(script.options.get("share", SHARES[0]))), quiet=True)
    undos: list[Any] = []
    script.switch(
        lambda: undos.append(enable_tiling(vae, tiling)), lambda: undos.pop()() if undos else None
    )
    script.applied()
