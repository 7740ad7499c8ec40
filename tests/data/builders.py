"""Small datasets of real files, whole until a test breaks one."""

import numpy as np
from PIL import Image

FRAMES = 8
ROLES = ("blur", "sharp", "spike_vox")


def picture(path, seed=None, size=(32, 24)):
    """A picture of noise, so that no two have the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(abs(hash(str(path))) if seed is None else seed)
    Image.fromarray(random.integers(0, 255, (size[1], size[0], 3), np.uint8)).save(path)
    return path


def clips(root, splits=("train", "val"), number=3, frames=FRAMES):
    """``split/clip/role/00000000.png``, as the field report has it."""
    for split in splits:
        for clip in range(number):
            for role in ROLES:
                for frame in range(frames):
                    _frame(root / split / f"GOPR_{split}_{clip}" / role, frame)
    return root


def _frame(folder, frame):
    if folder.name == "spike_vox":
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{frame:08d}.npy", np.full((5, 24, 32), frame + 1, np.float32))
    else:
        picture(folder / f"{frame:08d}.png")


def classes(root, names=("cat", "dog", "owl"), splits=("train", "val"), number=4):
    """``split/class/any name.jpg``."""
    for split in splits:
        for name in names:
            for index in range(number):
                picture(root / split / name / f"{name}_{split[0]}{'abcdefgh'[index]}.jpg")
    return root


def pairs(root, roles=("LQ", "HQ"), number=6, scale=2):
    """``role/name.png``, the first role smaller by a factor."""
    for index in range(number):
        name = f"p{chr(97 + index // 26)}{chr(97 + index % 26)}.png"
        picture(root / roles[0] / name, size=(16, 12))
        picture(root / roles[1] / name, size=(16 * scale, 12 * scale))
    return root
