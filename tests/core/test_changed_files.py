"""An input file that changes, or goes away, counts at once: nothing is remembered of a file but what its content says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError, Provider, hookimpl
from astra_sim.compute import Compute, Work
from astra_sim.context import Context
from astra_sim.platform import Platform
from astra_sim.schedule import Collective, Request
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim.setup.run_options import RunOptions
from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node
from astra_sim_chakra.writer import write_nodes
from support import msccl_files

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"


def run(all_reduce: str) -> float:
    return astra_sim.simulate(workload="plugin:collective?bytes=65536", platform=RING, set=[f"system.all_reduce={all_reduce}"]).finish_ns


def test_a_changed_or_deleted_msccl_file_counts(tmp_path: Path) -> None:
    file = tmp_path / "algorithm.xml"
    file.write_text(msccl_files.ring_all_reduce(4))
    first = run(f"msccl?file={file}")
    file.write_text(msccl_files.ring_all_reduce(4, each=2))
    assert run(f"msccl?file={file}") == first
    file.write_text(msccl_files.ring_all_reduce(4).replace('cnt="1"', 'cnt="0"'))
    with pytest.raises(InputError, match="cnt"):
        run(f"msccl?file={file}")
    file.write_text(msccl_files.all_pairs_all_gather(4))
    with pytest.raises(InputError, match="all_gather"):
        run(f"msccl?file={file}")
    file.unlink()
    with pytest.raises(InputError, match="No such file"):
        run(f"msccl?file={file}")


def write_traces(folder: Path, size: int) -> str:
    for number in range(4):
        send = Node(id=0, type=NodeType.COMM_SEND_NODE, comm_dst=(number + 1) % 4, comm_size=size)
        receive = Node(id=1, type=NodeType.COMM_RECV_NODE, comm_src=(number - 1) % 4, comm_size=size)
        write_nodes(folder / f"custom.{number}.et", [send, receive])
    return f"chakra?prefix={folder / 'custom'}"


def test_changed_or_deleted_traces_of_a_collective_count(tmp_path: Path) -> None:
    small = run(write_traces(tmp_path, 1000))
    assert run(write_traces(tmp_path, 100_000)) > small
    assert run(write_traces(tmp_path, 1000)) == small
    for number in range(4):
        (tmp_path / f"custom.{number}.et").unlink()
    with pytest.raises(InputError, match="custom"):
        run(f"chakra?prefix={tmp_path / 'custom'}")


def test_a_file_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    """What a file system tells of a file need not change with its content."""
    file = tmp_path / "platform.toml"
    text = '[[dimensions]]\ntopology = "ring"\nsize = 4\nlinks = 2\nlink_bandwidth_gb_per_s = 1\nlink_latency_ns = {}\n'

    def finish(latency: int) -> float:
        file.write_text(text.format(latency))
        os.utime(file, ns=(10**18, 10**18))
        return astra_sim.simulate(workload="plugin:collective?bytes=65536", platform=file).finish_ns

    assert finish(900) > finish(100) == finish(100)


class Free(Compute):
    def duration_ns(self, work: Work) -> float:
        return 0.0


def algorithm(plugins: Plugins, name: str) -> Any:
    """An algorithm, as a system layer of a new run gets it."""
    platform = Platform(tuple(plugins.get("platform", "ring").create(ring_options(plugins))))
    return Context(plugins, platform, RunOptions(), Free()).algorithm(name, "all_reduce")


def ring_options(plugins: Plugins) -> Any:
    options = plugins.get("platform", "ring").load_options()
    return options(size=4, links=2, link_bandwidth_gb_per_s=1)


def test_schedules_that_follow_from_the_options_alone_are_kept_from_run_to_run() -> None:
    request = Request(Collective.ALL_REDUCE, 4, 4096)
    plugins = shared_plugins()
    assert algorithm(plugins, "ring").schedule(request) is algorithm(plugins, "ring").schedule(request)


def test_an_algorithm_that_does_not_say_so_is_asked_in_every_run_and_once_in_it() -> None:
    asked = []
    ring = shared_plugins().get("collective", "ring").load_factory()

    def counting(request: Request) -> Any:
        asked.append(request)
        return ring(request)

    plugins = Plugins()
    hook = staticmethod(hookimpl(lambda: [Provider("counting", "A ring", counting)], specname="astra_collectives"))
    plugins.register(type("Mine", (), {"astra_collectives": hook})(), "mine")
    for runs in (1, 2):
        astra_sim.simulate(
            workload="plugin:collective?bytes=65536&collective=all_reduce",
            platform=RING,
            set=["system.all_reduce=counting", "system.splits=4", "run.passes=3"],
            plugins=plugins,
        )
        assert len(asked) == runs
