"""Dataset: what lies in a folder of training data, as plain values. Rules look at nothing else."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["picture", "tensor", "video", "text"]  # what is neither of them is only counted
FIRST = 3  # paths named with a finding; the count says how many there are


@dataclass(frozen=True, slots=True)
class Examples:
    """How many files or folders, and the first of them."""

    count: int = 0
    first: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that name the frames of a sequence."""

    missing: int = 0  # between the first and the last one
    first_missing: tuple[str, ...] = ()  # as names without suffix
    in_order: bool = True  # names sort as their numbers do


@dataclass(frozen=True, slots=True)
class Part:
    """Files of one folder with one word in their names: ``1_blur.png`` beside ``1_sharp.png``."""

    word: str  # empty: those without such a word
    count: int
    names: int  # checksum of the names without suffix and word


@dataclass(frozen=True, slots=True)
class Files:
    """All files of one kind in one folder."""

    kind: Kind
    count: int
    bytes: int = 0
    suffix: str = ""  # of most of them
    names: int = 0  # checksum of the names without suffix, in any order
    numbers: Numbers | None = None  # where they are frames of one sequence
    parts: tuple["Part", ...] = ()  # where several files of one folder are one sample


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder's own files, without those of the folders in it."""

    path: str  # relative to the dataset, with slashes; empty: the dataset itself
    files: tuple[Files, ...] = ()
    others: int = 0  # files that may hold samples, of a kind that is not read here: tar, dat, h5
    folders: int = 0  # directly in it
    notes: int = 0  # lists, settings and code


@dataclass(frozen=True, slots=True)
class Place:
    """What a folder is to its dataset: ``Train/GOPR0372/blur`` is a split, an item and a role."""

    folder: Folder
    split: str = ""  # as spelled on disk
    item: str = ""  # the clip or class
    role: str = ""  # "blur": one of several folders with files for the same samples

    @property
    def count(self) -> int:
        """Files that samples are made of."""
        return sum(files.count for files in self.folder.files if files.kind != "text")


@dataclass(frozen=True, slots=True)
class Role:
    """What files of one role are like, from those that were opened."""

    name: str  # empty where a dataset has one only
    kind: Kind = "picture"
    suffix: str = ""
    files: int = 0
    bytes: int = 0
    opened: int = 0
    shape: str = ""  # of most of them: "1280x720 RGB", "float32 (5, 48, 64)"
    shapes: int = 0  # different ones among the opened
    numbers: float = 0.0  # in one file when decoded, on the mean: pixels times channels
    read_ms: float | None = None  # the mean, from a cold or warm disk as it was
    decode_ms: float | None = None  # the mean, of one core; null where no decoder is installed
    decoder: str = ""
    faster: tuple[tuple[str, float], ...] = ()  # other installed decoders and their mean ms
    size: tuple[int, int] = (0, 0)  # width and height of most pictures


@dataclass(frozen=True, slots=True)
class Problem:
    """Files with one thing wrong, which opening them has shown."""

    what: str  # "cut short", "holds NaN"
    files: Examples
    where: str = ""  # the role or folder they belong to


@dataclass(frozen=True, slots=True)
class Store:
    """A dataset that is not a file per sample: LMDB, COLMAP, Gaussians."""

    layout: str
    path: str
    entries: int | None = None  # null: nobody could count them here
    bytes: int = 0
    note: str = ""
    absent: tuple[Problem, ...] = ()
    unreadable: tuple[Problem, ...] = ()
    non_finite: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """One folder of training data, and what is planned for it."""

    layout: str = "pictures"  # "clips", "triplets", "pairs", "classes", "captions", "videos", ...
    places: tuple[Place, ...] = ()
    splits: tuple[str, ...] = ()  # as spelled on disk
    roles: tuple[Role, ...] = ()
    stores: tuple[Store, ...] = ()
    files: int = 0  # of a kind that a model reads
    bytes: int = 0
    opened: int = 0
    zero_length: Examples = Examples()
    absent: tuple[Problem, ...] = ()  # files that others in the dataset ask for
    unreadable: tuple[Problem, ...] = ()
    non_finite: tuple[Problem, ...] = ()
    unlike: tuple[Problem, ...] = ()  # tensors of another shape or type than most
    unequal: tuple[Problem, ...] = ()  # pictures of another size than their partner
    black: tuple[Problem, ...] = ()
    same: tuple[Problem, ...] = ()  # pictures with the same bytes
    leaked: tuple[Problem, ...] = ()  # clips or pictures that are in two splits
    video_frames: int = 0  # of the opened videos, as their headers say
    video_lengths: tuple[tuple[int, Examples], ...] = ()  # frames, and the videos that have so many
    modes: tuple[Problem, ...] = ()  # pictures with other channels than most
    window: int = 1  # frames that one sample takes
    window_given: bool = False
    batch: int = 1
    step_ms: float | None = None
    crop: int | None = None
    cores: int = 0
    memory_bytes: int = 0
    skipped: tuple[str, ...] = ()
