"""Modes: whether the script has one of its own that sees every operation, as ours would.

Ours would run what theirs then sees, and read tensors through theirs; so the script's come first.
"""

from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def script_has_mode() -> bool:
    """Whether a mode of the script is active; a default device is one that minds nothing."""
    functions = [
        each for each in _get_current_function_mode_stack() if not isinstance(each, DeviceContext)
    ]
    return bool(functions or _get_current_dispatch_mode_stack())
