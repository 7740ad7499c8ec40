"""What every test shares: one thread each, a cache folder of its own, no colour."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two test processes share two cores
os.environ["NO_COLOR"] = "1"


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory):
    """Keep the user's cache out of the tests, and the tests out of the user's cache."""
    os.environ["PITSTOP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
