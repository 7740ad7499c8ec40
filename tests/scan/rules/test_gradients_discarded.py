import pytest

from pitstop.scan.rules.gradients_discarded import gradients_discarded
from pitstop.scan.source import Source

STEP = """\
import torch
for real in train_loader:
    optimizer_D.zero_grad()
    {made}
    {lost}
    d_loss.backward()
    {steps}
"""
MADE = "fake = generator(torch.randn(8, 64))"
LOST = "d_loss = discriminator(fake).mean() - discriminator(real).mean()"


def found_in(made=MADE, lost=LOST, steps="optimizer_D.step()"):
    return gradients_discarded(Source(STEP.format(made=made, lost=lost, steps=steps)))


def test_finds_the_generator_in_the_discriminators_step():
    (finding,) = found_in()
    assert (finding.code, finding.span.line, finding.fix.safe) == ("PIT603", 5, False)


@pytest.mark.parametrize(
    "changed",
    [
        {"made": "fake = self.netG(z)", "lost": "score = self.netD(fake); d_loss = loss(score, 0)"},
        {"lost": "d_loss = critic(generator(z)).mean()", "steps": "opt_critic.step()"},
        {"lost": "a = discriminator(fake); b = bce(a, zeros); d_loss = (b + c) / 2"},
        {"steps": "scaler.step(d_optim)"},
        {"made": "fake = generator(z).clamp(-1, 1)"},
    ],
)
def test_finds(changed):
    assert [each.code for each in found_in(**changed)] == ["PIT603"]


@pytest.mark.parametrize(
    "changed",
    [
        {"made": "fake = generator(z).detach()"},
        {"made": "with torch.no_grad(): fake = generator(z)"},
        {"made": "fake = pool.query(generator(z))"},  # may be old pictures
        {"made": "fake = z"},
        {"lost": "d_loss = discriminator(fake.detach()).mean()"},
        {"lost": "d_loss = discriminator(fake.data).mean()"},
        {"steps": "optimizer_G.step()"},
        {"steps": "optimizer_D.step(); optimizer_G.step()"},
        {"steps": "optimizer.step()"},
        {"steps": "g_loss = -discriminator(fake).mean(); g_loss.backward(); optimizer_D.step()"},
        {
            "lost": "score = discriminator(fake); d_loss = score.mean()",
            "steps": "optimizer_D.step(); (-score).mean().backward(); optimizer_G.step()",
        },
        {"lost": "p = torch.autograd.grad(s, fake)[0]; d_loss = discriminator(fake).mean() + p"},
    ],
)
def test_leaves_alone(changed):
    assert found_in(**changed) == []
