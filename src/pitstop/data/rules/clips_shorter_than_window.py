"""PIT107 clips-shorter-than-window."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import FIRST, Dataset
from pitstop.data.needs import clip_lengths
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
    if dataset.layout != "clips":
        return
    clips = clip_lengths(dataset)
    short = {path: length for path, length in clips.items() if length < dataset.window}
    if not short:
        return
    usual = "" if dataset.window_given else ", the usual window: give yours with --window"
    longest = max(short.values())
    yield Finding(
        f"{len(short)} of {number(len(clips), 'clip')} have at most {number(longest, 'frame')}, "
        f"fewer than {dataset.window}{usual}: {', '.join(list(short)[:FIRST])}.",
        item="clips",
        cure=f"a window of {min(short.values())} takes them all; else leave them out by name",
        severity="error" if len(short) == len(clips) else "warning",
        confidence="certain" if dataset.window_given else "suspected",
    )
