"""Groups of equal settings are one while an optimizer steps, and at no other time."""

import copy

import pytest

pytest.importorskip("torch")

import torch

from pitstop.parts import merge_groups
from pitstop.parts.merge_groups import alike

DECAYS = [0.0, 0.1, 0.0, 0.1, 0.0, 0.2]
MAKERS = {
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=1e-2),
    "fused": lambda groups: torch.optim.AdamW(groups, lr=1e-2, fused=True),
    "foreach": lambda groups: torch.optim.Adam(groups, lr=1e-2, foreach=True),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9, nesterov=True),
    "nadam": lambda groups: torch.optim.NAdam(groups, lr=1e-2),
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, lr=1e-2),
    "asgd": lambda groups: torch.optim.ASGD(groups, lr=1e-2),
    "adafactor": lambda groups: torch.optim.Adafactor(groups, lr=1e-2),
    "a tensor as rate": lambda groups: torch.optim.Adam(groups, lr=torch.tensor(1e-2)),
    "own": lambda groups: Own(groups),  # noqa: PLW0108 it is defined below
}


class Own(torch.optim.Optimizer):
    """A step that reads and writes its groups, as some libraries' do."""

    def __init__(self, groups):
        super().__init__(groups, {"lr": 0.1, "weight_decay": 0.0, "betas": [0.9, 0.99]})

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure else None
        self.seen = len(self.param_groups)
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1
            for each in group["params"]:
                each.add_(each.grad + group["weight_decay"] * each, alpha=-group["lr"])
        return loss


def make(maker, merged):
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(3, 5)) for _ in DECAYS]
    groups = [
        {"params": [weight], "weight_decay": decay, "name": number}
        for number, (weight, decay) in enumerate(zip(weights, DECAYS, strict=True))
    ]
    optimizer = MAKERS[maker](groups)
    if merged:
        merge_groups(optimizer)
    return weights, optimizer


def train(weights, optimizer, steps=4, between=lambda _: None):
    for number in range(steps):
        for each in weights:
            each.grad = torch.sin(each.detach() * (number + 1))
        optimizer.step()
        between(optimizer)


@pytest.mark.parametrize("maker", MAKERS)
def test_every_number_is_the_same_and_groups_are_as_they_were_made(maker):
    (plain, untouched), (weights, merged) = make(maker, False), make(maker, True)
    train(plain, untouched)
    train(weights, merged)
    assert all(map(torch.equal, plain, weights))
    assert merged.state_dict()["state"].keys() == untouched.state_dict()["state"].keys()
    for one, other in zip(untouched.param_groups, merged.param_groups, strict=True):
        assert {**one, "params": 0} == {**other, "params": 0}


def test_the_step_sees_one_group_for_each_kind():
    torchs = make("adamw", False)[1]
    assert [len(each) for each in alike(torchs)] == [3, 2, 1]  # names are nothing to its step
    weights, own = make("own", True)
    train(weights, own)
    assert own.seen == 6  # but who knows what that of a stranger does with them
    for group in own.param_groups:
        del group["name"]
    train(weights, own)
    assert own.seen == 3
    assert [each["steps"] for each in own.param_groups] == [8] * 6


def test_schedules_and_codes_that_set_one_group_by_its_number_hold():
    def set_one(optimizer):
        optimizer.param_groups[3]["lr"] *= 0.5
        optimizer.param_groups[5]["betas"] = (0.8, 0.9)

    found = []
    for merged in (False, True):
        weights, optimizer = make("fused", merged)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, [lambda step, each=each: 0.9 ** (step * (each % 2)) for each in range(6)]
        )
        train(
            weights, optimizer, between=lambda each, moves=schedule: (set_one(each), moves.step())
        )
        found.append((weights, [each["lr"] for each in optimizer.param_groups]))
    assert found[0][1] == found[1][1]
    assert all(map(torch.equal, found[0][0], found[1][0]))


def test_closures_and_hooks_see_the_groups_that_were_made():
    weights, optimizer = make("own", True)
    seen = []

    def closure():
        seen.append(len(optimizer.param_groups))
        optimizer.param_groups[1]["lr"] = 0.0  # this very step
        for each in weights:
            each.grad = torch.ones_like(each)
        return 7.0

    before = weights[1].detach().clone()
    assert optimizer.step(closure) == 7.0
    assert seen == [6]
    assert torch.equal(weights[1] * 1.0, before)
    optimizer.register_step_pre_hook(lambda *_: seen.append(len(optimizer.param_groups)))
    optimizer.step()
    assert seen == [6, 6]


def test_a_step_that_fails_leaves_the_groups_as_they_were():
    _, optimizer = make("own", True)
    for each in optimizer.param_groups:
        del each["name"]
    with pytest.raises(TypeError):
        optimizer.step()  # there are no gradients
    assert len(optimizer.param_groups) == 6


def test_groups_that_are_added_and_copies_of_the_optimizer_work():
    weights, optimizer = make("fused", True)
    train(weights, optimizer)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))], "weight_decay": 0.1})
    optimizer.param_groups[-1]["params"][0].grad = torch.ones(2)
    optimizer.step()
    assert optimizer.param_groups[-1]["params"][0][0] < 1
    assert len(copy.deepcopy(optimizer).param_groups) == 7


def test_it_is_off_while_nobody_wants_it():
    weights, optimizer = make("own", False)
    for each in optimizer.param_groups:
        del each["name"]
    wanted = []
    merge_groups(optimizer, lambda: bool(wanted))
    train(weights, optimizer)
    assert optimizer.seen == 6
    wanted.append(True)
    train(weights, optimizer)
    assert optimizer.seen == 3
