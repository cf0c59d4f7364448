"""What is remembered of a file of any format is forgotten when the file changes, or another that was read on the way."""

from __future__ import annotations

import builtins
import json
import os
import random
from pathlib import Path
from typing import Any
from unittest import mock

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.setup.plugins import shared_plugins
from astra_sim.setup.specs import load_file
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node
from astra_sim_chakra.writer import write_nodes
from support.formats import SYSTEM_2, samples
from support.roce import clos

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"


def formats() -> dict[str, Any]:
    return shared_plugins().components("format")


def read(name: str, path: Path) -> dict[str, Any]:
    return load_file(formats()[name].kinds[-1], str(path), shared_plugins())


def opened(name: str, path: Path) -> set[Path]:
    """The files that are opened to read one."""
    names: set[Path] = set()
    whole = builtins.open

    def noting(file: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(file, str | os.PathLike):
            names.add(Path(os.path.abspath(file)))
        return whole(file, *arguments, **named)

    with mock.patch("builtins.open", noting):
        read(name, path)
    return {each for each in names if each.is_relative_to(path.parent)}


OTHERS = {"astra-sim-2-system": {"nodes.yml": "7: ring/b\n"}, "ns3-network": {"topology.txt": clos(2, 2, 4)}}
"""What the files that a sample names hold when they have changed."""


def test_every_format_has_a_sample(tmp_path: Path) -> None:
    assert set(samples(tmp_path)) == set(formats())


@pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")
@pytest.mark.parametrize("name", sorted(formats()))
def test_every_file_that_is_read_on_the_way_counts(name: str, tmp_path: Path) -> None:
    path = samples(tmp_path)[name]
    before = read(name, path)
    first = opened(name, path)
    assert {each.name for each in first if each != path} == set(OTHERS.get(name, {}))
    assert read(name, path) is before or formats()[name].first_file
    for other, text in OTHERS.get(name, {}).items():
        old = (path.parent / other).read_text()
        (path.parent / other).write_text(text)
        assert read(name, path) is not before
        (path.parent / other).write_text(old)
        assert read(name, path) == before
        (path.parent / other).unlink()
        with pytest.raises(InputError, match=other):
            read(name, path)
        (path.parent / other).write_text(old)
        assert read(name, path) == before


def test_a_file_that_comes_in_front_of_another_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topology of ns-3 is looked for beside the file first, then in the working directory."""
    beside, working = tmp_path / "beside", tmp_path / "working"
    beside.mkdir()
    working.mkdir()
    (beside / "config.txt").write_text("TOPOLOGY_FILE topology.txt\n")
    (working / "topology.txt").write_text(clos(2, 1, 4))
    monkeypatch.chdir(working)
    first = read("ns3-network", beside / "config.txt")
    (beside / "topology.txt").write_text(clos(2, 2, 4))
    assert read("ns3-network", beside / "config.txt") != first
    (beside / "topology.txt").unlink()
    assert read("ns3-network", beside / "config.txt") == first
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"topology\.txt"):
        read("ns3-network", beside / "config.txt")


def traces(folder: Path, size: int) -> str:
    for rank in range(4):
        send = Node(id=0, type=NodeType.COMM_SEND_NODE, comm_dst=(rank + 1) % 4, comm_size=size)
        receive = Node(id=1, type=NodeType.COMM_RECV_NODE, comm_src=(rank - 1) % 4, comm_size=size)
        write_nodes(folder / f"of{size}.{rank}.et", [send, receive])
    return str(folder / f"of{size}")


def test_a_run_takes_the_algorithms_of_nodes_that_the_file_names_now(tmp_path: Path) -> None:
    prefixes = [traces(tmp_path, size) for size in (1000, 1_000_000)]
    for rank in range(4):
        write_nodes(tmp_path / f"w.{rank}.et", [Node(id=7, type=NodeType.COMM_COLL_NODE, comm_type=0, comm_size=1 << 20)])
    (tmp_path / "s.json").write_text(json.dumps(SYSTEM_2 | {"per-node-custom-implementation": str(tmp_path / "nodes.yml")}))
    choose, known = random.Random(1), dict[str, float]()
    for prefix in [*prefixes, *choose.choices(prefixes, k=6)]:
        (tmp_path / "nodes.yml").write_text(f"7: {prefix}\n")
        finish = astra_sim.simulate(workload=str(tmp_path / "w"), system=tmp_path / "s.json", platform=RING).finish_ns
        assert known.setdefault(prefix, finish) == finish
    assert known[prefixes[0]] < known[prefixes[1]]
