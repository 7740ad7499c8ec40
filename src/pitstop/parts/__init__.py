"""Fast parts, usable alone: a kernel, a plain-PyTorch twin, and the swap that puts it in place.

``dsepconv`` is a package with a function of that name, so that one changed import serves code
written for ``cupy_module.dsepconv``; ``TiledVae`` is a class with its ``Tiling``; the others are
functions. The folders ``dsepconv``, ``group_norm``, ``vae``, ``tiled``, ``attention``, ``windows``,
``graphs``, ``checkpoints``, ``cache``, ``memory``, ``reuse`` and ``nan_guard`` open with a map.
"""

from pitstop.parts import dsepconv
from pitstop.parts.attention import fuse_attention
from pitstop.parts.cache.ram_cache import RamCache, ram_cache
from pitstop.parts.checkpoints import selective_checkpoints
from pitstop.parts.ema import ema_update
from pitstop.parts.fast_decode import fast_decode
from pitstop.parts.graphs import graphed
from pitstop.parts.group_norm.fuse_group_norm import fuse_group_norm
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu
from pitstop.parts.memory.estimate import MemoryEstimate, memory_estimate
from pitstop.parts.merge_groups import merge_groups
from pitstop.parts.nan_guard.guard import GuardEvent, NanGuard, NotFiniteError, nan_guard
from pitstop.parts.reuse.batched_calls import batched, reused
from pitstop.parts.reuse.encoded_once import EncodedOnce, encoded_once
from pitstop.parts.reuse.weighted import weighted
from pitstop.parts.shared_pipelines import pictures_of_seeds, shared_pipelines
from pitstop.parts.tiled.tiled_vae import TiledVae, Tiling, adapt, enable_tiling
from pitstop.parts.vae.accelerate_vae import accelerate_vae
from pitstop.parts.view_cache import ViewCache, view_cache

__all__ = [
    "EncodedOnce",
    "GuardEvent",
    "MemoryEstimate",
    "NanGuard",
    "NotFiniteError",
    "RamCache",
    "TiledVae",
    "Tiling",
    "ViewCache",
    "accelerate_vae",
    "adapt",
    "batched",
    "dsepconv",
    "ema_update",
    "enable_tiling",
    "encoded_once",
    "fast_decode",
    "fuse_attention",
    "fuse_group_norm",
    "graphed",
    "group_norm_silu",
    "memory_estimate",
    "merge_groups",
    "nan_guard",
    "pictures_of_seeds",
    "ram_cache",
    "reused",
    "selective_checkpoints",
    "shared_pipelines",
    "view_cache",
    "weighted",
]
