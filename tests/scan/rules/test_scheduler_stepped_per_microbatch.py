import pytest

from pitstop.scan.rules.scheduler_stepped_per_microbatch import scheduler_stepped_per_microbatch
from pitstop.scan.source import Source

ACCELERATE = """for batch in train_dataloader:
    with accelerator.accumulate(model):
        loss = model(batch).mean()
        accelerator.backward(loss)
        optimizer.step()
        {step}
"""
PLAIN = """for i, batch in enumerate(train_loader):
    loss = model(batch).mean() / accum_iter
    loss.backward()
    if i % accum_iter == 0:
        optimizer.step()
    {step}
"""


@pytest.mark.parametrize(
    "text",
    [
        "model, scheduler = accelerator.prepare(model, scheduler)\n" + ACCELERATE,
        "parts = accelerator.prepare(*parts)\n" + ACCELERATE,  # may hold the scheduler
        "scheduler = get_scheduler(steps * args.gradient_accumulation_steps)\n" + ACCELERATE,
        PLAIN.replace("{step}", "if i % accum_iter == 0:\n        {step}"),
        PLAIN.replace("if i % accum_iter == 0", "if True"),  # the optimizer moves as often
        PLAIN.replace("accum_iter", "n_critic"),  # a GAN that trains one side more seldom
        PLAIN.replace("{step}", "x = scheduler.step(noise, t, x)"),  # of a diffusion sampler
        PLAIN.replace("    {step}", "scheduler.step()"),  # once per epoch
        PLAIN + "    global_step += 1\n",  # the project counts micro-batches everywhere
    ],
)
def test_leaves_alone(text):
    text = text.replace("{step}", "scheduler.step()")
    assert scheduler_stepped_per_microbatch(Source(f"import torch\n{text}")) == []


@pytest.mark.parametrize(
    "text", ["model, optimizer = accelerator.prepare(model, optimizer)\n" + ACCELERATE, PLAIN]
)
def test_finds(text):
    text = text.replace("{step}", "self.lr_scheduler.step()")
    (finding,) = scheduler_stepped_per_microbatch(Source(f"import torch\n{text}"))
    assert finding.severity == "error"


def test_finds_it_in_the_function_that_only_accumulates():
    text = """import torch
class Trainer:
    def fit(self):
        for batch in self.loader:
            self.micro_batch(batch)
            if self.count % self.accumulation_steps == 0:
                self.update()

    def micro_batch(self, batch):
        loss = self.model(batch).mean()
        self.scaler.scale(loss / self.accumulation_steps).backward()
        self.scheduler.step()
"""
    (finding,) = scheduler_stepped_per_microbatch(Source(text))
    assert finding.span is not None
    assert finding.span.line == 12
