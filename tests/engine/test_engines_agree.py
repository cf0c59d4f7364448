"""The compiled engine and the Python engine give the same results, and every run of an engine the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.engine.interface import SEND
from astra_sim.setup.engines import find_engine
from astra_sim.setup.plugins import shared_plugins
from astra_sim_devkit.testing.engine_graphs import RandomGraph, differing
from support import ROOT, figures
from support.networks import Lossy

EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
RING = "plugin:ring?size=16&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
GRAPHS = int(os.environ.get("ASTRA_RANDOM_GRAPHS", "4000"))


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part: int) -> None:
    assert differing(find_engine("compiled"), part * GRAPHS // 4, GRAPHS // 4) == []


def test_random_graphs_are_of_all_kinds() -> None:
    """Runs that finish, get stuck and fail; with messages on every kind of network, on a bus, and under rendezvous."""
    seen: set[object] = set()
    for seed in range(400):
        graph = RandomGraph(seed)
        answer = graph.run(find_engine("compiled"))
        if isinstance(answer[0], str):
            seen.add(answer[0])
            continue
        seen |= {"shared"} if graph.shares and len(graph.programs) > 1 else set()
        seen |= {"repeated"} if max(answer[7], default=0) > 1 else set()
        outcome = "stuck" if answer[9] else "done"
        letters = any(task.kind == SEND for tasks, _ in graph.programs for task in tasks)
        seen |= {(outcome, graph.processors.is_shared, "overheads")} if answer[2] and graph.processors.has_overheads else set()
        if answer[2]:
            seen |= {(outcome, graph.network_kind), (outcome, "bus" in graph.options), (outcome, graph.options["rendezvous"], "rendezvous")}
            seen.add((outcome, letters, "letters"))
    assert {"UnlikeCollectivesError", "shared", "repeated"} <= seen
    assert len(seen - {"UnlikeCollectivesError", "shared", "repeated"}) == 2 * (3 + 2 + 2 + 2 + 2)


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("path", [path for path in EXAMPLES if "dgx2" in path.name], ids=lambda path: path.stem)
def test_examples(path: Path, symmetry: bool) -> None:
    if not symmetry:
        platform = "plugin:ring?size=16&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
        python, compiled = (astra_sim.simulate(path, platform=platform, symmetry=False, engine=name) for name in ("python", "compiled"))
    else:
        python, compiled = (astra_sim.simulate(path, engine=name) for name in ("python", "compiled"))
    assert figures(python) == figures(compiled)


def test_what_cannot_finish_is_the_same_error() -> None:
    from astra_sim.setup.components import build
    from astra_sim.setup.experiment import Experiment
    from astra_sim.setup.plugins import shared_plugins

    experiment = Experiment()
    experiment.use("platform", RING, shared_plugins())
    experiment.use("workload", "plugin:collective?bytes=1", shared_plugins())
    inner: Any = build(experiment, shared_plugins()).network
    result = []
    for name in ("python", "compiled"):
        with pytest.raises(astra_sim.DeadlockError) as caught:
            astra_sim.simulate(workload="plugin:collective?bytes=64000", network=Lossy(inner), engine=name)
        result.append((str(caught.value), caught.value.waiting))
    assert result[0] == result[1]
    assert "waits for a message of" in result[0][0]


def test_three_runs_give_the_same_bytes(tmp_path: Path) -> None:
    outputs = []
    for number in range(3):
        folder = tmp_path / str(number)
        command = [sys.executable, "-m", "astra_sim", "--workload", "plugin:collective?bytes=1000003&collective=all_to_all"]
        command += ["--platform", RING, "--no-symmetry", "--set", "system.splits=3", "--json", "--output", str(folder)]
        variables = {**os.environ, "PYTHONHASHSEED": str(number)}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout)
        del result["wall_s"], result["invocation"]
        outputs.append((result, {path.name: path.read_bytes() for path in folder.glob("*.csv")}))
    assert outputs[0] == outputs[1] == outputs[2]
    assert outputs[0][1]


def test_an_engine_that_is_not_there_is_an_error() -> None:
    with pytest.raises(astra_sim.InputError, match=r"engine.*'fast'"):
        astra_sim.simulate(workload="plugin:collective?bytes=1", platform=RING, engine="fast")


def test_without_a_compiled_module_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = figures(astra_sim.simulate(workload="plugin:collective?bytes=1000", platform=RING))
    monkeypatch.setattr(shared_plugins(), "_offers", {**shared_plugins()._offers, "engine": {}})
    assert figures(astra_sim.simulate(workload="plugin:collective?bytes=1000", platform=RING)) == expected
    with pytest.raises(astra_sim.InputError, match="compiled"):
        astra_sim.simulate(workload="plugin:collective?bytes=1000", platform=RING, engine="compiled")
