"""PIT107 clips-shorter-than-window."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import FIRST, Dataset, Examples
from pitstop.data.needs import clip_lengths
from pitstop.data.walk import more
from pitstop.data.wording import number


@rule("PIT107")
def clips_shorter_than_window(dataset: Dataset) -> Iterator[Finding]:
    """Clips have fewer frames than one training sample takes.

    Most dataset classes leave such clips out without a word. Where all clips are too short, the
    dataset is empty and a RAM cache holds 0 items.

    Bad:
        Dataset(
            "clips",
            (Place(Folder("a", (Files("picture", 4),)), item="a"),),
            window=5,
        )

    Good:
        Dataset(
            "clips",
            (Place(Folder("a", (Files("picture", 9),)), item="a"),),
            window=5,
        )
    """
    lengths = _lengths(dataset)
    short = [(length, clips) for length, clips in lengths if length < dataset.window]
    if not short:
        return
    usual = "" if dataset.window_given else ", the usual window: give yours with --window"
    longest = max(length for length, _ in short)
    few, all_of_them = (sum(clips.count for _, clips in each) for each in (short, lengths))
    named = [path for _, clips in short for path in clips.first]
    yield Finding(
        f"{few:,} of {number(all_of_them, 'clip')} have at most {number(longest, 'frame')}, "
        f"fewer than {dataset.window}{usual}: {', '.join(named[:FIRST])}.",
        item="clips",
        cure=f"a window of {min(length for length, _ in short)} takes them all; else leave them "
        "out by name",
        severity="error" if few == all_of_them else "warning",
        confidence="certain" if dataset.window_given else "suspected",
    )


def _lengths(dataset: Dataset) -> list[tuple[int, Examples]]:
    """Frames, and the clips or videos that have so many."""
    if dataset.layout == "videos":
        return list(dataset.video_lengths)
    found: dict[int, Examples] = {}
    if dataset.layout == "clips":
        for path, length in clip_lengths(dataset).items():
            found[length] = more(found.get(length, Examples()), path)
    return list(found.items())
