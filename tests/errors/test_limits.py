"""What would never end, or needs more than there is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from errors.inputs import FILES, WORKLOAD, Words, bounded, cases, network, refused, system, write


def fully_connected(units: int) -> str:
    """A network in which every NPU has a link to every other."""
    return network(topologies_per_dim=["FullyConnected"], units_count=[units], links_count=[units])


@pytest.mark.skipif(sys.platform == "win32", reason="no limits here")
@cases(
    {
        "passes": ((["--passes", "1" + "0" * 30], {}), "passes"),
        "queues": ((["--queues-per-dim", "1000000000"], {}), "queues_per_dim"),
        "chunks": (
            (
                [],
                {
                    "system": system(preferred_dataset_splits=str(10**11)),
                    "workload": WORKLOAD.replace("1024", str(10**12)).replace("2048", str(10**12)),
                },
            ),
            "splits",
        ),
        "direct sends": (
            ([], {"system": system(all_reduce_implementation="direct"), "network": fully_connected(10**9)}),
            "direct",
            "ranks",
        ),
        "NPUs one by one": ((["--no-symmetry"], {"network": network(units_count=[2**25])}), "NPUs", str(2**25)),
        "nodes of a tree": (
            ([], {"system": system(all_reduce_implementation="doubleBinaryTree"), "network": network(units_count=[2**30])}),
            "double_binary_tree",
            "ranks",
        ),
    }
)
def test_what_would_never_end_is_refused(tmp_path: Path, given: tuple[list[str], dict[str, str]], words: Words) -> None:
    options, texts = given
    write(tmp_path, **texts)
    refused(bounded(tmp_path, *FILES, "--json", *options), *words)
