"""What is captured as CUDA graphs is written over by the next call; torch is faked."""

import pytest
import torch
from torch import nn

from pitstop.tune.inside.script import Run
from pitstop.tune.plan import Plan, Wanted


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4)) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return {"sample": x}


@pytest.fixture
def captured(monkeypatch, tmp_path):
    """Runs the change in this process; ``torch.compile`` returns results in memory of its own."""
    rounds = []

    def compile_(function, mode=None):
        assert mode == "reduce-overhead"
        places = {}

        def call(*given, **named):
            result = function(*given, **named)
            place = places.setdefault("own", result["sample"].detach().clone())
            result["sample"] = place.copy_(result["sample"].detach())
            return result

        return call

    monkeypatch.setattr(torch, "compile", compile_)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: rounds.append(1))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    options = {"scope": "whole", "mode": "reduce-overhead"}
    run = Run(Plan(changes=(Wanted("compile", options),), folder=str(tmp_path)))
    yield rounds
    run.close()


def test_results_that_a_script_keeps_are_not_written_over_by_the_next_call(captured):
    model, inputs = Blocks(), torch.randn(3, 2, 4)
    with torch.no_grad():
        (one, _), (other, _) = (each[0].parameters() for each in model.blocks)
        biases = [each[0].bias for each in model.blocks]
        expected = [(x @ one.T + biases[0]) @ other.T + biases[1] for x in inputs]
        kept = [model(each)["sample"] for each in inputs]
    assert all(map(torch.allclose, kept, expected))
    assert not torch.equal(kept[0], kept[1])
    assert len(captured) == 3


def test_no_new_round_begins_in_a_training_whose_backward_pass_may_be_open(captured):
    teacher, student, x = Blocks(), Blocks(), torch.randn(2, 4)

    def without_gradients(model):
        with torch.no_grad():
            model(x)

    without_gradients(teacher)
    student(x)
    before = len(captured)
    without_gradients(teacher)
    assert len(captured) == before


def test_a_compiled_model_inside_of_a_graph_that_is_captured_declines(captured, monkeypatch):
    model = Blocks()
    model(torch.randn(2, 4))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    out = model(torch.randn(2, 4))
    assert out["sample"].requires_grad  # the model itself has run
