"""A capture of eight ranks scaled to sixteen (`astra trace scale`) against a capture of sixteen: what is equal, and what is not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from astra_sim.command import cli
from astra_sim_chakra import Node, load_trace
from click.testing import CliRunner
from support import ROOT
from support.torch_scripts import capture, needs_torch

EXPERIMENT = """
name = "gpt"

[workload]
plugin = "torch_capture"
path = "{path}"

[platform]
plugin = "switch"
size = {npus}
link_bandwidth_gb_per_s = 50
link_latency_ns = 500

[compute]
plugin = "roofline"
peak_tera_ops_per_s = 100
memory_bandwidth_gb_per_s = 1000
"""
OF_SHARES = ("all_gather_copy_in", "_foreach_", "_fused_")
"""Kernels on what a rank has of a sharded model: FSDP's copy of its shard, and the optimizer."""


def traces(path: Path, npus: int, folder: Path) -> Path:
    """The Chakra traces of a capture, as a prefix."""
    (folder / f"of_{npus}.toml").write_text(EXPERIMENT.format(path=path, npus=npus))
    words = ["convert", str(folder / f"of_{npus}.toml"), str(folder / f"of_{npus}.et"), "--quiet"]
    done = CliRunner().invoke(cli.astra, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return folder / f"of_{npus}"


def nodes_of(prefix: Path, rank: int) -> list[Node]:
    return list(load_trace(f"{prefix}.{rank}.et").nodes())


def calls(prefix: Path, rank: int) -> list[tuple[Any, ...]]:
    """Operation, bytes and group of each collective of a rank."""
    path = Path(f"{prefix}.groups.json")
    groups = json.loads(path.read_text()) if path.exists() else {}
    return [(node.comm_type, node.comm_size, groups.get(node.pg_name)) for node in nodes_of(prefix, rank) if node.comm_type is not None]


def compute(prefix: Path) -> Counter[str]:
    """The time of rank 0 in each operator, in nanoseconds."""
    result = Counter[str]()
    for node in nodes_of(prefix, 0):
        if node.comm_type is None:
            result[node.name.partition(" ")[0]] += node.duration_ns or 0
    return result


@needs_torch
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "fsdp_tp"])
def test_scaled_ranks_do_what_captured_ones_do(parallel: str, tmp_path: Path) -> None:
    """Calls and groups are equal, but for the padding of shards, by at most a row of each; compute, but for kernels on shares."""
    done = capture("--world", "16", "-o", tmp_path / "of_16", "--", ROOT / "examples/pytorch/gpt.py", "--parallel", parallel)
    assert done.exit_code == 0, done.output
    captured = traces(tmp_path / "of_16", 16, tmp_path)
    few = traces(ROOT / f"examples/pytorch/gpt_{parallel}", 8, tmp_path)
    done = CliRunner().invoke(cli.astra, ["trace", "scale", str(few), "--npus", "16", "--output", str(tmp_path / "scaled")])
    assert done.exit_code == 0, done.output
    assert "compute stays as on 8 ranks" in done.output
    scaled = tmp_path / "scaled" / "of_8"
    for rank in (0, 1, 7, 15):
        ours, theirs = calls(scaled, rank), calls(captured, rank)
        assert [(kind, group) for kind, _, group in ours] == [(kind, group) for kind, _, group in theirs]
        if parallel == "ddp":
            assert ours == theirs
        for (_, size, _), (_, padded, _) in zip(ours, theirs, strict=True):
            assert size <= padded <= 1.02 * size
    times, expected = compute(scaled), compute(captured)
    differing = {name for name in expected if abs(times[name] - expected[name]) > 0.02 * expected[name]}
    assert all(name.startswith(OF_SHARES) for name in differing)
    assert (parallel == "ddp") == (not differing)
