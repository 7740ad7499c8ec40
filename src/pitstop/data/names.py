"""Names: what the names of a folder's files tell, without keeping the names."""

import re
from array import array
from collections import Counter
from hashlib import blake2b
from itertools import pairwise

from pitstop.data.dataset import FIRST, Numbers

NUMBERED = re.compile(r"^(.*?)(\d{1,18})(\D*)$", re.DOTALL)
SCALED = re.compile(r"x[2348]$")  # 0801x4.png is the partner of 0801.png
PART = re.compile(  # a word of its own in the name of a file
    r"(?i)(?<![a-z])(blur|blurred|blurry|sharp|gt|hq|lq|hr|lr|noisy|noise|clean|input|target|rainy?"
    r"|hazy|haze|clear|mask|label|depth|flow|low|high|real|mean)(?![a-z])"
)
MOST_FRAMES = 200_000  # two hours of video; a folder with more is no clip
FEWEST = 4  # numbers that can show a gap
REGULAR = 0.6  # of the distances are equal in a sequence that has lost some of its frames


def stem_of(name: str) -> str:
    """A name without suffix, as its partners in other folders have it."""
    return SCALED.sub("", name)


def part_of(stem: str) -> tuple[str, str]:
    """The word that says what a file is to the others of its sample, and the rest of its name.

    ``0001_NOISY_SRGB_010`` is (noisy, ``0001__SRGB_010``).
    """
    found = PART.search(stem)
    return (found[0].lower(), stem[: found.start()] + stem[found.end() :]) if found else ("", stem)


def checksum(text: str) -> int:
    """Eight bytes that stand for a name."""
    data = text.encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(data, digest_size=8).digest()[:7])


class Numbering:
    """Collects the numbers in names; gives up where the names are those of no sequence."""

    __slots__ = ("frame", "numbers_seen", "widths")

    def __init__(self) -> None:
        self.frame: tuple[str, str] | None = None  # what stands before and after the number
        self.numbers_seen: array[int] | None = array("q")
        self.widths: set[int] = set()

    def add(self, stem: str) -> None:
        """One more name."""
        if self.numbers_seen is None:
            return
        found = NUMBERED.match(stem)
        around = (found[1], found[3]) if found else None
        endless = len(self.numbers_seen) == MOST_FRAMES
        if found is None or endless or self.frame not in {None, around}:
            self.numbers_seen = None
            return
        self.frame = around
        self.widths.add(len(found[2]))
        self.numbers_seen.append(int(found[2]))

    def numbers(self) -> Numbers | None:
        """What is missing between the first and the last; None where this is no sequence."""
        if not self.numbers_seen or len(self.numbers_seen) < 2:
            return None
        values = sorted(self.numbers_seen)
        distances = Counter(after - before for before, after in pairwise(values))
        stride, often = distances.most_common(1)[0]
        in_order = len(self.widths) == 1
        if len(values) < FEWEST:
            return Numbers(in_order=in_order) if len(distances) == 1 else None
        if stride == 0 or often < REGULAR * (len(values) - 1):
            return None
        gaps = [
            (before, (after - before - 1) // stride)
            for before, after in pairwise(values)
            if after - before > stride
        ]
        missing = [
            before + stride * step
            for before, width in gaps[:FIRST]
            for step in range(1, min(width, FIRST) + 1)
        ]
        return Numbers(
            sum(width for _, width in gaps),
            tuple(self._name(value) for value in missing[:FIRST]),
            in_order,
        )

    def _name(self, value: int) -> str:
        before, after = self.frame or ("", "")
        return f"{before}{value:0{min(self.widths)}d}{after}"
