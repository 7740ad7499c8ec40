"""What a loader spends its time on is seen in the script and in its forked workers."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).parent / "scripts" / "decode.py"
DECODE = next(
    number
    for number, text in enumerate(SCRIPT.read_text().splitlines(), 1)
    if text.endswith("# decode")
)


@pytest.mark.parametrize("arguments", [pytest.param(("0",), marks=pytest.mark.slow), ("2", "fork")])
def test_the_line_that_decodes_is_where_the_loader_spends_its_time(arguments, bare, profiled):
    without, with_us = bare("decode.py", *arguments), profiled("decode.py", *arguments)
    assert with_us.out == without.out
    evidence = with_us.evidence
    assert len(evidence.steps) == 60
    assert len(evidence.steady) >= 30  # the sampled ones leave enough alone
    loading = [each for each in evidence.sampled if each.waiting]
    most = max(loading, key=lambda each: each.samples)
    assert (most.where.path, most.where.line) == (str(SCRIPT), DECODE)
    assert most.inside == "scripts/decode.py:Packed.decode"
    assert not list(with_us.folder.glob(".pitstop/runs/*/workers-*.json"))


@pytest.mark.slow
def test_spawned_workers_stay_unseen_and_unharmed(bare, profiled):
    without, with_us = (run("decode.py", "1", "spawn") for run in (bare, profiled))
    assert with_us.out == without.out
    assert b"pitstop:" not in with_us.err
    lines = {each.where.line for each in with_us.evidence.sampled}
    assert DECODE not in lines
