"""Needs: what a dataset asks of a machine: time of one sample, workers, memory. Pure."""

from collections import defaultdict
from math import ceil

from pitstop.data.dataset import Dataset, Role
from pitstop.data.layout import main_files

FLOAT32_BYTES = 4
PART_OF_A_SAMPLE = 0.5  # of the files of the largest role; with fewer it is an extra
MOST_OF_MEMORY = 0.8  # that a cache may take; the rest is for the training itself


def clip_lengths(dataset: Dataset) -> dict[str, int]:
    """The frames that each clip can give: those of its shortest role that is not empty."""
    lengths: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for place in dataset.places:
        files = main_files(place.folder)
        if files and files.kind != "video":
            above = place.folder.path.removesuffix(f"/{place.role}")
            lengths[place.split, place.item].append((above, place.count))
    return {roles[0][0]: min(count for _, count in roles) for roles in lengths.values()}


def samples(dataset: Dataset) -> int:
    """Windows that a dataset class can cut, one starting at each frame; else files or groups."""
    if dataset.layout == "clips":
        lengths = clip_lengths(dataset).values()
        return sum(max(0, length - dataset.window + 1) for length in lengths)
    if dataset.layout in {"triplets", "short sequences"}:
        return sum(place.count > 0 for place in dataset.places)
    return max((role.files for role in dataset.roles), default=0) // _parts(dataset)


def _parts(dataset: Dataset) -> int:
    """Files of one folder that are one sample: ``0001_blur.png`` and ``0001_sharp.png``."""
    if dataset.layout != "pairs" or len(dataset.roles) != 1:
        return 1
    files = filter(None, (main_files(place.folder) for place in dataset.places))
    return max((len(each.parts) for each in files), default=0) or 1


def files_of_a_sample(dataset: Dataset, role: Role) -> int:
    """Files, or frames of a video, that one sample reads of a role."""
    if role.files < PART_OF_A_SAMPLE * max(each.files for each in dataset.roles):
        return 0
    if dataset.layout in {"triplets", "short sequences"}:
        return round(role.files / max(1, samples(dataset)))
    return dataset.window * _parts(dataset)


def sample_ms(dataset: Dataset) -> float | None:
    """Reading and decoding one sample on one core; None where nothing was decoded."""
    known = [role for role in dataset.roles if role.decode_ms is not None]
    if not known:
        return None
    return sum(
        files_of_a_sample(dataset, role) * ((role.decode_ms or 0.0) + (role.read_ms or 0.0))
        for role in known
    )


def workers_needed(dataset: Dataset) -> int | None:
    """Workers that keep up with the step; None where step or decoding were not told."""
    took_ms = sample_ms(dataset)
    if took_ms is None or not dataset.step_ms:
        return None
    return max(1, ceil(dataset.batch * took_ms / dataset.step_ms))


def batch_bytes(dataset: Dataset) -> int:
    """One batch as float32, as workers pass it on."""
    numbers = sum(files_of_a_sample(dataset, role) * role.numbers for role in dataset.roles)
    return int(FLOAT32_BYTES * dataset.batch * numbers)


def decoded_numbers(dataset: Dataset) -> float:
    """Numbers of the whole dataset when decoded; videos by the frames that were counted."""
    total = 0.0
    for role in dataset.roles:
        frames = role.files
        if role.kind == "video":
            frames = round(dataset.video_frames * role.files / role.opened) if role.opened else 0
        total += role.numbers * frames
    return total
