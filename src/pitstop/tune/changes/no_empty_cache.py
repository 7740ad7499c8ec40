"""Change `no-empty-cache`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import never_emptied

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


@change("exact", toggles=True, when=When(device="cuda", useless=never_emptied, usual=0.05))
def no_empty_cache(script: "Script") -> None:
    """Ignore ``torch.cuda.empty_cache()``: each call waits for the GPU and returns its memory.

    The next step asks for that memory again, at the driver's price. Emptying helps only where
    another process on the same GPU needs it.
    """
    cuda = script.torch.cuda
    script.needs("cache of a GPU was emptied")

    def ignore(original: Callable[..., Any]) -> None:
        if cuda.is_initialized():
            script.applied()
        else:
            original()

    script.patch(cuda, "empty_cache", ignore)
