"""What comes before the training is told from it, and ``--steps`` counts the training's steps."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

LINES = (Path(__file__).parent / "scripts" / "prepares.py").read_text().splitlines()
INFERENCE = """
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
with torch.no_grad():
    for number in range(30):
        print(number, model(torch.ones(1, 3, 8, 8)).shape, flush=True)
"""
JOINED_LATER = """
import torch
models = [torch.nn.Linear(2, 1) for _ in range(2)]
optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
for step in range(40):
    for model, optimizer in list(zip(models, optimizers))[: 1 if step < 20 else 2]:
        optimizer.zero_grad()
        model(torch.ones(2, 2)).mean().backward()
        optimizer.step()
"""


def line_of(mark):
    (number,) = [number for number, line in enumerate(LINES, 1) if line.endswith(f"# {mark}")]
    return number


def test_steps_are_those_of_the_training_and_only_they_are_inspected(bare, profiled):
    ran = profiled("prepares.py", ours=("--steps", "12", "--warmup", "1"))
    evidence = ran.evidence
    assert ran.code == 0
    assert (evidence.step_kind, len(evidence.steps)) == ("optimizer", 12)
    printed = bare("prepares.py").out.splitlines()
    assert ran.out.splitlines() == printed[:12]  # eleven steps and a validation
    lines = {each.where.line for each in evidence.operations}
    assert line_of("trains") in lines
    assert line_of("prepares") not in lines


def test_a_loader_that_only_validates_trains_nothing(profiled):
    evidence = profiled("prepares.py").evidence
    assert [(each.batches, each.trains) for each in evidence.loaders] == [(20, False), (40, False)]
    assert len(evidence.steps) == 40
    assert sum(each.data_wait_ms for each in evidence.steps) == 0
    assert evidence.validation_s > 0


@pytest.mark.parametrize(
    ("ahead", "printed"),
    [
        ("\n# no optimizer.step() here\n", 12),
        ("\nmodel(torch.ones(1, 3, 8, 8)).mean().backward()\n", 30),
    ],
)
def test_inference_ends_where_no_training_is_ahead(ahead, printed, profiled, tmp_path):
    path = tmp_path / "inference.py"
    path.write_text(INFERENCE + ahead)
    ran = profiled(path, ours=("--steps", "12"))
    assert ran.code == 0
    assert len(ran.out.splitlines()) == printed
    assert ran.evidence.step_kind == "module"
    assert ran.evidence.operations


LOADED_WITH_ITS_MODEL = """
import collections, torch
class Model:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
        self.optimizer = torch.optim.AdamW(self.net.parameters())
    def update(self, images):
        self.net(images).mean().backward()
        self.optimizer.step()
torch.set_grad_enabled(False)
model, bar = Model(), collections.Counter()
for number in range(40):
    print(number, model.net(torch.ones(1, 3, 8, 8)).shape, flush=True)
    bar.update("a")
"""


def test_inference_ends_beside_an_optimizer_and_a_method_that_trains_which_nobody_calls(
    profiled, tmp_path
):
    path = tmp_path / "video.py"
    path.write_text(LOADED_WITH_ITS_MODEL)
    assert len(profiled(path, ours=("--steps", "12")).out.splitlines()) == 12
    path.write_text(LOADED_WITH_ITS_MODEL + "model.update(torch.ones(1, 3, 8, 8))\n")
    assert len(profiled(path, ours=("--steps", "12")).out.splitlines()) == 40


def test_steps_are_inspected_again_when_more_turns_out_to_make_one(tmp_path, profiled):
    """As where a critic learns alone for the first steps."""
    script = tmp_path / "joined_later.py"
    script.write_text(JOINED_LATER)
    evidence = profiled(script).evidence
    backward = sum(each.calls for each in evidence.operations if "ones_like" in each.name)
    assert backward == 2  # both models: the step is whole
    assert len(evidence.parameters.tops) == 2


def test_an_optimizer_that_never_steps_is_not_waited_for_for_ever():
    pytest.importorskip("torch")
    from pitstop.profile.steps.live import Steps

    class Loaded:
        def living(self):
            return [object()]

    steps, enough = Steps(), []
    for _ in range(81):
        steps.add("module", 0)
        enough.append(steps.are_enough(20, Loaded()))
    assert enough.index(True) + 1 == 80
