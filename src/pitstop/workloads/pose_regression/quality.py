"""Image quality without a reference: has a picture the statistics of good ones.

After BRISQUE: pixels are normalised by their neighbourhood, generalised Gaussians are fitted
to them and to the products of neighbours, at two scales. Where BRISQUE asks a trained model,
we measure how far the 36 numbers are from those of pictures known to be good.
"""

import functools
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float32]

TAPS = np.exp(-0.5 * (np.arange(-3, 4) / (7 / 6)) ** 2).astype(np.float32)
CONTRAST_FLOOR = 1 / 255  # keeps flat areas from being divided by nothing
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))
USUAL = 10.0  # score of a picture that is as far from the mean as good ones are on average


class NaturalScore:
    """Scores pictures (H, W, 3) by their distance from good ones; lower is better."""

    def __init__(self, good: Iterable[Image]) -> None:
        features = np.stack([natural_statistics(picture) for picture in good])
        self.mean = features.mean(0)
        self.spread = features.std(0) + 1e-3

    def score(self, picture: Image) -> float:
        """About 10 for a usual picture, higher for a blurred, empty or broken one."""
        distance = (natural_statistics(picture) - self.mean) / self.spread
        return float(USUAL * np.sqrt((distance**2).mean()))


def natural_statistics(picture: Image) -> NDArray[np.float64]:
    """The 36 numbers that describe a picture (H, W, 3): 18 at full and 18 at half size."""
    grey = picture @ np.array([0.2125, 0.7154, 0.0721], np.float32)
    height, width = grey.shape[0] // 2 * 2, grey.shape[1] // 2 * 2
    half = grey[:height, :width].reshape(height // 2, 2, width // 2, 2).mean((1, 3))
    return np.array([number for image in (grey, half) for number in _statistics(image)])


def _statistics(grey: Image) -> list[float]:
    mean = _smooth(grey)
    variance = np.clip(_smooth(grey * grey) - mean * mean, 0, None)
    normal = (grey - mean) / (np.sqrt(variance) + CONTRAST_FLOOR)
    shape, left, right = _fit(normal)
    numbers = [shape, (left**2 + right**2) / 2]
    for down, across in NEIGHBOURS:
        shape, left, right = _fit(normal * np.roll(normal, (down, across), (0, 1)))
        tail = math.exp(math.lgamma(2 / shape) - math.lgamma(1 / shape))
        width = math.exp((math.lgamma(1 / shape) - math.lgamma(3 / shape)) / 2)
        numbers += [shape, (right - left) * tail * width, left**2, right**2]
    return numbers


def _smooth(image: Image) -> Image:
    """Gaussian mean of the 7x7 neighbourhood, borders repeated."""
    for axis in (0, 1):
        padded = np.pad(image, [(3, 3) if each == axis else (0, 0) for each in (0, 1)], "edge")
        size = image.shape[axis]
        pieces = (padded.take(range(tap, tap + size), axis) for tap in range(len(TAPS)))
        image = np.sum([weight * piece for weight, piece in zip(TAPS, pieces, strict=True)], axis=0)
        image = image / TAPS.sum()
    return image


def _fit(values: Image) -> tuple[float, float, float]:
    """Shape, left and right width of the asymmetric generalised Gaussian that fits."""
    below, above = values[values < 0], values[values >= 0]
    left = float(np.sqrt((below**2).mean())) if below.size else 0.0
    right = float(np.sqrt((above**2).mean())) if above.size else 0.0
    ratio = left / max(right, 1e-6)
    peakedness = float(np.abs(values).mean()) ** 2 / max(float((values**2).mean()), 1e-6)
    wanted = peakedness * (ratio**3 + 1) * (ratio + 1) / (ratio**2 + 1) ** 2
    shapes, ratios = _shape_table()
    nearest = min(int(np.searchsorted(ratios, wanted)), len(shapes) - 1)
    return float(shapes[nearest]), left, right


@functools.cache
def _shape_table() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shapes, and for each the squared mean over the mean square of such a distribution."""
    shapes = np.arange(0.2, 10, 0.005)
    gamma = np.vectorize(math.lgamma)
    return shapes, np.exp(2 * gamma(2 / shapes) - gamma(1 / shapes) - gamma(3 / shapes))
