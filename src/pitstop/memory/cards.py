"""Cards: how much memory GPUs have, by name, and how much of it a step may take."""

import re

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes

GIB = 2**30
CONTEXT = int(0.6 * GIB)  # CUDA's own, with the kernels that torch loads; 0.3 to 0.6 GiB were seen
GIB_OF = {  # as sold; some names come in two sizes, of which the smaller one counts
    "RTX 2060": 6, "RTX 2070": 8, "RTX 2080": 8, "RTX 2080 TI": 11, "RTX 3050": 8, "RTX 3060": 12,
    "RTX 3060 TI": 8, "RTX 3070": 8, "RTX 3070 TI": 8, "RTX 3080": 10, "RTX 3080 TI": 12,
    "RTX 3090": 24, "RTX 3090 TI": 24, "RTX 4060": 8, "RTX 4060 TI": 8, "RTX 4070": 12,
    "RTX 4070 SUPER": 12, "RTX 4070 TI": 12, "RTX 4070 TI SUPER": 16, "RTX 4080": 16,
    "RTX 4080 SUPER": 16, "RTX 4090": 24, "RTX 5060": 8, "RTX 5060 TI": 8, "RTX 5070": 12,
    "RTX 5070 TI": 16, "RTX 5080": 16, "RTX 5090": 32, "RTX A4000": 16, "RTX A5000": 24,
    "RTX A6000": 48, "RTX 6000 ADA": 48, "RTX PRO 6000": 96, "TITAN RTX": 24, "T4": 16, "V100": 16,
    "A10": 24, "A10G": 24, "A40": 48, "A100": 40, "L4": 24, "L40": 48, "L40S": 48, "H100": 80,
    "H200": 141, "B200": 180, "GH200": 96,
}  # fmt: skip
SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(GIB|GB|G|MIB|MB|M)?\s*", re.IGNORECASE)


def bytes_of(card: str) -> int:
    """``RTX 4070 SUPER``, ``NVIDIA GeForce RTX 4090``, ``A100 80GB`` or ``12GiB``, as bytes."""
    if found := SIZE.fullmatch(card):
        unit = (found[2] or "G")[0].upper()
        size = float(found[1]) * (GIB if unit == "G" else 2**20)
        if size > CONTEXT:
            return int(size)
        raise PitstopError(
            f"--gpu {card}: CUDA itself needs {binary_bytes(CONTEXT)}; give more, as 12GiB"
        )
    words = re.sub(r"NVIDIA|GEFORCE|TESLA|[-_]", " ", card.upper())
    stated = re.search(r"(\d+)\s*G(I?B)?\b", words)
    name = " ".join((words[: stated.start()] if stated else words).split())
    if name not in GIB_OF:
        raise PitstopError(f'--gpu "{card}" is not known: give its memory, as --gpu 12GiB')
    return int(stated[1]) * GIB if stated else GIB_OF[name] * GIB


def room_of(card_bytes: int) -> int:
    """What a step may take of it."""
    return card_bytes - CONTEXT
