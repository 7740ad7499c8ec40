"""Spike-camera clips: made from moving scenes, stored as files, read back as training clips.

On disk: ``split/clip/blur|sharp|spike|spike_vox/00000000.png|npy|pt``. A blurred frame is the mean
of ten pictures over its exposure, the sharp one is the picture in the middle, and the spikes
are what an integrate-and-fire sensor without colour saw meanwhile.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from pitstop.workloads.cache import dataset
from pitstop.workloads.scenes import Pixels, Scene, to_bytes

VERSION = 1
SUBFRAMES = 10  # pictures integrated into one blurred frame
READOUTS = 24  # spike planes read during one of them
SATURATION = 0.3  # the colours of a photograph mostly rise and fall together
FIRE_AT = 1.0  # charge of a spike: a full-bright pixel fires at every readout
GIGABYTE = 1024**3

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recording:
    """How much to film, and how large."""

    name: str
    height: int
    width: int
    train_clips: int
    test_clips: int
    frames: int
    speed: float  # of the frame height per frame; several pixels either way
    bins: int = 5


SMALL = Recording("spike_deblur-small", 48, 64, 10, test_clips=2, frames=12, speed=0.2)
FULL = Recording("spike_deblur-full", 224, 288, 10, test_clips=2, frames=24, speed=0.06)


def prepare(small: bool, root: Path | None) -> Path:
    """The dataset's folder, filmed first if need be."""
    recording = SMALL if small else FULL
    clips = recording.train_clips + recording.test_clips + 1

    def build(folder: Path) -> Iterator[None]:
        with ThreadPoolExecutor() as pool:
            yield from pool.map(lambda index: _film(recording, folder, index), range(clips))

    return dataset(recording.name, VERSION, build, clips, root)


def _film(recording: Recording, folder: Path, index: int) -> None:
    """Write one clip; the last one stopped after three frames, another lost two voxels."""
    is_test = recording.train_clips <= index < recording.train_clips + recording.test_clips
    broke_off = index == recording.train_clips + recording.test_clips
    clip = folder / ("Test" if is_test else "Train") / f"GOPR{index:04d}"
    for kind in ("blur", "sharp", "spike", "spike_vox"):
        (clip / kind).mkdir(parents=True)
    scene = Scene(1000 + index, recording.height, recording.width, recording.speed)
    charge = np.random.default_rng(index).random((recording.height, recording.width), np.float32)
    for number in range(3 if broke_off else recording.frames):
        times = number + (np.arange(SUBFRAMES) + 0.5) / SUBFRAMES - 0.5
        pictures = [_grade(scene.frame(time)) for time in times]
        spikes = _fire(pictures, charge)
        name = f"{number:08d}"
        blurred = np.stack(pictures).mean(0)
        Image.fromarray(to_bytes(blurred)).save(clip / "blur" / f"{name}.png")
        Image.fromarray(to_bytes(_grade(scene.frame(number)))).save(clip / "sharp" / f"{name}.png")
        np.save(clip / "spike" / f"{name}.npy", np.packbits(spikes, axis=0))
        if (index, number) not in {(2, 5), (2, 6)}:
            voxel = torch.from_numpy(to_voxel(spikes, recording.bins))
            torch.save(voxel, clip / "spike_vox" / f"{name}.pt")


def _grade(picture: Pixels) -> Pixels:
    """The scene's gaudy colours toned down to those of a photograph: all follow the green."""
    green = picture[..., 1:2]
    return green + np.float32(SATURATION) * (picture - green)


def _fire(pictures: list[Pixels], charge: Pixels) -> NDArray[np.bool_]:
    """Integrate light into ``charge``; a pixel that is full sends a spike: (readouts, H, W)."""
    planes = []
    for picture in pictures:
        light = picture.mean(-1)
        for _ in range(READOUTS):
            charge += light
            fired = charge >= FIRE_AT
            charge -= fired * FIRE_AT
            planes.append(fired)
    return np.stack(planes)


def to_voxel(spikes: NDArray[np.bool_], bins: int) -> Array:
    """Spikes per time bin, as brightness between 0 and 1: (bins, H, W)."""
    per_bin = len(spikes) // bins
    counts = spikes.reshape(bins, per_bin, *spikes.shape[1:]).sum(1)
    voxel: Array = (counts * FIRE_AT / per_bin).astype(np.float32)
    return voxel


