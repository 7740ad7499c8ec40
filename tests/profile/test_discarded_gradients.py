"""Gradients that a step computes and nobody uses, found by looking at it closely."""

import pytest

pytest.importorskip("torch")

from inspecting import TRAINING

GAN = """
generator, critic = nn.Linear(8, 8), nn.Linear(8, 1)
first = torch.optim.SGD(critic.parameters(), 1e-3)
second = torch.optim.SGD(generator.parameters(), 1e-3)
"""
THROUGH_THE_CRITIC = """
    second.zero_grad()
    critic(generator(x)).mean().backward()  # wasted
    second.step()
    ends()
"""


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_zeroed_before_use_are_discarded_where_the_input_came_in(
    to_none, inspected
):
    step = f"""
    made = generator(x)
    loss = critic(made).mean()  # attached
    first.zero_grad()
    loss.backward(retain_graph=True)
    first.step()
    second.zero_grad(set_to_none={to_none})
    made.square().mean().backward()
    second.step()
    ends()
"""
    evidence, line = inspected(GAN, step)
    (found,) = evidence.parameters.discards
    assert found.parameters == (("Linear.weight", 64), ("Linear.bias", 8))
    assert (found.where.line, found.calls) == (line["attached"], ((0, 2),))


def test_gradients_of_the_critic_from_the_generators_pass_are_discarded(inspected):
    step = """
    first.zero_grad()
    critic(generator(x).detach()).mean().backward()
    first.step()
"""
    evidence, line = inspected(GAN, step + THROUGH_THE_CRITIC)
    (found,) = evidence.parameters.discards
    assert found.parameters == (("Linear#2.weight", 8), ("Linear#2.bias", 1))
    assert (found.where.line, found.calls) == (line["wasted"], ((3, 1),))


def test_what_each_pass_computes_for_nothing_is_told_by_its_own_line(inspected):
    """As WGAN-GP has it: the critic learns from several passes, whose inputs are attached."""
    step = """
    for _ in range(2):
        first.zero_grad()
        second.zero_grad()
        critic(generator(x)).mean().backward()  # attached
        first.step()
"""
    evidence, line = inspected(GAN, step + THROUGH_THE_CRITIC)
    by_line = {each.where.line: each for each in evidence.parameters.discards}
    assert by_line.keys() == {line["attached"], line["wasted"]}
    paths = {
        number: {evidence.calls[place].path for place, _ in found.calls}
        for number, found in by_line.items()
    }
    assert paths == {line["attached"]: {"Linear"}, line["wasted"]: {"Linear#2"}}
    assert len(by_line[line["attached"]].calls) == 2
    assert len(by_line[line["wasted"]].calls) == 1


def test_gradients_of_a_step_that_a_scaler_skipped_are_not_discarded(inspected):
    evidence, _ = inspected(
        """
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
""",
        """
    scaler.scale(1e9 * model(x).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    ends()
""",
    )
    assert evidence.parameters.discards == ()


def test_used_and_accumulated_gradients_are_not_discarded(inspected):
    step = """
    optimizer.zero_grad()
    for part in x.chunk(2):
        head(model(part)).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    ends()
"""
    evidence, _ = inspected(TRAINING, step)
    assert evidence.parameters.discards == ()
    assert evidence.parameters.without_gradient == ()
