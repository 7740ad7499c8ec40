import pytest

from diagnose.builders import loader, without_ledger
from pitstop.diagnose.rules.dataset_empty import dataset_empty


def test_an_empty_dataset_is_an_error():
    (finding,) = dataset_empty(without_ledger(loaders=(loader(length=0, batches=0),)))
    assert (finding.code, finding.severity, finding.span.line) == ("PIT105", "error", 5)
    assert finding.message == "The dataset `Clips` holds no sample."


def test_a_dataset_smaller_than_the_batch_that_gave_nothing_is_one_too():
    short = loader(length=3, batch_size=8, batches=0, starts=2)
    (finding,) = dataset_empty(without_ledger(loaders=(short,)))
    assert finding.message == "The dataset `Clips` holds 3 samples, too few for a batch of 8."


@pytest.mark.parametrize(
    "settings",
    [
        {"length": 100},
        {"length": None, "batch_size": 8, "batches": 0, "starts": 2},  # it does not tell
        {"length": 3, "batches": 0, "starts": 2},  # the dataset makes its own batches
        {"length": 3, "batch_size": 8, "batches": 1, "starts": 2},  # the last batch is kept
        {"length": 3, "batch_size": 8, "batches": 0, "starts": 1},  # the first may still come
        {"length": 8, "batch_size": 8, "batches": 0, "starts": 2},
    ],
)
def test_quiet_where_there_is_something_to_read(settings):
    assert dataset_empty(without_ledger(loaders=(loader(**settings),))) == []
    assert dataset_empty(without_ledger()) == []
