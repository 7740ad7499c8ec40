"""The room: a furnished box of Gaussians, and the paths a camera takes through it.

Metres; z is up; the origin is the middle of the floor.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from .splat import Gaussians

Floats = NDArray[np.float64]
Paint = Callable[[int], NDArray[np.float32]]  # number -> a picture (H, W, 3) to cover with

COVER = 0.6  # standard deviation of a blob over the distance to its neighbour: no holes
FLATNESS = 0.1  # thickness of a blob over its width
OPACITY = 0.95


@dataclass(frozen=True, slots=True)
class Box:
    """A box on its own axes, turned about the vertical by ``turn`` radians."""

    centre: tuple[float, float, float]
    size: tuple[float, float, float]
    turn: float = 0.0


WALLS = Box((0, 0, 1.4), (6.0, 5.0, 2.8))
FURNITURE = (
    Box((-2.4, 1.5, 0.45), (0.9, 1.8, 0.9), 0.1),  # sofa
    Box((2.3, -1.6, 0.40), (1.2, 0.7, 0.8), -0.6),  # desk
    Box((2.6, 1.7, 1.00), (0.5, 1.2, 2.0)),  # wardrobe
    Box((-2.3, -1.9, 0.75), (1.0, 0.5, 1.5), 0.4),  # shelf
    Box((0.2, 0.1, 0.25), (0.7, 0.5, 0.5), 0.7),  # low table
)


@dataclass(frozen=True, slots=True)
class _Face:
    """One side of a box: the axis it faces along, and on which end."""

    box: Box
    axis: int
    end: int  # -1 or 1

    @property
    def extent(self) -> tuple[float, float]:
        first, second = (self.box.size[axis] for axis in range(3) if axis != self.axis)
        return first, second

    @property
    def area(self) -> float:
        return self.extent[0] * self.extent[1]


def build_room(count: int, paint: Paint, seed: int) -> Gaussians:
    """A room of about ``count`` Gaussians; every wall and piece of furniture is painted."""
    draw = np.random.default_rng(seed)
    sides = [(axis, end) for axis in range(3) for end in (-1, 1)]
    faces = [_Face(box, *side) for box in (WALLS, *FURNITURE) for side in sides]
    density = count / sum(face.area for face in faces)  # per square metre
    walls = [paint(number) for number in range(len(sides))]
    furniture = [paint(len(sides) + number) for number in range(len(FURNITURE))]
    pictures = walls + [picture for picture in furniture for _ in sides]
    covered = zip(faces, pictures, strict=True)
    parts = [_cover(face, density, picture, draw) for face, picture in covered]
    columns = (np.concatenate(column).astype(np.float32) for column in zip(*parts, strict=True))
    return Gaussians(*(torch.from_numpy(column) for column in columns))


def _cover(
    face: _Face, density: float, picture: NDArray[np.float32], draw: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.float32]]:
    """Means, quaternions, scales, opacities and colours of the blobs on one face."""
    columns, rows = (max(2, round(length * density**0.5)) for length in face.extent)
    grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(-1, 2)
    place = (grid + 0.5 + draw.uniform(-0.2, 0.2, grid.shape)) / (columns, rows)  # 0 to 1
    flat = [axis for axis in range(3) if axis != face.axis]
    local = np.empty((len(place), 3))
    local[:, flat] = (place - 0.5) * face.extent
    local[:, face.axis] = face.end * face.box.size[face.axis] / 2
    spacing = density**-0.5
    scales = np.full((len(place), 3), spacing * COVER)
    scales[:, face.axis] *= FLATNESS
    cos, sin = np.cos(face.box.turn), np.sin(face.box.turn)
    means = local @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]]) + face.box.centre
    half = face.box.turn / 2
    quaternions = np.tile((np.cos(half), 0, 0, np.sin(half)), (len(place), 1))
    y, x = (place[:, ::-1] * picture.shape[:2]).astype(int).T
    return means, quaternions, scales, np.full(len(place), OPACITY), picture[y, x]


def walk(variation: float, frames: int) -> Floats:
    """Poses (F, 4, 4), camera to world, of one round through the room.

    Rounds with a ``variation`` between those of two others pass between them.
    """
    time = np.linspace(0, 2 * np.pi, frames, endpoint=False) + 0.3 * variation
    reach = 1.0 + 0.3 * variation
    height = 1.45 + 0.1 * variation + 0.15 * np.sin(3 * time)
    place = np.stack((1.3 * reach * np.cos(time), reach * np.sin(time), height), 1)
    ahead = time + 2.6 + 0.4 * np.sin(2 * time + variation)
    level = 1.0 + 0.25 * np.cos(2 * time)
    target = np.stack((1.2 * np.cos(ahead), 1.2 * np.sin(ahead), level), 1)
    return np.stack([_look(*pair) for pair in zip(place, target, strict=True)])


def _look(place: Floats, target: Floats) -> Floats:
    """Pose of a level camera at ``place`` that looks at ``target``."""
    forward = (target - place) / np.linalg.norm(target - place)
    sideways = np.cross(forward, np.array([0.0, 0.0, 1.0]))
    right = sideways / np.linalg.norm(sideways)
    pose = np.eye(4)
    pose[:3] = np.stack((right, np.cross(forward, right), forward, place), 1)
    return pose
