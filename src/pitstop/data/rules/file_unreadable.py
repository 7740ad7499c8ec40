"""PIT119 file-unreadable."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset, Problem
from pitstop.data.wording import named


@rule("PIT119")
def file_unreadable(dataset: Dataset) -> Iterator[Finding]:
    """Files are empty, cut short or broken.

    A copy that broke off, a full disk, a download of an error page. Training stops when it meets
    one, often hours after the start, or goes on with a grey lower half.

    Bad:
        Dataset(zero_length=Examples(1, ("train/a/blur/00000003.png",)))

    Good:
        Dataset(zero_length=Examples())
    """
    found = [Problem("empty", dataset.zero_length), *dataset.unreadable]
    for problem in found:
        if problem.files:
            yield Finding(
                f"{problem.what[0].upper()}{problem.what[1:]}: {named(problem.files)}.",
                item="files",
                cure="copy or make them anew, or leave them out by name",
                severity="error",
            )
