"""The first step of an epoch is not timed in blocks of steps, unless that is what counts."""

import sys
import threading

import pytest

pytest.importorskip("torch")

from pitstop.tune import toggle as toggle_module
from pitstop.tune.looks import pairs_of
from pitstop.tune.plan import Plan, Toggle, Wanted, read_blocks
from pitstop.tune.toggle import Blocks
from pitstop.tune.trials import Settings, run_trial

EPOCHS = """
import time, torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
training, held_out = (DataLoader(torch.randn(size, 8), batch_size=2) for size in (10, 2))
for _ in range(30):
    for batch in training:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    for batch in held_out:
        time.sleep(0.8)
"""
VALIDATION_MS = 790  # far longer than a busy machine lets five small steps wait


@pytest.mark.parametrize(("epochs", "slow"), [(False, 0), (True, 6)])
def test_the_first_step_of_an_epoch_is_timed_only_where_that_is_wanted(
    epochs, slow, tmp_path, monkeypatch
):
    """Each fifth step comes after a validation; blocks of five have one of them each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "train.py").write_text(EPOCHS)
    toggle = Toggle(steps=5, warmup=7, pairs=3, looks=False, epochs=epochs)
    plan = Plan((Wanted("bf16"),), toggle=toggle)
    settings = Settings(toggle.length(6) * 4 // 3 + 1)
    run_trial([sys.executable, "train.py"], plan, tmp_path / "run", settings)
    blocks = read_blocks(tmp_path / "run")
    assert len(blocks) == 6
    assert sum(block.ms > VALIDATION_MS / 5 for block in blocks) == slow


LOADER, OTHER = type("Loader", (), {})(), type("Loader", (), {})()


def timed_ms(steps_ms, epochs_at, folder, monkeypatch):
    """The blocks of two steps each, where steps take so long, and epochs begin before some."""
    now = [0.0]
    monkeypatch.setattr(toggle_module, "perf_counter", lambda: now[0])
    blocks = Blocks(Toggle(steps=2, warmup=3, lead=1, looks=False), folder, lambda _: None)
    for place, ms in enumerate(steps_ms):
        if place in epochs_at:
            blocks.epoch_begins(LOADER)
        now[0] += ms / 1e3
        blocks.step_ended(place + 1)
    return [(block.first, pytest.approx(block.ms)) for block in read_blocks(folder)]


@pytest.mark.parametrize(
    ("epochs_at", "slow", "blocks"),
    [
        ((), (), [(4, 10), (7, 10), (9, 10)]),
        ((4,), (4,), [(5, 10), (8, 10)]),  # the first timed step: another in its place
        ((5,), (5,), [(5, 10), (8, 10)]),  # the second
        ((3,), (3,), [(4, 10), (7, 10), (9, 10)]),  # not timed anyway
        ((5, 5), (5,), [(5, 10), (8, 10)]),  # of two loaders
        ((4, 6), (4, 6), [(5, 505), (8, 10)]),  # so soon after another that it is nothing new
        ((3, 5, 7), (5, 7), [(4, 505), (7, 505), (9, 10)]),  # likewise
    ],
)
def test_another_step_is_timed_in_place_of_the_first_of_an_epoch(
    epochs_at, slow, blocks, tmp_path, monkeypatch
):
    times = [1000.0 if place in slow else 10.0 for place in range(11)]
    assert timed_ms(times, epochs_at, tmp_path, monkeypatch) == blocks


def test_the_epochs_of_each_loader_count_by_themselves(tmp_path, monkeypatch):
    """A validation is left out, though the training has just begun an epoch."""
    now = [0.0]
    monkeypatch.setattr(toggle_module, "perf_counter", lambda: now[0])
    blocks = Blocks(Toggle(steps=2, warmup=3, lead=1, looks=False), tmp_path, lambda _: None)
    for place in range(12):
        for loader, at in ((LOADER, (0, 3)), (OTHER, (0, 5))):
            if place in at:
                blocks.epoch_begins(loader)
        now[0] += 1.0 if place in {3, 5} else 0.01
        blocks.step_ended(place + 1)
    assert next(block.ms for block in read_blocks(tmp_path)) == pytest.approx(10)


def test_what_the_script_does_after_the_last_step_of_an_epoch_is_not_timed(tmp_path, monkeypatch):
    """It lies between two steps, of which the second does not count."""
    now = [0.0]
    monkeypatch.setattr(toggle_module, "perf_counter", lambda: now[0])
    blocks = Blocks(Toggle(steps=2, warmup=3, lead=1, looks=False), tmp_path, lambda _: None)
    for done in range(1, 12):
        if done == 6:
            blocks.epoch_begins(LOADER)
        now[0] += 0.007
        blocks.step_ended(done)
        now[0] += 0.003
    assert [block.ms for block in read_blocks(tmp_path)] == [pytest.approx(10)] * 2


def test_an_epoch_that_another_thread_begins_is_nothing_to_wait_for(tmp_path, monkeypatch):
    monkeypatch.setattr(toggle_module, "perf_counter", lambda: 0.0)
    blocks = Blocks(Toggle(steps=2, warmup=3, lead=1, looks=False), tmp_path, lambda _: None)
    for done in range(1, 10):
        other = threading.Thread(target=blocks.epoch_begins, args=(LOADER,))
        other.start()
        other.join()
        blocks.step_ended(done)
    assert [block.first for block in read_blocks(tmp_path)] == [4, 7]


@pytest.mark.parametrize("period", range(4, 17))
def test_a_slow_second_step_of_each_epoch_does_not_meet_one_side_alone(
    period, tmp_path, monkeypatch
):
    """Blocks grow by the steps that are not timed, and so could fall into step with epochs."""
    now, toggle = [0.0], Toggle(steps=4, warmup=7, lead=1, pairs=24, looks=False)
    monkeypatch.setattr(toggle_module, "perf_counter", lambda: now[0])
    for phase in range(period):
        blocks = Blocks(toggle, tmp_path, lambda _: None)
        for done in range(1, toggle.length(48) * 4 // 3 + 2):
            place = (done + phase) % period
            if place == 0:
                blocks.epoch_begins(LOADER)
            now[0] += {0: 9.0, 1: 1.3}.get(place, 1.0)
            if blocks.step_ended(done):
                break
        found = pairs_of(read_blocks(tmp_path))
        assert len(found.before) == 24
        apart = [b - a for a, b in zip(found.before, found.after, strict=True)]
        assert abs(sum((each > 1) - (each < -1) for each in apart)) < 14  # which would be clear


def test_ranks_time_every_step(tmp_path, monkeypatch):
    """Else each would have blocks of its own, and be switched apart from the others."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    times = [1000.0 if place == 5 else 10.0 for place in range(11)]
    assert timed_ms(times, (5,), tmp_path, monkeypatch)[0] == (4, 505)
