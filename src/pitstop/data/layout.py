"""Layout: what each folder is to the dataset, told by names and numbers alone. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pitstop.data.dataset import Files, Folder, Place

SPLIT = re.compile(
    r"^(?:(?P<before>.+)[_-])?(?P<split>(?:train|training|val|valid|validation|test|testing|eval)(?:\d{4})?)"
    r"(?:[_-](?P<after>\D.*)|(?P<side>[AB]))?$",
    re.IGNORECASE,
)
ROLE = re.compile(
    r"(^|[_-])(blur|blurred|blurry|sharp|gt|hq|lq|hr|lr|inputs?|targets?|nois[ey]|noisy|clean|rainy?"
    r"|hazy|haze|clear|masks?|labels?|annotations?|depth|flow|spikes?|voxels?|vox|events?|low|high"
    r"|ref|reference|rgb|images?|jpegimages|img|condition|ground_?truth|degraded)($|[_-])|^(?-i:[AB])$",
    re.IGNORECASE,
)
SCALE = re.compile(r"^[xX][2348]$")  # DIV2K_train_LR_bicubic/X4: one role for each scale
LABELS = re.compile(  # many of them are equal, and rightly so
    r"(^|[_-])(masks?|labels?|annotations?|depth|seg|segmentation|alpha|trimap)($|[_-])",
    re.IGNORECASE,
)
UNPAIRED = {"A", "B"}  # CycleGAN's two domains, whose files know nothing of each other
MOST_SPLITS = 12  # folders beside a split; where there are more, "train" is a class, a vehicle
MOST_ROLES = 12  # different names; where there are more they are clips or classes
MOSTLY = 0.8  # of the folders have to fit; the rest is what is wrong with them
CAPTIONED = 0.5  # of the pictures are in folders with texts
SHORT = 7  # frames of the longest of the short sequences: Vimeo's septuplets


@dataclass(frozen=True, slots=True)
class Arranged:
    """A dataset's layout, its folders in their places, and its splits as spelled."""

    layout: str
    places: tuple[Place, ...]
    splits: tuple[str, ...]


def arrange(folders: Sequence[Folder]) -> Arranged:
    """Splits first, then roles, then what is left: clips, classes or pictures."""
    splits = _splits(folders)
    repeated = _repeated(folders, splits)
    rest = {folder.path: _without_split(folder.path, splits, repeated) for folder in folders}
    holding = [folder for folder in folders if main_files(folder)]
    spelled = _roles([rest[folder.path][1] for folder in holding], holding)
    usual = _usual_spelling(spelled.values())
    roles = {parts: usual[role.lower()] for parts, role in spelled.items()}
    above = {
        folder.path.rpartition("/")[0]
        for folder in holding
        if spelled.get(rest[folder.path][1]) == folder.path.rpartition("/")[2]
    }
    places = []
    for folder in folders:
        split, parts = rest[folder.path]
        empty = _empty_role(folder, above)
        role = roles.get(parts, "") or usual.get(empty.lower(), empty)
        own = {spelled.get(parts, empty)}
        scales = [part for part in parts if role and SCALE.match(part)]
        if main_files(folder) or role or folder.others or (folder.path and not folder.folders):
            item = "/".join(part for part in parts if not role or part not in {*own, *scales})
            places.append(Place(folder, split, item, " ".join(filter(None, (role, *scales)))))
    names = tuple(dict.fromkeys(split for split, _ in rest.values() if split))
    return Arranged(_layout(places), tuple(places), names)


def main_files(folder: Folder) -> Files | None:
    """The files that samples are made of: not the captions beside them."""
    known = [files for files in folder.files if files.kind != "text"]
    return max(known, key=lambda files: files.count, default=None)


def _splits(folders: Iterable[Folder]) -> set[str]:
    """Paths of the folders that are splits: the outermost of such a name on each way down."""
    beside: Counter[str] = Counter(folder.path.rpartition("/")[0] for folder in folders)
    found: set[str] = set()
    for folder in folders:
        above, _, name = folder.path.rpartition("/")
        inside = any(folder.path.startswith(f"{split}/") for split in found)
        if SPLIT.match(name) and not inside and beside[above] <= MOST_SPLITS:
            found.add(folder.path)
    return found


def _repeated(folders: Iterable[Folder], splits: set[str]) -> set[str]:
    """Folders that say their split again, as all beside them do: ``train/train_sharp``."""
    inside: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        above, _, name = folder.path.rpartition("/")
        if above in splits:
            inside[above].append(name)
    return {
        f"{split}/{name}"
        for split, names in inside.items()
        if all(_says(name, split.rpartition("/")[2]) for name in names)
        for name in names
    }


def _says(name: str, split: str) -> bool:
    one, other = SPLIT.match(name), SPLIT.match(split)
    return one is not None and other is not None and one["split"].lower() == other["split"].lower()


def _usual_spelling(roles: Iterable[str]) -> dict[str, str]:
    """How each role is spelled most often, by its name in lower case."""
    often = Counter(roles)
    rising = sorted(often, key=lambda role: (often[role], role.islower()))
    return {role.lower(): role for role in rising}


def _without_split(path: str, splits: set[str], repeated: set[str]) -> tuple[str, tuple[str, ...]]:
    """The split as spelled, and the other parts: ``train_sharp/000`` is (train, (sharp, 000))."""
    parts = path.split("/") if path else []
    for index in range(len(parts)):
        if "/".join(parts[: index + 1]) in splits:
            split, left = _split_and_rest(parts[index])
            inside = parts[index + 1 :]
            if "/".join(parts[: index + 2]) in repeated:
                inside = [_split_and_rest(inside[0])[1], *inside[1:]]
            return split, (*parts[:index], *filter(None, (left, *inside)))
    return "", tuple(parts)


