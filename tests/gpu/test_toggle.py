"""Blocks of steps on an NVIDIA GPU, which works behind the script's back."""

import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")

from torch.utils.data import DataLoader  # noqa: E402

from pitstop.tune.plan import Toggle, read_blocks  # noqa: E402
from pitstop.tune.toggle import Blocks  # noqa: E402


def test_the_first_step_of_an_epoch_is_not_timed(tmp_path):
    loader, x = DataLoader([0]), torch.randn(1024, 1024, device="cuda")
    blocks = Blocks(Toggle(steps=2, warmup=3, lead=1, looks=False), tmp_path, lambda _: None)
    for done in range(1, 12):
        if done == 6:
            time.sleep(0.3)  # what follows the last step of an epoch
            blocks.epoch_begins(loader)
            time.sleep(0.3)  # until its workers are there
        x = (x @ x).clamp(-1, 1)
        blocks.step_ended(done)
    times = [block.ms for block in read_blocks(tmp_path)]
    assert len(times) == 2
    assert max(times) < 50  # either would be 150 ms of each step of its block
