from dataclasses import replace

import pytest

from diagnose.builders import call, line, operation, recording, without_ledger, work
from pitstop.core.ledger import Row
from pitstop.diagnose.rules.module_called_repeatedly import module_called_repeatedly
from pitstop.diagnose.rules.overlap_recomputed import overlap_recomputed
from pitstop.diagnose.rules.tiles_one_at_a_time import tiles_one_at_a_time

CLIP, ROW = "float32[1,3,5,64,112]@cpu", "float32[1,3,5,48,112]@cpu"
LARGE, SMALL = "float32[1,3,5,48,48]@cpu", "float32[1,3,5,32,48]@cpu"
CUT = line(61, "tiling.py")
CUTS = (
    operation("slice", CUT, CLIP, calls=6, micros=0.0),
    operation("slice", CUT, ROW, calls=3, micros=0.0),
)
COPIED = (
    operation("clone", CUT, LARGE, calls=3, micros=0.0),
    operation("clone", CUT, SMALL, calls=3, micros=0.0),
)

WINDOWS = operation("clone", CUT, "float32[3,48,48]@cpu", calls=6)  # of a sequence: three axes


def run(each_us=15.0, rest_us=10.0, operations=(*CUTS, *COPIED), device="cuda"):
    shapes = [LARGE.replace("[1,3,5", "[1,3,1")] * 3 + [SMALL] * 3
    calls = tuple(call("encoder", 17, shapes=each) for each in shapes)
    busy = *(work(each_us, place) for place in range(6)), work(rest_us)
    rows = (Row("repeated", 12.0),)
    return recording(*rows, device=device, calls=calls, operations=(*operations, *busy))


def test_names_the_line_that_cuts_and_how_many_go_alone():
    (finding,) = tiles_one_at_a_time(run())
    assert (finding.code, finding.span.path, finding.span.line) == ("PIT610", "tiling.py", 61)
    assert finding.saving == pytest.approx(0.12)  # what the ledger says that batching can save
    assert finding.message == (
        "6 tiles a step go through the network one by one; those that could go together with "
        "another of their size take 60.0 ms of 100 ms."
    )


def test_on_a_cpu_it_promises_nothing():
    (finding,) = tiles_one_at_a_time(run(device="cpu"))
    assert (finding.severity, finding.saving) == ("note", None)


def test_the_overlap_costs_what_the_tiles_cover_beyond_the_picture():
    (finding,) = overlap_recomputed(run())
    area = 3 * (48 * 48 + 32 * 48) / (64 * 112)
    assert (finding.code, finding.span.line) == ("PIT614", 61)
    assert finding.saving == pytest.approx(0.90 * (1 - 1 / area))
    assert finding.message.startswith("The tiles cover 161 % of the picture")


def test_tiles_are_no_repeats_of_another_kind():
    assert module_called_repeatedly(run()) == []


def test_a_tile_that_is_not_copied_is_known_by_the_call():
    cut = operation("slice", line(61), CLIP, calls=6, micros=0.0)
    calls = tuple(call("encoder", 61, shapes=each) for each in [LARGE] * 3 + [SMALL] * 3)
    busy = (work(15.0, place) for place in range(6))
    (finding,) = tiles_one_at_a_time(recording(calls=calls, operations=(cut, *busy)))
    assert finding.span.line == 61


@pytest.mark.parametrize("rule", [tiles_one_at_a_time, overlap_recomputed])
@pytest.mark.parametrize(
    "run",
    [
        run(each_us=0.5, rest_us=97.0),
        run(operations=CUTS),
        run(operations=COPIED),
        run(operations=(*CUTS, replace(COPIED[0], calls=30))),  # of several pictures
        run(operations=(operation("slice", CUT, "float32[3,64,112]@cpu"), WINDOWS)),
        run(operations=(operation("slice", CUT, "float32[6,3,5,48,48]@cpu"), *COPIED)),
        recording(),
        without_ledger(operations=(*CUTS, *COPIED)),
    ],
)
def test_quiet(rule, run):
    assert rule(run) == []
