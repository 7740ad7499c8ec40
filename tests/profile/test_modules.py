"""Steps of inference are the outermost calls of models, seen without a hook that stays."""

import torch
from torch import nn
from torch.nn.modules import module as modules

from pitstop.profile.hooks import modules as ours
from pitstop.profile.hooks.modules import OutermostCalls


def test_the_hook_goes_when_the_models_are_known_and_their_calls_still_count(monkeypatch):
    monkeypatch.setattr(ours, "compiled_anything", lambda: False)  # in this run
    seen, before = [], len(modules._global_forward_pre_hooks)
    calls = OutermostCalls(seen.append, known_after=4)
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)
    for _ in range(3):
        model(x)
    assert len(modules._global_forward_pre_hooks) == before + 1
    for _ in range(4):
        model(x)
    assert len(modules._global_forward_pre_hooks) == before
    assert seen == [model] * 7
    calls.remove()
    model(x)
    assert len(seen) == 7
