"""A script with modes of its own, which must see what they see without Pitstop, and no more."""

from functools import partial

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
seen = []


class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def policy(context, operation, *_, **__):
    seen.append((context.is_recompute, str(operation)))
    save = "addmm" in str(operation)
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE


def show(*what):
    print(*what, *seen)
    seen.clear()


frozen = nn.Linear(8, 8).requires_grad_(False)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
again = partial(create_selective_checkpoint_contexts, policy)


def step(batch, call=model):
    optimizer.zero_grad()
    loss = call(frozen(batch)).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def batches():
    return (batch for (batch,) in DataLoader(TensorDataset(torch.randn(12, 8)), batch_size=2))


for batch in batches():
    with FlopCounterMode(display=False) as counter:
        step(batch)
    show(counter.get_total_flops())
for batch in batches():
    loss = step(batch, lambda x: checkpoint(model, x, use_reentrant=False, context_fn=again))
    show(loss.item().hex())
for batch in batches():
    step(batch)
    with FakeTensorMode():
        show(nn.functional.linear(torch.empty(4, 8), torch.empty(3, 8)).shape)
for mode in (Operations(), Functions()):
    with mode:
        for batch in batches():
            step(batch)
    show()
with FakeTensorMode():
    fake = nn.Linear(8, 2)
    tune = torch.optim.SGD(fake.parameters(), 0.1)
    for _ in range(6):
        fake(torch.randn(4, 8)).sum().backward()
        tune.step()
    show(fake.weight.shape)
