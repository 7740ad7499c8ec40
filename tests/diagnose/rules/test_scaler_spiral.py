import pytest

from diagnose.builders import without_ledger
from pitstop.core.evidence import Step
from pitstop.diagnose.rules.scaler_spiral import scaler_spiral


def run(*scales):
    return without_ledger(steps=tuple(Step(100.0, scale=scale) for scale in scales))


FALLING = [65536.0 / 2**number for number in range(20)]


def test_names_the_fall_and_the_skipped_steps():
    (finding,) = scaler_spiral(run(*FALLING))
    assert (finding.code, finding.severity) == ("PIT702", "error")
    assert finding.message == (
        "The gradient scale falls from 65536 to 0.125 and is still falling: 19 of 20 steps were "
        "skipped."
    )


def test_a_scale_that_had_come_to_rest_falls():
    assert list(scaler_spiral(run(*FALLING[:3], *[16384.0] * 4, *FALLING[3:12])))


@pytest.mark.parametrize(
    "scales",
    [
        [65536.0, 32768.0, 16384.0, *[8192.0] * 20],  # has found its scale
        [*FALLING[:10], *[128.0] * 30],  # came to rest
        FALLING[:16],  # still looks for its first scale
        [*FALLING[:12], 32.0, 32.0, 16.0],
        [65536.0, 32768.0] * 20,
        [*[1.0] * 19, 0.5],
        [*[0.5] * 10, *[1.0] * 9, 0.5],
        [None] * 20,
        [],
    ],
)
def test_quiet(scales):
    assert scaler_spiral(run(*scales)) == []
