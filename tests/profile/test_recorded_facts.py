"""What the recording says of loaders, optimizers, gradients and compilations, on real scripts."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pitstop.profile.read.collect import collect  # noqa: E402

SCRIPTS = Path(__file__).parent / "scripts"


def line_of(script, text):
    """The number of the one line of a script that holds a text."""
    lines = (SCRIPTS / script).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return number


def test_loader_optimizer_loss_gradient_norm_and_scale_are_the_scripts_own(bare, profiled):
    without, with_us = bare("facts.py"), profiled("facts.py")
    assert with_us.out == without.out
    evidence = with_us.evidence
    train, check = evidence.loaders
    assert (train.length, train.batch_size, train.batches, train.starts) == (40, 4, 20, 2)
    assert (check.length, check.batch_size, check.batches, check.starts) == (40, 10, 8, 2)
    assert (train.per_epoch, check.per_epoch) == (10, 4)
    assert (train.trains, check.trains, check.workers) == (True, False, 1)
    assert train.batch_bytes == 4 * (3 * 8 + 2) * 4
    assert train.batch_shapes == 2
    assert train.made.line == line_of("facts.py", "train = OwnLoader")
    assert check.made.line == line_of("facts.py", "check = DataLoader")
    assert train.used.line == line_of("facts.py", "in train:")
    assert (train.asked_by, check.asked_by) == ("", "")
    (optimizer,) = evidence.optimizers
    assert (optimizer.name, optimizer.parameters, optimizer.tensors) == ("OwnSGD", 2, 2)
    assert (optimizer.fused, optimizer.foreach) == (False, False)
    assert optimizer.made.line == line_of("facts.py", "optimizer = OwnSGD")
    printed = [line.split() for line in without.out.decode().splitlines()]
    steps = [words for words in printed if len(words) == 3]
    assert [step.loss.hex() for step in evidence.steps] == [words[0] for words in steps]
    assert [step.gradient_norm.hex() for step in evidence.steps] == [words[1] for words in steps]
    assert [step.scale for step in evidence.steps] == [None, *[1024.0] * 19]  # set for the next one


def test_of_two_networks_in_turn_every_loss_is_recorded(unharmed):
    ran = unharmed("gan.py", kind="optimizer", steps=12)
    assert ran.evidence.step_events == 3  # two of the critic
    printed = [line.split() for line in ran.out.decode().splitlines()]
    found = [[loss.hex() for loss in reversed(step.losses)] for step in ran.evidence.steps]
    assert found == printed


def test_of_two_backward_passes_before_one_step_both_losses_count(recording, tmp_path):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1e-3)
    for _ in range(2):
        (weight.sum() + 3).backward()
        (weight.sum() * 0).backward()  # as of an opponent that does not learn yet
        optimizer.step()
    recording.close()
    (evidence,) = collect(tmp_path, 0)
    assert [step.losses for step in evidence.steps] == [(0.0, 3.0), (0.0, pytest.approx(2.999))]


def test_of_a_trainer_the_loaders_are_known_and_who_asks_for_their_batches(unharmed):
    train, check = unharmed("trainer.py", kind="optimizer", steps=16).evidence.loaders
    assert (train.trains, check.trains) == (True, False)  # though two batches are fetched at once
    assert (train.asked_by, check.asked_by) == ("transformers", "transformers")


@pytest.mark.parametrize("way", ["fused", "unfused"])
def test_a_step_that_a_scaler_skips_is_one_fused_or_not(way, profiled):
    """Only what is not fused leaves its optimizer uncalled; their losses are to be compared."""
    ran = profiled("skipped.py", way)
    printed = [line.split() for line in ran.out.decode().splitlines()]
    assert float(printed[0][1]) / float(printed[-1][1]) >= 8  # three steps and more were skipped
    assert [step.loss.hex() for step in ran.evidence.steps] == [words[0] for words in printed]


def test_a_loader_without_a_batch_is_seen_though_no_step_is(profiled):
    ran = profiled("empty.py")
    assert b"ValueError" in ran.err
    assert ran.evidence.steps == ()
    found = [(each.made.line, each.length, each.starts) for each in ran.evidence.loaders]
    assert sorted(found) == [
        (line_of("empty.py", "in DataLoader(Nothing()"), 0, 1),
        (line_of("empty.py", "drop_last=True"), 3, 1),
        (line_of("empty.py", "loader = DataLoader"), 0, 0),
        (line_of("empty.py", "shuffle=True"), 0, 0),
    ]
    assert all(each.batches == 0 for each in ran.evidence.loaders)


def test_compilations_and_graph_breaks_are_told_with_their_lines(bare, profiled):
    without, with_us = bare("broken_graph.py"), profiled("broken_graph.py")
    assert with_us.out == without.out  # as many graphs and breaks as without us, too
    evidence = with_us.evidence
    scale = [each for each in evidence.compiled if each.where.function == "scale"]
    assert [each.again for each in scale] == list(range(len(scale)))
    assert "factor" in scale[1].reason
    assert scale[0].where.line == line_of("broken_graph.py", 'compile(backend="eager")')
    (broken,) = {each.where.line for each in evidence.breaks}
    assert broken == line_of("broken_graph.py", "a graph ends here")
    assert "print" in evidence.breaks[0].reason


def test_training_by_hand_has_its_steps_and_its_model_stays_its_own(bare, profiled):
    without, with_us = bare("by_hand.py"), profiled("by_hand.py")
    assert without.code == with_us.code == 0, with_us.err.decode()
    assert with_us.out == without.out
    evidence = with_us.evidence
    assert (evidence.step_kind, len(evidence.steps)) == ("module", 100)
    assert all(step.loss is not None for step in evidence.steps)
    assert evidence.operations  # one was inspected, though no optimizer ever steps
    assert evidence.validation_s > 0
