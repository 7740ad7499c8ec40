import pytest

from pitstop.scan.rules.guidance_passes_one_by_one import guidance_passes_one_by_one
from pitstop.scan.source import Source

LOOP = """\
import torch
for t in timesteps:
    {first}
    {second}
    noise = {mixed}
    x = scheduler.step(noise, t, x)
"""
FIRST, SECOND = "a = unet(x, t, prompt)", "b = unet(x, t, nothing)"
MIXED = "b + scale * (a - b)"


def found_in(first=FIRST, second=SECOND, mixed=MIXED):
    text = LOOP.format(first=first, second=second, mixed=mixed)
    return guidance_passes_one_by_one(Source(text))


def test_finds_the_second_pass():
    (finding,) = found_in()
    assert (finding.code, finding.span.line, finding.severity) == ("PIT618", 4, "warning")


@pytest.mark.parametrize(
    "changed",
    [
        {"mixed": "b + (a - b) * scale"},
        {"first": "a = unet(x, t, prompt).sample", "second": "b = unet(x, t, nothing)[0]"},
        {"first": "a = unet(sample=x, c=c)", "second": "b = unet(sample=x, c=n)"},
        {"first": "a = unet(x, c).float()", "second": "b = unet(x, n)[0].to(dtype)"},
    ],
)
def test_finds(changed):
    assert len(found_in(**changed)) == 1


def test_a_large_network_fills_the_gpu_with_one_pass():
    (finding,) = found_in("a = self.transformer(x, c)", "b = self.transformer(x, n)")
    assert finding.severity == "note"


@pytest.mark.parametrize(
    "changed",
    [
        {"first": "b, a = unet(torch.cat([x, x]), t, both).chunk(2)", "second": "pass"},
        {"first": "a, b = unet(torch.cat([x, x]), t, both)", "second": "pass"},
        {"first": "a = unet(x, t)", "second": "b = other(x, t)"},
        {"first": "a = unet(x, t)", "second": "b = unet(a, t)"},  # needs the first
        {"mixed": "a + b"},
        {"mixed": "b + scale * (a - c)"},
        {"second": "b = unet(x, t, nothing); loss.backward()"},  # a teacher's
    ],
)
def test_leaves_alone(changed):
    assert found_in(**changed) == []
