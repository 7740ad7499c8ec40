"""What the recorded process tells of its pace, and what the one that waits makes of it."""

from pitstop.profile.start.pace import EVERY_US, Pace, PaceSeen


def test_the_time_of_a_step_is_told_between_two_looks(tmp_path):
    told, seen = Pace(str(tmp_path)), PaceSeen(tmp_path)
    seen.look()
    assert (seen.steps, seen.step_ms) == (0, None)
    told.step_ended(1, 10_000_000)
    seen.look()
    assert (seen.steps, seen.step_ms) == (1, None)
    told.step_ended(2, 10_000_000 + EVERY_US // 2)  # too soon to be written
    told.step_ended(5, 10_000_000 + 2 * EVERY_US)
    seen.look()
    assert (seen.steps, seen.step_ms) == (5, 2 * EVERY_US / 1e3 / 4)
    seen.look()
    assert (seen.steps, seen.step_ms) == (5, 2 * EVERY_US / 1e3 / 4)


def test_steps_that_turn_out_to_be_preparation_are_counted_anew(tmp_path):
    told, seen = Pace(str(tmp_path)), PaceSeen(tmp_path)
    for done, at_us in ((40, 1 * EVERY_US), (1, 4 * EVERY_US), (3, 6 * EVERY_US)):
        told.step_ended(done, at_us)
        seen.look()
    assert (seen.steps, seen.step_ms) == (3, EVERY_US / 1e3)


def test_a_line_that_is_not_whole_is_read_later_and_other_ranks_say_nothing(tmp_path, monkeypatch):
    seen = PaceSeen(tmp_path)
    (tmp_path / "pace").write_text("12")
    seen.look()
    assert seen.steps == 0
    (tmp_path / "pace").unlink()
    monkeypatch.setenv("RANK", "1")
    Pace(str(tmp_path)).step_ended(3, 10 * EVERY_US)
    assert not (tmp_path / "pace").exists()
