"""Loaders get workers from outside: in every epoch, and between two steps of one."""

import pytest

pytest.importorskip("torch")


from pitstop.core.evidence import Evidence, Loader, Step
from pitstop.tune.change import Facts, find_change
from tune.running import run

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


LOADERS = """
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
class Numbers(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return index
class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(12))
torch.manual_seed(0)
"""


WHO_READS = """
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
class Told(Dataset):
    def __len__(self):
        return 20
    def __getitem__(self, index):
        worker = get_worker_info()
        return torch.tensor([0.0 if worker is None else 1.0 + worker.id])
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loader = DataLoader(Told(), 2, OWN)
for epoch in range(4):
    readers = []
    for batch in loader:
        STEP
        readers.append(int(batch[0]))
    print(*readers)
"""
PREPARED = "import accelerate\nloader = accelerate.Accelerator(cpu=True).prepare(loader"
LEARNS = "model(batch).sum().backward(); optimizer.step()"


ITSELF = """
class Itself(DataLoader):
    def __iter__(self):
        return self._get_iterator()
loader = Itself(range(9), 2)
"""
STREAM = """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(9))
loader = DataLoader(Stream(), 2, num_workers=1)
"""


def test_an_iterable_dataset_is_not_read_once_by_each_worker(folder):
    source = LOADERS + "print([batch.tolist() for batch in DataLoader(Stream(), 4)])"
    ran = run(folder, source, ("loader", {"workers": 2}))
    assert ran.printed == ["[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"]
    assert "IterableDataset" in ran.outcome.declined


def test_a_dataset_that_cannot_be_sent_to_workers_is_left_alone(folder):
    source = (
        LOADERS
        + """
class Mapped(Numbers):
    def __init__(self):
        self.change = lambda x: x
loader = DataLoader(Mapped(), 4, multiprocessing_context=None)
print(loader.num_workers)
"""
    )
    source = "import multiprocessing\nmultiprocessing.set_start_method('spawn')" + source
    ran = run(folder, source, ("loader", {"workers": 2}))
    assert ran.printed == ["0"]
    assert "cannot be sent" in ran.outcome.declined


def workers_tried(cores, wait_ms=0.0, own=0):
    """For steps of 100 ms."""
    loaders = (Loader("Numbers", own, batches=9),)
    evidence = Evidence(steps=(Step(100.0, data_wait_ms=wait_ms),) * 9, loaders=loaders)
    tries = find_change("loader").tries(Facts(evidence, cores=cores))
    return [each["workers"] for each in tries]


def test_the_number_of_workers_knows_the_cores():
    tried = {cores: workers_tried(cores) for cores in (1, 2, 8, 64)}
    assert tried == {1: [1], 2: [1, 2], 8: [2, 4, 8], 64: [4, 8, 16]}


@pytest.mark.parametrize(
    ("wait_ms", "own", "workers"),
    [
        (40, 0, [4, 8, 16]),  # one would nearly do
        (75, 0, [8, 16, 4]),  # three
        (90, 0, [16, 8, 4]),  # nine
        (100, 0, [16, 8, 4]),
        (10, 2, [8, 16, 4]),  # the two nearly do
        (75, 2, [16, 8, 4]),  # four times as many
        (1, 8, [8, 16, 4]),  # its own
    ],
)
def test_first_come_the_fewest_workers_that_should_do(wait_ms, own, workers):
    assert workers_tried(16, wait_ms, own) == workers


def test_batches_grow_where_there_are_samples_enough(folder):
    source = (
        LOADERS
        + """
print([len(batch) for batch in DataLoader(Numbers(), 4)])
print([len(batch) for batch in DataLoader(Numbers(), 8)])
"""
    )
    ran = run(folder, source, "batch-size")
    assert ran.printed == ["[8, 4]", "[8, 4]"]
    assert ran.outcome.applied == 1
