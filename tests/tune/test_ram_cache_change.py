"""Samples are read once from outside; the dataset in the script's hands stays what it is."""

import pytest

pytest.importorskip("torch")

from tune.running import run

pytestmark = pytest.mark.slow

READS = """
import torch
from torch.utils.data import DataLoader, Dataset, Subset

class Clips(Dataset):
    classes = ["a", "b"]
    def __init__(self, random=False):
        self.reads, self.random = 0, random
    def __len__(self):
        return 12
    def __getitem__(self, index):
        self.reads += 1
        if index >= 12:
            raise IndexError
        return torch.full((3,), float(index)) + (torch.rand(3) if self.random else 0)

torch.manual_seed(0)
clips = Clips(RANDOM)
loader = DataLoader(clips, 4, shuffle=True, num_workers=WORKERS)
for epoch in range(3):
    print([int(batch.sum()) for batch in loader])
print("reads", clips.reads, clips.classes, isinstance(clips, Clips), type(loader.dataset).__name__)
print("next", torch.rand(1).item())
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_batches_come_without_another_read(tmp_path, workers):
    source = READS.replace("RANDOM", "").replace("WORKERS", str(workers))
    plain = run(tmp_path, source, record=False)
    ours = run(tmp_path, source, ("ram-cache", {}), record=False)
    assert ours.outcome.applied == 1
    assert ours.printed[:3] == plain.printed[:3]
    assert ours.printed[3] == "reads 0 ['a', 'b'] True Clips"
    assert ours.printed[4] == plain.printed[4]


def test_a_dataset_that_draws_at_random_is_left_alone(tmp_path):
    source = READS.replace("RANDOM", "random=True").replace("WORKERS", "0")
    plain = run(tmp_path, source, record=False)
    ours = run(tmp_path, source, ("ram-cache", {}), record=False)
    assert "differs when it is read twice" in ours.outcome.declined
    assert ours.printed == plain.printed
