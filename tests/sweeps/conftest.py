"""What a test of sweeps leaves behind: nothing that runs."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def idle_workers_end() -> Iterator[None]:
    """A scheduler of Dask within this process keeps worker processes for its next batch: they end with the test."""
    yield
    module = sys.modules.get("astra_sim_sweep.dask_workers")
    if module is not None:
        module.end_idle()
