"""PIT105 dataset-empty."""

from collections.abc import Iterator

from pitstop.core.evidence import Loader
from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span


@rule("PIT105")
def dataset_empty(recording: Recording) -> Iterator[Finding]:
    """A loader was asked for batches and its dataset has none.

    The loop over it ends at once, and the script goes on as if it had learned or validated
    something. A RAM cache that is filled from it holds 0 items. The usual causes are a wrong
    folder, a split name in other case, and clips shorter than the window.

    Bad:
        clips = [each for each in folder.glob("train/*") if each.is_dir()]
        loader = torch.utils.data.DataLoader(clips)

    Good:
        clips = [each for each in folder.glob("Train/*") if each.is_dir()]
        if not clips:
            raise FileNotFoundError(f"{folder}/Train holds no clip")
        loader = torch.utils.data.DataLoader(clips)
    """
    for loader in recording.evidence.loaders:
        if loader.length == 0:
            message = f"The dataset `{loader.dataset}` holds no sample."
        elif _too_short(loader):
            size = f"a batch of {loader.batch_size}"
            samples = count(loader.length or 0, "sample")
            message = f"The dataset `{loader.dataset}` holds {samples}, too few for {size}."
        else:
            continue
        cure = "check the folder and the split's name"
        yield Finding(
            message, span=span(loader.made), cure=cure, severity="error", confidence="measured"
        )


def _too_short(loader: Loader) -> bool:
    """Whether two epochs began and gave nothing: with one, the first batch may still be due."""
    if loader.length is None or not loader.batch_size or loader.batches:
        return False
    return loader.length < loader.batch_size and loader.starts > 1
