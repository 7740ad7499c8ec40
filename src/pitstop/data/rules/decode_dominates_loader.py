"""PIT110 decode-dominates-loader."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.data.dataset import Dataset
from pitstop.data.needs import sample_ms, workers_needed
from pitstop.data.wording import number


@rule("PIT110")
def decode_dominates_loader(dataset: Dataset) -> Iterator[Finding]:
    """Decoding a batch takes more cores than this machine has.

    Bad:
        Dataset(roles=(Role("", decode_ms=50.0, files=9),), batch=8, step_ms=40, cores=4)

    Good:
        Dataset(roles=(Role("", decode_ms=2.0, files=9),), batch=8, step_ms=40, cores=4)
    """
    needed = workers_needed(dataset)
    took_ms = sample_ms(dataset)
    if needed is None or took_ms is None or needed <= dataset.cores:
        return
    yield Finding(
        f"A batch of {dataset.batch} takes {took_ms * dataset.batch:.0f} ms to read and decode on "
        f"one core: a step of {dataset.step_ms:g} ms needs {number(needed, 'worker')}, and this "
        f"machine has {number(dataset.cores, 'core')}.",
        item="decoding",
        cure="store frames in the size that is used, decode once into memory, or decode faster",
        confidence="measured",
        metrics=(Metric("workers", needed, ""), Metric("sample", took_ms, "ms")),
    )
