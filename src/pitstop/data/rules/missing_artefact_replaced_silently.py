"""PIT112 missing-artefact-replaced-silently."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.wording import named

WORDS = {
    "empty": "Folders {role} hold nothing, beside others that do",
    "missing": "There is no folder {role}, though most others have one",
    "without partner": "Files are missing in {role} that are there beside it",
}


@rule("PIT112")
def missing_artefact_replaced_silently(dataset: Dataset) -> Iterator[Finding]:
    """Files or folders that others ask for are missing.

    Bad:
        Dataset(absent=(Problem("empty", Examples(1, ("train/a/spike_vox",)), "spike_vox"),))

    Good:
        Dataset(absent=())
    """
    for problem in dataset.absent:
        words = WORDS.get(problem.what, problem.what).format(role=problem.where)
        yield Finding(
            f"{words[0].upper()}{words[1:]}: {named(problem.files)}.",
            item=problem.where,
            cure="make them anew, or leave out by name what needs them; fail where one is missing",
            severity="error",
        )
