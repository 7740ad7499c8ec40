"""Scenes: procedural video with texture, motion and occlusion, the same on every machine.

A scene is a textured background that drifts under a few textured discs and boxes that move and
turn. Time is continuous: ``frame(0.5)`` is truly between ``frame(0)`` and ``frame(1)``, so
interpolation, blur by integration and spike simulation all have an exact ground truth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.floating[Any]]

OCTAVES = 5  # of value noise; enough detail that blur is visible at 64 pixels


@dataclass(frozen=True, slots=True)
class _Sprite:
    """A moving shape: centre and velocity in units of the frame height, angle in radians."""

    is_box: bool
    centre: tuple[float, float]
    velocity: tuple[float, float]
    radius: float
    spin: float
    texture: Pixels  # (S, S, 3)


class Scene:
    """A short film of its own for every seed. Frames are (H, W, 3) float32 in 0 to 1."""

    def __init__(self, seed: int, height: int, width: int, speed: float = 0.02) -> None:
        draw = np.random.default_rng(seed)
        self.height, self.width = height, width
        self._background = _texture(draw, 256)
        self._drift = tuple(draw.uniform(-speed, speed, 2))
        self._sprites = tuple(
            _sprite(draw, speed, width / height) for _ in range(draw.integers(3, 7))
        )
        y, x = np.mgrid[0:height, 0:width].astype(np.float32)
        self._y, self._x = y / height, x / height

    def frame(self, time: float) -> Pixels:
        """The picture at ``time``, counted in frames; fractions are true in-between pictures."""
        drift_y, drift_x = self._drift
        picture = _sample(self._background, self._y + drift_y * time, self._x + drift_x * time)
        for sprite in self._sprites:
            v, u = self._local(sprite, time)
            distance = np.maximum(abs(u), abs(v)) if sprite.is_box else np.hypot(u, v)
            edge = 1.5 / (sprite.radius * self.height)  # an edge about one pixel soft
            cover = np.clip((1 - distance) / edge, 0, 1)[..., None]
            colour = _sample(sprite.texture, v * 0.5, u * 0.5)
            picture = picture * (1 - cover) + colour * cover
        return picture.astype(np.float32)

    def _local(self, sprite: _Sprite, time: float) -> tuple[Pixels, Pixels]:
        """Pixel positions in the sprite's own frame, where it spans -1 to 1."""
        aspect = self.width / self.height
        y = _bounce(sprite.centre[0] + sprite.velocity[0] * time, 1.0)
        x = _bounce(sprite.centre[1] + sprite.velocity[1] * time, aspect)
        dy, dx = (self._y - y) / sprite.radius, (self._x - x) / sprite.radius
        cos, sin = np.cos(sprite.spin * time), np.sin(sprite.spin * time)
        return cos * dy - sin * dx, sin * dy + cos * dx


def to_bytes(picture: Pixels) -> NDArray[np.uint8]:
    """A picture as 8-bit values, rounded."""
    return (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)


def _sprite(draw: np.random.Generator, speed: float, aspect: float) -> _Sprite:
    vy, vx = draw.uniform(-2 * speed, 2 * speed, 2)
    return _Sprite(
        is_box=bool(draw.integers(2)),
        centre=(draw.uniform(0.1, 0.9), draw.uniform(0.1, 0.9) * aspect),
        velocity=(vy, vx),
        radius=draw.uniform(0.08, 0.25),
        spin=draw.uniform(-0.1, 0.1),
        texture=_texture(draw, 64),
    )


def _texture(draw: np.random.Generator, size: int) -> Pixels:
    """Periodic value noise around a base colour, contrast stretched to fill 0 to 1."""
    noise = np.zeros((size, size, 3), np.float32)
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    for octave in range(OCTAVES):
        grid = draw.random((4 << octave, 4 << octave, 3), np.float32)
        noise += _sample(grid, y, x) * 0.6**octave
    low, high = noise.min(), noise.max()
    tint = draw.uniform(0.5, 1.0, 3).astype(np.float32)
    stretched: Pixels = (noise - low) / (high - low) * tint
    return stretched


def _sample(texture: Pixels, v: Pixels, u: Pixels) -> Pixels:
    """Bilinear look-up in a periodic square texture; (v, u) of 1 is one full period."""
    size = texture.shape[0]
    v, u = (v % 1) * size, (u % 1) * size
    v0, u0 = v.astype(np.int64), u.astype(np.int64)
    fv, fu = (v - v0)[..., None], (u - u0)[..., None]
    v0, u0 = v0 % size, u0 % size
    v1, u1 = (v0 + 1) % size, (u0 + 1) % size
    top = texture[v0, u0] * (1 - fu) + texture[v0, u1] * fu
    bottom = texture[v1, u0] * (1 - fu) + texture[v1, u1] * fu
    blended: Pixels = top * (1 - fv) + bottom * fv
    return blended


def _bounce(position: float, limit: float) -> float:
    """Reflect a position so that it stays between 0 and ``limit``."""
    position %= 2 * limit
    return min(position, 2 * limit - position)
