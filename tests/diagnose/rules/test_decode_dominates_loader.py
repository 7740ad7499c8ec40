import pytest

from diagnose.builders import line, loader, recording, sampled, without_ledger
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.decode_dominates_loader import decode_dominates_loader

READS = line(12, "data.py", "__getitem__")
DECODER = "PIL/ImageFile.py:load"


def waits(*seen, ms=40):
    return recording(Row("data", ms), loaders=(loader(),), sampled=seen)


def test_names_the_line_that_decodes_and_its_part_of_the_wait():
    seen = sampled(READS, 15, DECODER, waiting=True), sampled(line(13, "data.py"), 5, waiting=True)
    (finding,) = decode_dominates_loader(waits(*seen))
    assert (finding.code, finding.span.path, finding.span.line) == ("PIT110", "data.py", 12)
    assert finding.saving == pytest.approx(0.3)
    assert finding.message == (
        "Decoding takes 75 % of the wait for a batch, which is 40.0 ms of 100 ms (40 %)."
    )


@pytest.mark.parametrize(
    "seen",
    [
        (sampled(READS, 20, "data.py:__getitem__", waiting=True),),  # slow, but no decoder
        (sampled(READS, 9, DECODER, waiting=True), sampled(READS, 11, "", waiting=True)),
        (sampled(READS, 20, DECODER),),  # decoding, but not while the script waits
        (sampled(READS, 4, DECODER, waiting=True),),  # too few to tell
        (),
    ],
)
def test_quiet_where_something_else_is_slow(seen):
    assert decode_dominates_loader(waits(*seen)) == []


def test_quiet_where_nobody_waits():
    seen = sampled(READS, 20, DECODER, waiting=True)
    assert decode_dominates_loader(waits(seen, ms=4)) == []
    assert decode_dominates_loader(without_ledger(sampled=(seen,))) == []


def test_five_samples_are_enough_if_half_of_them_decode():
    seen = sampled(READS, 3, DECODER, waiting=True), sampled(READS, 2, "", waiting=True)
    assert len(decode_dominates_loader(waits(*seen))) == 1


def test_the_line_that_waits_for_workers_does_not_count():
    used = line(9)
    seen = sampled(READS, 20, DECODER, waiting=True), sampled(used, 99, waiting=True)
    fed = (loader(workers=2, used=used),)
    (finding,) = decode_dominates_loader(recording(Row("data", 40), loaders=fed, sampled=seen))
    assert finding.saving == pytest.approx(0.4)


@pytest.mark.parametrize(
    "inside",
    ["lib/_npyio_impl.py:load", "io/image.py:decode_image", "python3.12/gzip.py:read"],
)
def test_knows_other_decoders(inside):
    (finding,) = decode_dominates_loader(waits(sampled(READS, 20, inside, waiting=True)))
    assert finding.span.line == 12
