"""What is noted and accounted for later comes out as if it had been followed all the time."""

import contextlib
import io
import json
import signal
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from pitstop.profile.hooks import hooks  # noqa: E402
from pitstop.profile.read.clock import BACKWARD, FORWARD, OTHER, PHASES  # noqa: E402
from pitstop.profile.read.collect import collect  # noqa: E402
from pitstop.profile.record.notes import MOST_NOTES  # noqa: E402
from pitstop.profile.record.recorder import LOSSES, Recorder, StopAfterSteps  # noqa: E402
from pitstop.profile.start.options import Options  # noqa: E402

SAMPLES = 150
SPENT = 5  # the first column of the phases
FACTS = (1, 2, 3, 4, LOSSES, LOSSES + 1)  # kind, number, loader, looked at, loss, gradient norm


class Training:
    """A small one, whose numbers are the same each time."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        self.other = torch.optim.SGD(torch.nn.Linear(4, 1).parameters(), 1e-3)
        self.loader = DataLoader(TensorDataset(torch.randn(SAMPLES, 4)), batch_size=1)

    def batches(self):
        for _ in range(2):
            for (batch,) in self.loader:
                yield batch

    def learn(self, batch):
        self.optimizer.zero_grad()
        loss = self.model(batch).square().mean()
        loss.backward()
        return loss


def plain(training):
    for batch in training.batches():
        training.learn(batch)
        training.optimizer.step()


def clipped(training):
    for batch in training.batches():
        training.learn(batch)
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        training.optimizer.step()


def accumulated(training):
    for number, batch in enumerate(training.batches()):
        training.learn(batch)
        if number % 3 == 2:
            training.optimizer.step()


def gives_up(training):
    for number, batch in enumerate(training.batches()):
        training.learn(batch)
        if number < 20:
            training.optimizer.step()


def two_optimizers(training):
    for batch in training.batches():
        training.learn(batch)
        training.other.step()
        training.learn(batch)
        training.optimizer.step()


def a_second_one_comes_late(training):
    for number, batch in enumerate(training.batches()):
        training.learn(batch)
        training.optimizer.step()
        if number > SAMPLES // 2:
            training.other.step()


def closure(training):
    for batch in training.batches():
        training.optimizer.step(lambda batch=batch: training.learn(batch))


def scaled_before_another_steps(training):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for batch in training.batches():
        training.optimizer.zero_grad()
        loss = scaler.scale(training.model(batch).square().mean())
        training.other.step()
        loss.backward()
        scaler.step(training.optimizer)
        scaler.update()


def clipped_without_a_step(training):
    for number, batch in enumerate(training.batches()):
        training.learn(batch)
        if number < 20:
            training.optimizer.step()
        for _ in range(5):
            torch.nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)


def without_a_loader(training):
    for _ in range(SAMPLES):
        training.learn(torch.ones(1, 4))
        training.optimizer.step()


def saved_now_and_then(training, folder):
    for number, batch in enumerate(training.batches()):
        training.learn(batch)
        training.optimizer.step()
        if number % 70 == 69:
            torch.save(training.model.state_dict(), folder / "weights.pt")


def raises_now_and_then(training):
    def hook(*_):
        if next(raises):
            raise MemoryError

    raises = (number % 40 == 39 for number in range(10**6))
    training.optimizer.register_step_pre_hook(hook)
    for batch in training.batches():
        training.learn(batch)
        with contextlib.suppress(MemoryError):
            training.optimizer.step()


def recorded(folder, train, notes=True, options=None, at_step_end=None, recorders=None):
    """The rows and other lines of a training, and of how many accounts they are."""
    folder.mkdir()
    recorder = Recorder(options or Options(str(folder), inspect=0))
    (recorders if recorders is not None else []).append(recorder)
    recorder.may_note = notes
    recorder.on_step_end = at_step_end or recorder.on_step_end
    accounts, account = [], recorder.notes.account

    def counted():
        assert threading.current_thread() is threading.main_thread()
        accounts.append(len(recorder.notes._notes))
        account()

    recorder.notes.account = counted
    recorder.undo = hooks.install(recorder)
    try:
        train(Training())
    finally:
        recorder.close()
    (path,) = folder.glob("rank0-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for line in lines for row in line.get("slices", ())], lines, accounts


@pytest.mark.parametrize(
    "train",
    [
        plain,
        clipped,
        accumulated,
        gives_up,
        two_optimizers,
        a_second_one_comes_late,
        closure,
        scaled_before_another_steps,
        clipped_without_a_step,
        without_a_loader,
        saved_now_and_then,
        raises_now_and_then,
    ],
)
def test_the_same_is_recorded_with_and_without_notes(train, tmp_path):
    def run(training):
        train(training, tmp_path) if train is saved_now_and_then else train(training)

    noted, lines, accounts = recorded(tmp_path / "noted", run)
    followed, other_lines, none = recorded(tmp_path / "followed", run, notes=False)
    assert [[row[i] for i in FACTS] for row in noted] == [
        [row[i] for i in FACTS] for row in followed
    ]
    assert [line for line in lines if "anew" in line] == [x for x in other_lines if "anew" in x]
    assert none == [0]  # at the end
    unnoted = {closure, scaled_before_another_steps}
    assert train in unnoted or sum(accounts) > SAMPLES  # there were notes
    assert max(accounts) <= MOST_NOTES  # and soon accounted for


@pytest.mark.parametrize("train", [plain, clipped, two_optimizers])
def test_all_time_is_accounted_for_and_belongs_to_its_phase(train, tmp_path):
    def slow(training):
        training.model.register_forward_hook(lambda *_: time.sleep(0.002))
        train(training)

    rows, _, accounts = recorded(tmp_path / "run", slow)
    steps = [row for row in rows if row[1] == "optimizer"]
    assert sum(accounts) > len(steps)
    assert all(row[SPENT + FORWARD] >= 2000 for row in steps)
    assert sum(row[SPENT + BACKWARD] for row in steps) < sum(row[SPENT + FORWARD] for row in steps)
    ends = [row[0] for row in rows]
    passed = [sum(row[SPENT : SPENT + len(PHASES)]) for row in rows]
    gaps = [ends[i] - ends[i - 1] - passed[i] for i in range(1, len(rows))]
    assert min(gaps) >= 0  # no microsecond is counted twice
    assert sum(gaps) < 0.2 * ends[-1]  # the rest is our own work


def test_the_time_that_accounting_takes_belongs_to_no_step(tmp_path):
    def pause(_):
        time.sleep(0.002)

    rows, _, accounts = recorded(tmp_path / "run", plain, at_step_end=pause)
    large = [notes for notes in accounts if notes > 100]  # of 16 steps and more
    assert len(large) > 4
    slow = [row for row in rows[1:] if row[SPENT + OTHER] > 16 * 2000]
    assert len(slow) < len(large) / 2  # but for what the machine does meanwhile


def test_a_run_ends_at_the_step_it_is_told_to(tmp_path):
    done = []

    def train(training):
        training.loader = DataLoader(TensorDataset(torch.randn(400, 4)))
        for batch in training.batches():
            training.learn(batch)
            done.append(batch)
            training.optimizer.step()

    with pytest.raises(StopAfterSteps):
        recorded(
            tmp_path / "run", train, options=Options(str(tmp_path / "run"), inspect=0, steps=207)
        )
    assert len(done) == 207
    assert len(collect(tmp_path / "run", 0)[0].steps) == 207


def test_a_loss_that_is_not_finite_is_looked_into_at_its_own_step(tmp_path):
    def train(training):
        for number, batch in enumerate(training.batches()):
            training.learn(batch if number != 120 else batch / 0)
            training.optimizer.step()

    _, lines, accounts = recorded(tmp_path / "run", train)
    assert sum(accounts) > SAMPLES / 2
    (found,) = [line["non_finite"] for line in lines if "non_finite" in line]
    assert found["step"] == 121


def test_another_thread_leaves_the_notes_alone(tmp_path):
    def train(training):
        other = Training()
        thread = threading.Thread(target=plain, args=[other])
        thread.start()
        plain(training)
        thread.join()

    rows, _, accounts = recorded(tmp_path / "run", train)
    assert sum(row[1] == "optimizer" for row in rows) == 2 * SAMPLES
    assert sum(accounts) > SAMPLES


def test_a_failure_while_notes_are_accounted_for_is_one_line(tmp_path, capsys):
    def train(training):
        for number, batch in enumerate(training.batches()):
            training.learn(batch)
            training.optimizer.step()
            if number == 100:
                recorder.steps = None

    recorder = Recorder(Options(str(tmp_path), inspect=0))
    recorder.undo = hooks.install(recorder)
    train(Training())
    assert capsys.readouterr().err.count("pitstop: recording stopped: ") == 1
    assert not recorder.alive


def test_a_gpu_that_comes_into_use_late_is_looked_at_unless_the_step_was_only_noted(tmp_path):
    recorder = Recorder(Options(str(tmp_path), inspect=1))
    asked = []
    recorder._inspect = asked.append
    recorder._scope.rests_until = 10**6  # all is seen
    recorder._at_step_end(1)
    recorder._writer._seen = 10**6  # later than the slices that are written at once
    recorder._meter.on_gpu, recorder.clock.at_us = True, 1
    recorder._at_step_end(2)
    recorder.clock.at_us = 0
    recorder._at_step_end(3)
    recorder._scope.timed = True
    recorder._at_step_end(4)
    assert asked == [3]


def test_steps_that_turn_out_to_be_longer_while_accounting_are_still_inspected(tmp_path):
    def train(training):
        for number in range(600):
            training.learn(torch.ones(1, 4))
            training.optimizer.step()
            if number > 320:
                training.other.step()

    options = Options(str(tmp_path / "run"), warmup=0, baseline=1, inspect=1)
    _, lines, accounts = recorded(tmp_path / "run", train, options=options)
    assert sum(accounts) > 300
    assert len([line for line in lines if "inspected" in line]) == 2  # the second time of both


def test_a_signal_that_comes_while_accounting_waits_for_it(tmp_path):
    def train(training):
        enter = recorders[0].clock.enter

        def interrupted(phase):
            entered = enter(phase)
            if recorders[0].clock.at_us and not rung:
                rung.append(phase)
                signal.raise_signal(signal.SIGINT)
            return entered

        recorders[0].clock.enter = interrupted
        for _ in range(SAMPLES):
            training.learn(torch.ones(1, 4))
            with contextlib.suppress(KeyboardInterrupt):
                training.optimizer.step()

    rung, recorders = [], []
    rows, _, _ = recorded(tmp_path / "run", train, recorders=recorders)
    assert rung  # once
    assert sum(row[1] == "optimizer" for row in rows) == SAMPLES


def test_a_handler_that_saves_may_come_at_any_time(tmp_path):
    def train(training):
        def save(*_):
            torch.save(torch.zeros(1), io.BytesIO())

        before = signal.signal(signal.SIGALRM, save)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
        try:
            for _ in range(1500):
                training.learn(torch.ones(1, 4))
                training.optimizer.step()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    rows, _, _ = recorded(tmp_path / "run", train)
    assert sum(row[1] == "optimizer" for row in rows) == 1500


def test_rows_that_were_noted_before_a_gpu_came_into_use_have_no_device_time(tmp_path):
    recorder = Recorder(Options(str(tmp_path), inspect=0))
    recorder._writer._seen = 10**6  # later than the slices that are written at once
    recorder._meter.on_gpu, recorder.clock.at_us = True, 1
    recorder._write_slice("optimizer", 0)  # would record an event, which takes a GPU
    assert recorder._writer._rows[0][-2:] == [None, None]
