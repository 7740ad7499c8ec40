"""Modes: whether the script has one of its own that sees every operation, as ours would.

Ours would run what theirs then sees, and read tensors through theirs; so the script's come first.
"""

from pitstop import internals


def script_has_mode() -> bool:
    """Whether a mode of the script is active; a default device is one that minds nothing."""
    functions = [
        each
        for each in internals.function_mode_stack()
        if not isinstance(each, internals.DeviceContext)
    ]
    return bool(functions or internals.dispatch_mode_stack())
