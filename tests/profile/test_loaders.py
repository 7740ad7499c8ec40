"""What is known of each loader of a run, and which of its batches were learned from."""

import json
import types

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from pitstop.profile.read.collect import collect  # noqa: E402
from pitstop.profile.record.loaders import ALL_LOOKED_AT, SHORT_US, Loaders  # noqa: E402


def test_a_batch_is_for_training_if_a_backward_pass_comes_before_the_next(recording, tmp_path):
    weight = torch.zeros(1, requires_grad=True)
    for number, (x,) in enumerate(DataLoader(TensorDataset(torch.zeros(8, 1)))):
        for _ in range(number % 3):
            (weight * x).sum().backward()
    recording.close()
    (path,) = tmp_path.glob("rank*.jsonl")
    told = [note for note in map(json.loads, path.read_text().splitlines()) if "fetched" in note]
    assert [note["fetched"][5] for note in told] == [0, 0, 2, 4, 5]


def test_what_short_waits_are_spent_on_is_not_asked_after_the_first(monkeypatch):
    class Iterator:
        _num_yielded, _dataset = 2, [1]

    lines = []
    own = iter(range(10**6, 10**9, 10**6))
    monkeypatch.setattr("pitstop.profile.record.loaders.thread_time_ns", lambda: next(own))
    loaders = Loaders(lambda: 0, types.SimpleNamespace(line=lines.append))
    iterator = Iterator()
    monkeypatch.setattr(loaders, "_describe", lambda *_: None)
    for waited_us in [SHORT_US] * 32 + [5000] * 3 + [SHORT_US] * 2:
        loaders.number(iterator)
        loaders.got(iterator, None, waited_us)
    loaders.finish()
    counted = SHORT_US * (ALL_LOOKED_AT + 1) + 2 * 5000  # the first long one came unexpected
    assert lines[-1]["fetched"][-2:] == [counted, 1000 * (ALL_LOOKED_AT + 3)]


def test_all_batches_are_counted_of_a_dataset_whose_id_is_used_again():
    lines, numbers = [], iter(range(9))
    loaders = Loaders(lambda: next(numbers), types.SimpleNamespace(line=lines.append))
    first, second = TensorDataset(torch.zeros(1)), TensorDataset(torch.zeros(1))
    seen = loaders._find(first, None)
    seen.batches = 400
    loaders._seen = {(id(second), place): each for (_, place), each in loaders._seen.items()}
    assert loaders._find(second, None) is not seen
    assert [(line["number"], line["fetched"][0]) for line in lines] == [(0, 400)]


def test_a_loader_built_again_for_each_epoch_is_one_loader(recording, tmp_path):
    data = TensorDataset(torch.zeros(8, 1))
    for _ in range(3):
        for _ in DataLoader(data, batch_size=2):
            pass
    recording.close()
    (loader,) = collect(tmp_path, 0)[0].loaders
    assert (loader.starts, loader.batches) == (3, 12)


@pytest.mark.parametrize(("learns", "trains"), [(True, True), (False, False)])
def test_batches_that_are_fetched_in_groups_are_all_learned_from(
    learns, trains, recording, tmp_path
):
    """As transformers' Trainer fetches them, where gradients are accumulated."""
    weight = torch.ones(1, requires_grad=True)
    batches = iter(DataLoader(TensorDataset(torch.zeros(32, 1)), batch_size=2))
    held_out = DataLoader(TensorDataset(torch.zeros(10, 1)), batch_size=2)
    for step in range(4):
        group = [next(batches) for _ in range(4)]
        if learns:
            for (batch,) in group:
                (weight * batch).sum().backward()
        for _ in held_out if step % 2 else ():
            pass
        weight.sum().backward()
    recording.close()
    first, second = collect(tmp_path, 0)[0].loaders
    assert (first.batches, first.trains) == (16, trains)
    assert (second.batches, second.trains) == (10, False)


def test_a_single_batch_to_validate_with_is_not_learned_from_later(recording, tmp_path):
    weight = torch.ones(1, requires_grad=True)
    train = DataLoader(TensorDataset(torch.zeros(3, 1)))
    held_out = DataLoader(TensorDataset(torch.zeros(1, 1)))
    for _ in range(3):
        for (batch,) in train:
            (weight * batch).sum().backward()
            for _ in held_out:
                pass
    recording.close()
    first, second = collect(tmp_path, 0)[0].loaders
    assert (first.batches, first.trains) == (9, True)
    assert (second.batches, second.trains) == (9, False)


def test_a_sampler_of_the_users_own_is_not_asked_for_its_length(recording, tmp_path):
    """It may draw a whole epoch to find out."""

    class Drawn(torch.utils.data.Sampler):
        def __iter__(self):
            yield from range(4)

        def __len__(self):
            raise AssertionError

    for sampler in (Drawn(), torch.utils.data.SequentialSampler(range(4))):
        for _ in DataLoader(TensorDataset(torch.zeros(4, 1)), batch_size=2, sampler=sampler):
            pass
    recording.close()
    assert [loader.per_epoch for loader in collect(tmp_path, 0)[0].loaders] == [None, 2]
