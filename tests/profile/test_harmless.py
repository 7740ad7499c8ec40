"""A profiled script does what it does without Pitstop, to the last bit, and its steps are found."""

import pytest

pytest.importorskip("torch")

# script, arguments, what ends a step, number of steps
SCRIPTS = [
    ("plain.py", (), "optimizer", 24),
    ("plain.py", ("2",), "optimizer", 24),
    pytest.param("plain.py", ("1", "spawn"), "optimizer", 24, marks=pytest.mark.slow),
    pytest.param("plain.py", ("1", "forkserver"), "optimizer", 24, marks=pytest.mark.slow),
    ("accumulate.py", (), "optimizer", 12),
    ("closure.py", (), "optimizer", 15),
    ("compiled.py", (), "optimizer", 12),
    ("batches.py", (), "loader", 20),
    ("inference.py", (), "module", 59),  # the last call has no next one to end it
    ("inference.py", ("compile",), "module", 59),
]


@pytest.mark.parametrize(("script", "arguments", "kind", "steps"), SCRIPTS)
def test_same_output_and_every_step_found(script, arguments, kind, steps, unharmed):
    unharmed(script, *arguments, kind=kind, steps=steps)


def test_the_scripts_own_modes_see_what_they_see_without_us(bare, profiled):
    without = bare("modes.py")
    with_us = profiled("modes.py", ours=("--warmup", "0", "--inspect", "99"))
    assert without.code == 0, without.err.decode()
    assert with_us.out == without.out
    assert with_us.evidence.operations


def test_the_script_sees_itself_as_if_alone(bare, profiled):
    without, with_us = (
        run("manners.py", "--steps", "3", stdin=b"hello\n") for run in (bare, profiled)
    )
    assert with_us.code == without.code == 7
    assert with_us.out.replace(b"/profiled", b"/bare") == without.out
    assert b"hello" in with_us.out


def test_options_of_ours_end_at_the_script(profiled):
    ran = profiled("manners.py", "--steps", "3", "--warmup", stdin=b"\n")
    assert b"'--steps', '3', '--warmup'" in ran.out
