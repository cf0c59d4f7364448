"""`astra trace scale` and `stats`: the same work on more ranks, and what traces hold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim_chakra import CollectiveType, Node, NodeType, load_ranks
from astra_sim_chakra.doctor.checking import check
from astra_sim_chakra.doctor.figures import figures
from astra_sim_chakra.doctor.trace_set import open_traces
from support.commands import Astra, command
from support.traces import PIPELINE_GROUPS, collective, compute, data_parallel, pipeline, receive, send, write_ranks


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


def switch(npus: int) -> str:
    return f"plugin:switch?size={npus}&link_bandwidth_gb_per_s=50&link_latency_ns=500"


def simulate(prefix: str, npus: int, **options: Any) -> astra_sim.Result:
    return astra_sim.simulate(workload=prefix, platform=switch(npus), **options)


def scaled(astra: Astra, prefix: str, npus: int, *options: str) -> str:
    """Scale traces; returns the prefix of the new ones, which have no errors."""
    done = astra("trace", "scale", prefix, "--npus", str(npus), "--output", str(Path(prefix).parent / "out"), *options)
    assert (done.status, done.error) == (0, "")
    target = str(Path(prefix).parent / "out" / Path(prefix).name)
    assert not [finding for finding in check(open_traces(target)).findings if finding.severity == "error"]
    return target


# -- Scale -------------------------------------------------------------------------------------------------------------


def test_data_parallel_ranks_do_the_same_and_reduce_over_all(astra: Astra, tmp_path: Path) -> None:
    target = scaled(astra, write_ranks(tmp_path / "t", data_parallel, 8), 64)
    traces = load_ranks(target, 64)
    assert len(traces.programs) == 1
    assert list(traces.trace(63).nodes()) == data_parallel(63)
    # The same as traces that were written for 64 ranks.
    direct = write_ranks(tmp_path / "direct", data_parallel, 64)
    assert simulate(target, 64).finish_ns == simulate(direct, 64).finish_ns


def _ring(ranks: int) -> list[list[Node]]:
    return [[compute(0), send(1, (r + 1) % ranks, 512, 0), receive(2, (r - 1) % ranks, 512), compute(3, 70, 2)] for r in range(ranks)]


def test_messages_keep_their_distance_on_both_ways_round(astra: Astra, tmp_path: Path) -> None:
    target = scaled(astra, write_ranks(tmp_path / "t", _ring(8)), 32)
    assert [list(load_ranks(target, 32).trace(rank).nodes()) for rank in range(32)] == _ring(32)


def test_a_peer_half_way_round_is_not_guessed(astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [[send(0, (r + 2) % 4, 512), receive(1, (r + 2) % 4, 512)] for r in range(4)])
    done = astra("trace", "scale", prefix, "--npus", "8", "--output", str(tmp_path / "out"))
    assert (done.status, "half way round 4 ranks" in done.error) == (2, True)
    copied = load_ranks(scaled(astra, prefix, 8, "--copies"), 8)
    assert [copied.trace(rank).comm.dst[0] for rank in range(8)] == [2, 3, 0, 1, 6, 7, 4, 5]


def _grouped(rank: int) -> list[Node]:
    """Tensor-parallel neighbours (0-3, 4-7), and data-parallel ranks at a distance of four."""
    return [
        compute(0),
        collective(1, 4096, 0, pg_name=f"tp{rank // 4}"),
        collective(2, 8192, 1, pg_name=f"dp{rank % 4}", kind=CollectiveType.ALL_GATHER),
        collective(3, 8192, 2, pg_name="0", kind=CollectiveType.REDUCE_SCATTER),
    ]


def test_groups_of_neighbours_are_copied_and_groups_at_a_distance_grow(astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", _grouped, 8)
    groups = {f"tp{n}": list(range(4 * n, 4 * n + 4)) for n in range(2)} | {f"dp{n}": [n, n + 4] for n in range(4)}
    (tmp_path / "t.groups.json").write_text(json.dumps(groups))
    target = scaled(astra, prefix, 64)
    named = json.loads(Path(f"{target}.groups.json").read_text())
    members = sorted(map(tuple, named.values()))
    assert members == sorted([*(tuple(range(4 * n, 4 * n + 4)) for n in range(16)), *(tuple(range(n, 64, 4)) for n in range(4))])
    nodes = list(load_ranks(target, 64).trace(13).nodes())
    assert named[str(nodes[1].pg_name)] == [12, 13, 14, 15]
    assert named[str(nodes[2].pg_name)] == list(range(1, 64, 4))
    # An all-gather's size is the shard of a rank: 2 shards of 8192 bytes are 16 of 1024. A reduce-scatter's is the whole buffer.
    assert [node.comm_size for node in nodes] == [None, 4096, 1024, 8192]
    assert simulate(target, 64, groups=f"{target}.groups.json").finish_ns > 0
    trace = load_ranks(scaled(astra, prefix, 64, "--keep-shards"), 64).trace(0)
    assert trace.comm.size[2] == 8192


def test_stages_that_differ_are_copied_only_on_request(astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", pipeline)
    (tmp_path / "t.groups.json").write_text(json.dumps(PIPELINE_GROUPS))
    done = astra("trace", "scale", prefix, "--npus", "8", "--output", str(tmp_path / "out"))
    assert done.status == 2
    assert "the ranks are not alike, they run 2 programs (ranks 0-1; ranks 2-3)" in done.error
    target = scaled(astra, prefix, 8, "--copies", "--grow", "1")
    named = json.loads(Path(f"{target}.groups.json").read_text())
    assert sorted(named.values()) == [[0, 1, 4, 5], [2, 3], [6, 7]]
    assert [load_ranks(target, 8).trace(rank).comm.dst[1] for rank in (0, 1, 4, 5)] == [2, 3, 6, 7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--npus", "2"), "--npus 2: there are 4 ranks already"),
        (("--npus", "6"), "--npus 6 is no multiple of the 4 ranks"),
        (("--npus", "8", "--grow", "1"), "--grow names the groups that join copies; expected --copies, too"),
        (("--npus", "8", "--copies", "--grow", "9"), "--grow 9: no collective of the traces runs in this process group; they have 'x'"),
    ],
)
def test_what_cannot_be_scaled_is_said(options: Sequence[str], message: str, astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [[collective(0, 64, pg_name="x")]] * 4)
    (tmp_path / "g.json").write_text('{"x": [0, 1, 2, 3]}')
    done = astra("trace", "scale", prefix, *options, "--groups", str(tmp_path / "g.json"), "--output", str(tmp_path / "out"))
    assert (done.status, done.error.startswith(message) or message in done.error) == (2, True), done.error
    assert not (tmp_path / "out").exists()


def test_groups_of_unknown_or_irregular_ranks_are_not_guessed(astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [[collective(0, 64, pg_name="x" if rank != 2 else "y")] for rank in range(4)])
    done = astra("trace", "scale", prefix, "--npus", "8", "--output", str(tmp_path / "out"))
    assert "but its ranks are unknown" in done.error
    (tmp_path / "t.groups.json").write_text('{"x": [0, 1, 3], "y": [2]}')
    done = astra("trace", "scale", prefix, "--npus", "8", "--output", str(tmp_path / "out"))
    assert "are 0, 1, 3, with no regular distance" in done.error


# -- Stats -------------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_nodes(tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", data_parallel, 4)
    result = figures(check(open_traces(prefix)))
    kinds = {kind.kind: kind.table() for kind in result.kinds}
    assert kinds["compute"]["nodes"] == 16
    assert kinds["compute"]["duration_ns"] == 4 * (5000 + 7000 + 9000 + 1000)
    assert kinds["all_reduce"]["bytes"] == 4 * ((1 << 20) + (1 << 16))
    assert kinds["all_reduce"]["size"] == {"least": 1 << 16, "median": 1 << 16, "most": 1 << 20}
    assert [(group.group, group.ranks, group.collectives, group.bytes) for group in result.groups] == [
        ("all ranks", (0, 1, 2, 3), 2, (1 << 20) + (1 << 16))
    ]
    assert result.ranks[3].compute_ns == result.ranks[3].chain_ns == 22000


def test_the_longest_chain_goes_through_messages_and_collectives(tmp_path: Path) -> None:
    """Rank 1 works 100 ns, sends to rank 0, which works 10 ns and reduces with rank 2, which then works 1000 ns."""
    ranks = [
        [receive(0, 1, 64), compute(1, 10, 0), collective(2, 64, 1)],
        [compute(0, 100), send(1, 0, 64, 0), collective(2, 64, 1)],
        [collective(0, 64), compute(1, 1000, 0)],
    ]
    prefix = write_ranks(tmp_path / "t", ranks)
    result = figures(check(open_traces(prefix)))
    assert result.chain_ns == 1110
    assert [(rank, duration) for rank, _, duration in result.chain] == [(1, 100), (0, 10), (2, 1000)]
    fast = "plugin:switch?size=3&link_bandwidth_gb_per_s=1e9&link_latency_ns=0"
    run = astra_sim.simulate(workload=prefix, platform=fast, system="plugin:astra2?endpoint_delay_ns=1")
    assert result.chain_ns <= run.finish_ns <= result.chain_ns + 50


@pytest.mark.parametrize("seed", range(6))
def test_no_run_is_shorter_than_the_longest_chain(seed: int, tmp_path: Path) -> None:
    import random

    chance = random.Random(seed)
    steps = [(chance.choice(["compute", "collective"]), chance.randrange(1, 9000)) for _ in range(12)]

    def nodes(rank: int) -> list[Node]:
        results: list[Node] = []
        for id_, (what, size) in enumerate(steps):
            after = chance.sample(range(id_), min(id_, chance.randrange(3)))
            if what == "collective" and id_:
                after = sorted({*after, max((n.id for n in results if n.type == NodeType.COMM_COLL_NODE), default=id_ - 1)})
            results.append(compute(id_, size * (1 + rank % 2), *after) if what == "compute" else collective(id_, 64 * size, *after))
        return results

    prefix = write_ranks(tmp_path / "t", nodes)
    result = figures(check(open_traces(prefix)))
    assert result.chain_ns is not None
    assert result.one_at_a_time_ns is not None
    assert simulate(prefix, 4).finish_ns >= result.chain_ns
    assert simulate(prefix, 4, system="plugin:astra2").finish_ns >= result.one_at_a_time_ns >= result.chain_ns


def test_the_bound_is_that_of_a_run_where_nodes_compute_one_at_a_time(astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [[compute(id_, 100_000) for id_ in range(3)] for _ in range(2)])
    bound = json.loads(astra("trace", "stats", prefix, "--json").out)["bound"]
    assert (bound["one_at_a_time_ns"], bound["chain_ns"], bound["one_at_a_time"]) == (300_000, 100_000, True)
    assert simulate(prefix, 2, system="plugin:astra2").finish_ns == 300_000
    assert simulate(prefix, 2, system="plugin:astra2?one_at_a_time=false").finish_ns == 100_000
    words = " ".join(astra("trace", "stats", prefix).out.split())
    assert "A run takes at least 100.000 us, the longest chain of compute through all ranks (1 nodes)." in words
    assert "The busiest unit of a rank computes for 300.000 us: a run takes that long if it computes one node at a time" in words


def test_a_circle_between_ranks_has_no_longest_chain(astra: Astra, tmp_path: Path) -> None:
    ranks = [[receive(0, 1 - r, 64), send(1, 1 - r, 64, 0)] for r in range(2)]
    prefix = write_ranks(tmp_path / "t", ranks)
    assert json.loads(astra("trace", "stats", prefix, "--json").out)["bound"]["chain_ns"] is None
    assert "There is no longest chain" in astra("trace", "stats", prefix).out


def test_stats_of_traces_that_cannot_be_read_are_an_error(astra: Astra, tmp_path: Path) -> None:
    prefix = write_ranks(tmp_path / "t", [data_parallel(rank) for rank in range(2)])
    file = tmp_path / "t.1.et"
    file.write_bytes(file.read_bytes()[:-3])
    done = astra("trace", "stats", prefix)
    assert (done.status, done.out) == (2, "")
    assert re.search(rf"{prefix}: rank 1: .*the file ends in the middle of a message.* \(astra trace check lists all", done.error)


def test_stats_fit_a_screen(astra: Astra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    prefix = write_ranks(tmp_path / "t", [[attrs.evolve(node) for node in data_parallel(rank)] for rank in range(20)])
    out = astra("trace", "stats", prefix).out
    assert max(map(len, out.splitlines())) <= 80
    assert "and 4 more (--all)" in out
    assert "A run takes at least 22.000 us" in " ".join(out.split())
    assert len(astra("trace", "stats", prefix, "--all").out.splitlines()) > len(out.splitlines())
