"""Shown: the hooks as people read them. Apart from ``launch``, which runs without torch."""

from pitstop.core.errors import PitstopError


def hooks_shown() -> str:
    """What a recorded script has around its torch, one line each."""
    try:
        from pitstop.profile.hooks.hooks import HOOKS  # noqa: PLC0415 imports torch
    except ImportError as error:
        raise PitstopError(f"the hooks are around torch, which is not here: {error}") from None
    return "".join(f"{hook.__name__:<16}  {hook.__doc__}\n" for hook in HOOKS)
