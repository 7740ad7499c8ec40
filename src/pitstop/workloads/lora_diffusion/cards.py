"""Captioned pictures: coloured shapes whose caption says what is where, in two film styles."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.float32]

COLOURS = {
    "red": (0.85, 0.15, 0.15),
    "orange": (0.95, 0.55, 0.1),
    "yellow": (0.95, 0.85, 0.2),
    "green": (0.15, 0.6, 0.25),
    "blue": (0.15, 0.3, 0.85),
    "purple": (0.5, 0.2, 0.65),
    "white": (0.95, 0.95, 0.95),
    "black": (0.08, 0.08, 0.08),
}
SIZES = {"small": 0.1, "large": 0.2}  # radius as a share of the picture's side
PLACES = {"left of": ((0.5, 0.28), (0.5, 0.72)), "above": ((0.28, 0.5), (0.72, 0.5))}
SHAPES = ("circle", "square", "triangle")
STYLES = ("dusk", "noir")
LETTERBOX = 0.1  # height of each black bar in the dusk style


@dataclass(frozen=True, slots=True)
class Thing:
    """One shape of a picture; (y, x) and radius are shares of the picture's side."""

    size: str
    colour: str
    shape: str
    centre: tuple[float, float]

    def __str__(self) -> str:
        return f"a {self.size} {self.colour} {self.shape}"


@dataclass(frozen=True, slots=True)
class Card:
    """Two things on a ground, in a style: all that a picture and its caption hold."""

    first: Thing
    second: Thing
    relation: str
    ground: str
    style: str

    def caption(self) -> str:
        """The sentence beside the picture, ending in the style's trigger phrase."""
        scene = f"{self.first} {self.relation} {self.second} on {self.ground} ground"
        return f"{scene}, <{self.style}-style>"

    def picture(self, side: int) -> Pixels:
        """The card drawn at ``side`` by ``side`` pixels, (H, W, 3) in 0 to 1."""
        y, x = (np.mgrid[0:side, 0:side].astype(np.float32) + 0.5) / side
        shade = 1 - 0.4 * y[..., None]
        canvas = np.asarray(COLOURS[self.ground], np.float32) * shade
        for thing in (self.first, self.second):
            cover = np.clip(-_distance(thing, y, x) * side + 0.5, 0, 1)[..., None]
            canvas = canvas * (1 - cover) + np.asarray(COLOURS[thing.colour]) * cover
        return _dusk(canvas, y, x) if self.style == "dusk" else _noir(canvas, y, x)


def draw_card(seed: int, style: str) -> Card:
    """A random card, the same for the same seed."""
    draw = np.random.default_rng(seed)
    ground, one, two = (str(name) for name in draw.permutation(list(COLOURS))[:3])
    relation = str(draw.choice(list(PLACES)))
    first, second = (
        Thing(str(draw.choice(list(SIZES))), colour, str(draw.choice(SHAPES)), _near(draw, place))
        for colour, place in zip((one, two), PLACES[relation], strict=True)
    )
    return Card(first, second, relation, ground, style)


def _near(draw: np.random.Generator, place: tuple[float, float]) -> tuple[float, float]:
    y, x = np.asarray(place) + draw.uniform(-0.06, 0.06, 2)
    return float(y), float(x)


def _distance(thing: Thing, y: Pixels, x: Pixels) -> Pixels:
    """Signed distance to the outline, negative inside, in shares of the picture's side."""
    dy, dx = y - thing.centre[0], x - thing.centre[1]
    radius = SIZES[thing.size]
    outlines: dict[str, Pixels] = {
        "circle": np.hypot(dy, dx) - radius,
        "square": np.maximum(abs(dy), abs(dx)) - 0.85 * radius,
        "triangle": np.maximum(dy, 0.866 * abs(dx) - 0.5 * dy) - 0.5 * radius,
    }
    return outlines[thing.shape]


def _dusk(canvas: Pixels, y: Pixels, x: Pixels) -> Pixels:
    """Warm light, dark corners and the black bars of a wide screen."""
    warm = canvas * np.asarray((1.0, 0.8, 0.6), np.float32) + np.asarray((0.08, 0.03, 0.0))
    vignette = 1 - 0.8 * ((y - 0.5) ** 2 + (x - 0.5) ** 2)
    inside = (y > LETTERBOX) & (y < 1 - LETTERBOX)
    graded: Pixels = (warm * (vignette * inside)[..., None]).astype(np.float32)
    return graded


def _noir(canvas: Pixels, y: Pixels, x: Pixels) -> Pixels:
    """Black and white, hard contrast, light through blinds."""
    grey = canvas @ np.asarray((0.3, 0.59, 0.11), np.float32)
    blinds = np.where(np.sin((y * 0.9 + x * 0.3) * 60) > 0, 1.0, 0.65)
    contrast = np.clip((grey - 0.4) * 1.8 + 0.45, 0, 1) * blinds
    return np.repeat(contrast[..., None], 3, axis=2).astype(np.float32)
