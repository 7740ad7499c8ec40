"""PIT110 decode-dominates-loader."""

import re
from collections import Counter
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import percent
from pitstop.diagnose.facts.loading import reading_samples, wait_for_data
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

# As samples name it: the last folder, the file and the function of a decoder's Python part.
DECODERS = re.compile(
    r"PIL/\w*ImageFile|PIL/\w+Plugin|imageio|io/(?:image|video|_io)\w*\.py|torchcodec|decord"
    r"|^(?:av|cv2|simplejpeg|tifffile)/|lib/_?(?:npyio|format)|zipfile|gzip\.py|_hl/dataset\.py"
)
DOMINATES = 0.5  # of the samples taken in the wait; below it decoding is one cause of several
FEWEST_SAMPLES = 5  # seen while waiting; fewer say nothing about shares


@rule("PIT110")
def decode_dominates_loader(recording: Recording) -> Iterator[Finding]:
    """Most of the wait for a batch is spent decoding files.

    The same files are decoded again in every epoch, and workers hide that only as long as there
    are cores for them. Decode once, into arrays or into the size that is used; or keep the
    decoded samples in memory where they fit.

    Bad:
        def __getitem__(self, index):
            return to_tensor(Image.open(self.paths[index]).convert("RGB"))

    Good:
        def __getitem__(self, index):
            return self.frames[index]
    """
    wait = wait_for_data(recording)
    if wait is None or not wait.long:
        return
    reading = reading_samples(recording.evidence, wait.loader)
    decoding: Counter[Line] = Counter()
    for each in reading:
        if DECODERS.search(each.inside.replace("\\", "/")):
            decoding[each.where] += each.samples
    seen = sum(each.samples for each in reading)
    if seen < FEWEST_SAMPLES or decoding.total() < DOMINATES * seen:
        return
    share = decoding.total() / seen
    yield Finding(
        f"Decoding takes {percent(share)} of the wait for a batch, which is {wait.words}.",
        span=span(decoding.most_common(1)[0][0]),
        cure="decode once and keep arrays, store the size that is used, or decode in workers",
        confidence="measured",
        metrics=(Metric("decoding", share * wait.ms, "ms"), *wait.metrics),
        saving=share * wait.share,
        claims=wait.claims,
        changes=("ram-cache",),
    )
