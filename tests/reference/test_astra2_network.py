"""The networks of ASTRA-sim 2.x under its collectives, of one chunk after another, to the last digit.

A small driver takes the place of the system layer: every NPU passes each chunk through its phases, one chunk at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import astra_sim
import pytest
from astra_sim.components import build
from astra_sim.engine import COLLECTIVE, Job, Part, Task, choose_engine
from astra_sim.experiment import Experiment
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.plugins import shared_plugins
from astra_sim.schedule import Collective, Request, Schedule, lower
from astra_sim.system import System
from conftest import reference_cases

ALGORITHMS = {"ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling"}
CASES = reference_cases("astra2.jsonl")
Phase = tuple[Schedule, LogicalDimension]


def components(case: dict[str, Any], folder: Any) -> Any:
    """Platform and network of a case, from its file."""
    path = folder / "network.yml"
    path.write_text(case["network_yml"])
    experiment = Experiment()
    experiment.use("workload", "plugin:collective?bytes=1", shared_plugins())
    experiment.use("network", str(path), shared_plugins())
    experiment.set(f"network.congestion={case['backend'].removeprefix('congestion_')}")
    return build(experiment, shared_plugins())


def is_simple(case: dict[str, Any]) -> bool:
    """One collective, of one chunk, or on one dimension with one chunk at a time; and algorithms that we have here."""
    system, workload = case["system_json"], case["workload"]
    if case["status"] != "ok" or case.get("undefined_behaviour") or workload["kind"] != "collective" or case["cli"] or case["comm_group_json"]:
        return False
    dimensions = case["network_yml"].splitlines()[0].count(",") + 1
    names = algorithms(case)
    one_chunk = len(chunks(case)) == 1
    return (
        (one_chunk or (dimensions == 1 and system.get("active-chunks-per-dimension") == 1))
        and all(name.removeprefix("one").lower() in map(str.lower, ALGORITHMS) for name in names)
        and (len(names) == dimensions or names[0].startswith("one"))
        and not system.get("model-shared-bus")
        and not any(key.endswith("implementation-custom") for key in system)
        and not system.get("roofline-enabled")
    )


def algorithms(case: dict[str, Any]) -> list[str]:
    key = case["workload"]["collective"].replace("_", "-") + "-implementation"
    names: list[str] = case["system_json"].get(key, ["?"])
    return names


def chunks(case: dict[str, Any]) -> list[int]:
    """Bytes of the chunks of the collective."""
    workload = case["workload"]
    size, npus = workload["bytes"], workload["npus"]
    splits = case["system_json"].get("preferred-dataset-splits", 1)
    chunk = size // splits
    if workload["collective"] != "all_gather" and chunk < npus:
        chunk, size = npus, splits * npus
    return [chunk] * -(-size // chunk)


def algorithm(name: str) -> Callable[[Request], Schedule]:
    """A collective algorithm with its defaults."""
    provider = shared_plugins().get("collective", name)
    factory, options = provider.load_factory(), provider.load_options()
    return (lambda request: factory(request, options())) if options else factory


def phases(case: dict[str, Any], platform: Platform, size: int) -> Iterator[Phase]:
    """The phases of a chunk."""
    names = algorithms(case)
    collective = Collective(case["workload"]["collective"])
    logical = list(platform.logical_dimensions())
    if names[0].startswith("one"):
        names = [names[0].removeprefix("one")]
        names[0] = names[0][0].lower() + names[0][1:]
        logical = [platform.whole()]
    plan = [(collective, index) for index in range(len(logical))]
    if collective is Collective.ALL_GATHER:
        plan.reverse()
    if collective is Collective.ALL_REDUCE and case["system_json"].get("collective-optimization") == "localBWAware":
        last = len(logical) - 1
        plan = [(Collective.REDUCE_SCATTER, index) for index in range(last)]
        plan += [(Collective.ALL_REDUCE, last)]
        plan += [(Collective.ALL_GATHER, index) for index in reversed(range(last))]
    for kind, index in plan:
        request = Request(kind, logical[index].size, size)
        made = algorithm(ALGORITHMS[names[index]])(request)
        size = made.output_bytes
        yield made, logical[index]


def finish_times(case: dict[str, Any], made: Any, engine_name: str) -> list[int]:
    """When each NPU has finished, in nanoseconds."""
    system, platform = case["system_json"], made.platform
    memory = system["local-mem-bw"]

    def reduce_ps(size: int) -> int:
        return 3 * int(size / (memory * 1e9) * 1e9) * 1000

    made.network.begin() if hasattr(made.network, "begin") else None
    engine = choose_engine(engine_name)(platform.npus, made.network, system["endpoint-delay"] * 1000, reduce_ps, False, None)
    engine.add_queues([(1, lambda jobs, running, job: len(jobs))])
    groups: dict[LogicalDimension, int] = {}
    issued = []
    for size in chunks(case):
        parts = []
        for schedule, dimension in phases(case, platform, size):
            if dimension not in groups:
                groups[dimension] = engine.add_groups(dimension.groups(platform.npus), dimension)
            phase = engine.add_phase(engine.add_schedule(lower(schedule), groups[dimension]), together=False)
            parts.append(Part(Job(0, "", 0, 0), queue=0 if len(chunks(case)) > 1 else -1, phase=phase))
        issued.append(parts)
    engine.add_program([Task(COLLECTIVE, 0)], range(platform.npus), lambda task, now: issued)
    engine.run()
    assert not engine.unfinished()
    return [engine.times(npu)[1][0] // 1000 for npu in range(platform.npus)]