def _split_and_rest(name: str) -> tuple[str, str]:
    """``train_sharp`` is (train, sharp)."""
    match = SPLIT.match(name)
    assert match
    rest = "_".join(filter(None, (match["before"], match["after"], match["side"])))
    return match["split"], rest


def _roles(
    parts: Sequence[tuple[str, ...]], holding: Sequence[Folder]
) -> dict[tuple[str, ...], str]:
    """The role of each folder, by its parts; nothing where folders have none."""
    for index in (-1, 0, -2):
        fitting = [
            each for each in parts if len(each) > index >= -len(each) and ROLE.search(each[index])
        ]
        names = {each[index].lower() for each in fitting}
        if len(fitting) >= MOSTLY * len(parts) and 1 < len(names) <= MOST_ROLES:
            return {each: each[index] for each in fitting}
    return _recurring(parts, holding)


def _recurring(
    parts: Sequence[tuple[str, ...]], holding: Sequence[Folder]
) -> dict[tuple[str, ...], str]:
    """Any names that recur in most items, where the files beside each other have equal names.

    In ``frames/480p/bear`` the names at both ends may recur: there are fewer roles than clips.
    """
    last = _recurring_at(-1, parts, holding)
    first = _recurring_at(0, parts, holding) if last else {}
    return first if 0 < len(set(first.values())) < len(set(last.values())) else last


def _recurring_at(
    index: int, parts: Sequence[tuple[str, ...]], holding: Sequence[Folder]
) -> dict[tuple[str, ...], str]:
    items: dict[tuple[str, ...], list[Folder]] = defaultdict(list)
    for each, folder in zip(parts, holding, strict=True):
        if len(each) > 1:
            items[each[1:] if index == 0 else each[:-1]].append(folder)
    names = {each[index] for each in parts if len(each) > 1}
    partners = sum(_have_partners(inside) for inside in items.values())
    numbered = any(name.isdigit() for name in names)  # as clips are
    if not items or numbered or len(names) > MOST_ROLES or partners < len(items) / 2:
        return {}
    return {each: each[index] for each in parts if len(each) > 1}


def _have_partners(folders: Sequence[Folder]) -> bool:
    known = [files for folder in folders if (files := main_files(folder)) and files.count > 1]
    sums = Counter(files.names for files in known)
    return any(number > 1 for number in sums.values())


def _empty_role(folder: Folder, above: set[str]) -> str:
    """The name of a folder that holds nothing, where the folders beside it are roles."""
    parent, _, name = folder.path.rpartition("/")
    empty = not (folder.folders or folder.files or folder.others)
    return name if empty and parent in above else ""


def _layout(places: Sequence[Place]) -> str:
    """What people call such a dataset."""
    holding = [(place, files) for place in places if (files := main_files(place.folder))]
    if not holding:
        return "empty"
    kinds = Counter(files.kind for _, files in holding)
    clips = {place.item for place, _ in holding if place.item}
    if kinds.most_common(1)[0][0] == "video":
        return "videos"
    roles = {place.role for place, _ in holding if place.role}
    if len(roles) > 1:
        sequences = bool(clips) and _are_sequences(holding)
        return "unpaired" if roles == UNPAIRED else "clips" if sequences else "pairs"
    captioned = sum(files.count for place, files in holding if is_captioned(place.folder))
    if captioned > CAPTIONED * sum(files.count for _, files in holding):
        return "captions"
    if _in_parts(holding):
        return "pairs"
    return _of_folders(holding) if len(clips) > 1 else "pictures"


def _in_parts(holding: Sequence[tuple[Place, Files]]) -> bool:
    """Whether ``0001_blur.png`` lies beside ``0001_sharp.png`` in most folders."""
    fitting = sum(_have_one_name(files) for _, files in holding)
    return fitting >= MOSTLY * len(holding)


def _have_one_name(files: Files) -> bool:
    return len(files.parts) > 1 and len({(part.count, part.names) for part in files.parts}) == 1


def _of_folders(holding: Sequence[tuple[Place, Files]]) -> str:
    """Folders without roles: short sequences of one length, clips, or classes."""
    items: dict[str, set[str]] = defaultdict(set)
    for place, _ in holding:
        items[place.item].add(place.split)
    digits = all(re.search(r"\d", item) for item in items)
    shared = any(len(splits) > 1 for splits in items.values())  # as classes are, by their names
    if not _are_sequences(holding) or (shared and not digits):
        return "classes"
    lengths = Counter(files.count for _, files in holding)
    length, often = lengths.most_common(1)[0]
    if 1 < length <= SHORT and often >= MOSTLY * len(holding):
        return "triplets" if length == 3 else "short sequences"
    return "clips"


def _are_sequences(holding: Sequence[tuple[Place, Files]]) -> bool:
    fitting = sum(files.numbers is not None for _, files in holding if files.count > 1)
    return fitting >= MOSTLY * max(1, sum(files.count > 1 for _, files in holding))


def is_captioned(folder: Folder) -> bool:
    """Whether at least half of the pictures have a text beside them."""
    counts = {files.kind: files.count for files in folder.files}
    return 0 < counts.get("picture", 0) <= 2 * counts.get("text", 0)