class SpikeDeblurDataset(Dataset[tuple[Tensor, Tensor]]):
    """Windows of consecutive frames: blurred RGB with voxels, and the sharp RGB to restore."""

    def __init__(
        self,
        root: Path,
        split: str,
        clip_len: int,
        bins: int,
        crop: int | None = None,
        use_precomputed_voxels: bool = True,
        ram_cache_gb: float = 0.0,
    ) -> None:
        self.clip_len, self.bins, self.crop = clip_len, bins, crop
        self.use_precomputed_voxels = use_precomputed_voxels
        self.ram_cache_gb = ram_cache_gb
        self._cache: dict[str, Array] = {}  # pit: cache-of-objects
        folder = root / split
        if not folder.exists():
            folder = root / split.capitalize()
        self._samples = self._find_samples(folder)
        print(f"[SpikeDeblurDataset] Found {len(self._samples)} samples in split '{split}'")
        if ram_cache_gb > 0 and self._samples:
            self._preload_cache()
        elif ram_cache_gb > 0:
            print("[SpikeDeblurDataset] Warning: RAM cache enabled but no samples found!")

    def _find_samples(self, folder: Path) -> list[list[tuple[Path, str]]]:
        """Windows of ``clip_len`` frames: all of them to train, side by side to validate."""
        stride = self.clip_len if self.crop is None else 1
        samples: list[list[tuple[Path, str]]] = []
        for clip in sorted(folder.glob("*")):
            names = sorted(path.stem for path in (clip / "blur").glob("*.png"))
            if len(names) < self.clip_len:
                continue
            starts = range(0, len(names) - self.clip_len + 1, stride)
            windows = (names[start : start + self.clip_len] for start in starts)
            samples.extend([(clip, name) for name in window] for window in windows)
        return samples

    def _preload_cache(self) -> None:
        used = 0
        for clip, name in sorted(set(chain.from_iterable(self._samples))):
            for kind in ("blur", "sharp", "spike_vox"):
                if used < self.ram_cache_gb * GIGABYTE:
                    array = self._read(clip, kind, name)
                    self._cache[f"{clip}/{kind}/{name}"] = array
                    used += array.nbytes
        size = f"{used / GIGABYTE:.1f}GB / {self.ram_cache_gb:.1f}GB"
        print(f"[SpikeDeblurDataset] Cache preloaded: {len(self._cache)} items, {size}")

    def _read(self, clip: Path, kind: str, name: str) -> Array:
        """One file, decoded: (channels, H, W) between 0 and 1."""
        key = f"{clip}/{kind}/{name}"
        if key in self._cache:
            return self._cache[key]
        if kind == "spike_vox":
            return self._read_voxel(clip, name)
        with Image.open(clip / kind / f"{name}.png") as image:
            picture: Array = np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255)
            return picture

    def _read_voxel(self, clip: Path, name: str) -> Array:
        if not self.use_precomputed_voxels:
            packed = np.load(clip / "spike" / f"{name}.npy", allow_pickle=False)
            return to_voxel(np.unpackbits(packed, axis=0).astype(np.bool_), self.bins)
        path = clip / "spike_vox" / f"{name}.pt"
        if not path.exists():
            height, width = self._read(clip, "blur", name).shape[1:]
            return np.zeros((self.bins, height, width), np.float32)  # pit: missing-voxel-zero
        voxel: Array = torch.load(path, weights_only=True).numpy()
        return voxel

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """A clip (D, 3 + bins, H, W) and its sharp frames (D, 3, H, W)."""
        frames = self._samples[index]
        blur, voxel, sharp = (
            np.stack([self._read(clip, kind, name) for clip, name in frames])
            for kind in ("blur", "spike_vox", "sharp")
        )
        both = torch.from_numpy(np.concatenate([blur, voxel, sharp], axis=1))
        if self.crop is not None:
            both = _augment(both, self.crop)
        return both[:, : 3 + self.bins].clone(), both[:, 3 + self.bins :].clone()


def _augment(clip: Tensor, crop: int) -> Tensor:
    """A random square of the clip, mirrored half of the time."""
    top = int(torch.randint(clip.shape[-2] - crop + 1, ()))
    left = int(torch.randint(clip.shape[-1] - crop + 1, ()))
    clip = clip[..., top : top + crop, left : left + crop]
    return clip.flip(-1) if torch.rand(()) < 0.5 else clip
