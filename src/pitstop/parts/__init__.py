"""Fast parts, usable alone: a kernel, a plain-PyTorch twin, and the swap that puts it in place.

``dsepconv`` is a module, so that one changed import serves code written for
``cupy_module.dsepconv``; the others are functions.
"""

from pitstop.parts import dsepconv
from pitstop.parts.accelerate_vae import accelerate_vae
from pitstop.parts.fuse_group_norm import fuse_group_norm
from pitstop.parts.group_norm_silu import group_norm_silu

__all__ = ["accelerate_vae", "dsepconv", "fuse_group_norm", "group_norm_silu"]
