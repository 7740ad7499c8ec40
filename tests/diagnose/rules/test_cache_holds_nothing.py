import pytest

from diagnose.builders import line, loader, recording, without_ledger
from pitstop.core.evidence import Cache
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.cache_holds_nothing import cache_holds_nothing

EMPTY = Cache("frame_cache", 0, line(8, "data.py"))


def run(wait_ms=40.0, cache=EMPTY, **settings):
    made = loader(starts=3, caches=(cache,), **settings)
    return recording(Row("data", wait_ms), loaders=(made,))


def test_workers_take_their_copies_with_them():
    (finding,) = cache_holds_nothing(run(workers=2))
    assert (finding.code, finding.span.path, finding.span.line) == ("PIT113", "data.py", 8)
    assert finding.saving == pytest.approx(0.40)
    assert finding.message == (
        "`frame_cache` of `Clips` is empty at the start of every epoch: each of 2 workers fills "
        "its own copy and takes it away with it; the step waits 40.0 ms of 100 ms (40 %)."
    )
    assert finding.cure.startswith("persistent_workers=True")


def test_without_workers_nothing_was_put_in():
    (finding,) = cache_holds_nothing(run())
    assert "nothing was put in" in finding.message
    assert finding.changes == ("ram-cache",)


def test_quiet_where_it_holds_something_or_workers_keep_theirs():
    assert cache_holds_nothing(run(cache=Cache("frame_cache", 1))) == []
    assert cache_holds_nothing(run(workers=2, persistent=True)) == []


def test_quiet_where_no_step_waits():
    assert cache_holds_nothing(run(wait_ms=4.0)) == []
    assert cache_holds_nothing(without_ledger(loaders=(loader(caches=(EMPTY,)),))) == []
