"""Results of experiments with input files: moved together they give the same figures again, and no change of a file is silent."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import astra_sim
from astra_sim.errors import InputWarning
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes
from support import figures

IN_TESTS = 6
IN_NIGHTLY = 200


def check(seed: int, folder: Path) -> list[str]:
    """Run a random experiment with traces or a graph, move it with its result, run it again, and then change one of its files."""
    draw = random.Random(seed)
    inputs = folder / "before" / draw.choice(["", "inputs", "a/b", "with space"])
    inputs.mkdir(parents=True)
    arguments, files = _experiment(draw, inputs)
    result = astra_sim.simulate(**arguments)
    out = folder / "before" / draw.choice(["out", "x/y/out"])
    astra_sim.write_reports(result, out, reports=())
    moved = (folder / "before").rename(folder / "after")
    out = moved / out.relative_to(folder / "before")
    changed = [moved / file.relative_to(folder / "before") for file in files]
    results = []
    again, outcome = _again(out)
    if outcome:
        results.append(f"unchanged files are said to have changed: {outcome}")
    if figures(again) != figures(result):
        results.append("a result that was moved with its files gives others")
    (changed[0].parent / "tracer.0.et").write_bytes(b"of something else")
    if _again(out)[1]:
        results.append("a file of another name counts as an input")
    victim = draw.choice(changed)
    _change(victim)
    _, outcome = _again(out)
    if not any(victim.name in line for line in outcome):
        results.append(f"the change of {victim.name} is silent: {outcome}")
    return results


def _again(out: Path) -> tuple[astra_sim.Result, list[str]]:
    """Run a result again; with it what is said of its files."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        result = astra_sim.simulate(out)
    return result, [str(each.message) for each in caught if "not those of the result" in str(each.message)]


def _experiment(draw: random.Random, folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """The arguments of an experiment, and the files that it names."""
    npus = draw.randrange(3, 7)
    files: list[Path] = []
    arguments: dict[str, Any] = {
        "system": "plugin:astra2",
        "network": "plugin:analytical?congestion=aware",
        "workload": f"plugin:collective?bytes={draw.randrange(1, 1 << 20)}",
    }
    has_graph, has_traces = draw.choice([(True, False), (False, True), (True, True)])
    arguments["platform"] = f"plugin:ring?size={npus}&links=2&link_bandwidth_gb_per_s={draw.randrange(1, 100)}&link_latency_ns=100"
    if has_graph:
        links = "".join(f"{n},{(n + 1) % npus},{draw.randrange(1, 100)},100\n" for n in range(npus))
        files.append(folder / "links.csv")
        files[-1].write_text("source,target,bandwidth_gb_per_s,latency_ns\n" + links)
        arguments["platform"] = f"plugin:graph?file={files[-1]}"
    if has_traces:
        for rank in range(npus):
            files.append(folder / f"trace.{rank}.et")
            _write_trace(files[-1], draw.randrange(1, 10_000))
        arguments["workload"] = {"plugin": "chakra", "prefix": str(folder / "trace")}
    return arguments, files


def _write_trace(path: Path, duration_ns: int, name: str = "reduce") -> None:
    compute = Node(id=0, type=NodeType.COMP_NODE, duration_ns=duration_ns)
    reduce = Node(id=1, type=NodeType.COMM_COLL_NODE, name=name, data=(0,), comm_type=CollectiveType.ALL_REDUCE, comm_size=4096)
    write_nodes(path, [compute, reduce])


def _change(path: Path) -> None:
    """Change a file so that it can still be read."""
    if path.suffix == ".csv":
        path.write_text(path.read_text() + "\n")
    else:
        _write_trace(path, 77_777, "other")
