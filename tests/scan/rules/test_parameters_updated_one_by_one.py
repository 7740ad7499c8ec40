import pytest

from pitstop.scan.rules.parameters_updated_one_by_one import parameters_updated_one_by_one
from pitstop.scan.source import Source

STEP = """\
import torch
for step, batch in enumerate(train_loader):
    model(batch).mean().backward()
    optimizer.step()
    for p in {over}:
        {body}
"""


def found_in(body, over="model.parameters()"):
    return parameters_updated_one_by_one(Source(STEP.format(body=body, over=over)))


@pytest.mark.parametrize(
    ("body", "over"),
    [
        ("p.data.clamp_(-0.01, 0.01)", "critic.parameters()"),
        ("torch.nan_to_num(p.grad, nan=0, out=p.grad)", "model.parameters()"),
        ("p[1].copy_(p[0].lerp(p[1], 0.999))", "zip(ema.parameters(), model.parameters())"),
        ("p *= 0.99", "ema.state_dict().values()"),
    ],
)
def test_finds(body, over):
    (finding,) = found_in(body, over)
    assert (finding.code, finding.span.line) == ("PIT616", 5)


@pytest.mark.parametrize(
    ("body", "over"),
    [
        ("p.requires_grad = False", "model.parameters()"),  # no kernel
        ("total += p.numel()", "model.parameters()"),
        ("other.add_(1)", "model.parameters()"),  # nothing of the parameter
        ("p.add_(1)", "batches_of_points"),
        ("p.mul_(0.9)\nif step % 100 == 0:\n    torch._foreach_mul_(a, 2)", "model.parameters()"),
    ],
)
def test_leaves_alone(body, over):
    assert found_in(body.replace("\n", "\n    "), over) == []


def test_now_and_then_it_costs_nothing():
    rare = STEP.replace("    for p in", "    if step % 100 == 0:\n     for p in")
    text = rare.format(over="model.parameters()", body="p.mul_(0.9)")
    assert parameters_updated_one_by_one(Source(text)) == []


CLASS = """\
import torch
class {name}:
    def {method}(self, model):
        for k, v in self.ema.state_dict().items():
            v.mul_(0.99).add_(model.state_dict()[k], alpha=0.01)

def train(loss):
    loss.backward()
"""


@pytest.mark.parametrize(
    ("name", "method", "count"),
    [
        ("ModelEMA", "update", 1),
        ("ModelEMA", "set", 0),
        ("Schema", "update", 0),
        ("Meter", "update", 0),
    ],
)
def test_a_moving_average_is_known_by_its_name(name, method, count):
    text = CLASS.format(name=name, method=method)
    assert len(parameters_updated_one_by_one(Source(text))) == count
