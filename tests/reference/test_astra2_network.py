"""The networks of ASTRA-sim 2.x under its collectives, to the last digit.

A small driver takes the place of the system layer: every NPU passes its chunks through their phases, in one queue for each dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from astra_sim.engine.interface import COLLECTIVE, PhaseStep, Task
from astra_sim.engine.orders import Job
from astra_sim.network import EventNetwork
from astra_sim.platform import LogicalDimension, Platform
from astra_sim.schedule import Collective, Request, Schedule, lower
from astra_sim.setup.components import build
from astra_sim.setup.engines import find_engine
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from support.references import reference_cases

ALGORITHMS = {"ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling"}
CASES = reference_cases("astra2.jsonl")
# Messages up to which a case is simulated by the Python engine, and at all: others take too long for a test.
FEASIBLE, LARGEST = 2_000, 50_000
AT_LEAST = {"ca_": 300, "md_": 300, "ua_": 700}
# On a congested torus the order counts in which different NPUs send in the same instant, and the engine's is another.
TIES = {
    f"md_3D_Ring4_Ring4_Ring4_{name}"
    for name in (
        "ag_1M_oneDirect_lbw_s1",
        "ag_1M_oneDirect_lbw_s16",
        "ag_1M_oneDirect_lbw_s4",
        "ar_1M_oneDirect_lbw_s4",
        "ar_64M_oneDirect_lbw_s4",
        "rs_64M_oneDirect_lbw_s4",
    )
}
Phase = tuple[Schedule, LogicalDimension]


def components(case: dict[str, Any], folder: Path) -> Any:
    """Platform and network of a case, from its file."""
    path = folder / "network.yml"
    path.write_text(case["network_yml"])
    experiment = Experiment()
    experiment.use("workload", "plugin:collective?bytes=1", shared_plugins())
    experiment.use("network", str(path), shared_plugins())
    experiment.set(f"network.congestion={case['backend'].removeprefix('congestion_')}")
    return build(experiment, shared_plugins())


def is_simple(case: dict[str, Any]) -> bool:
    """One collective of all NPUs, by algorithms that we have here."""
    system, workload = case["system_json"], case["workload"]
    if (
        case["status"] != "ok"
        or case.get("undefined_behaviour")
        or workload["kind"] != "collective"
        or case["cli"]
        or case["comm_group_json"]
    ):
        return False
    dimensions = case["network_yml"].splitlines()[0].count(",") + 1
    names = algorithms(case)
    return (
        all(name.removeprefix("one").lower() in map(str.lower, ALGORITHMS) for name in names)
        and (len(names) == dimensions or names[0].startswith("one"))
        and not system.get("model-shared-bus")
        and not system.get("inter-dimension-scheduling")
        and not system.get("intra-dimension-scheduling")
        and not any(key.endswith("implementation-custom") for key in system)
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


@functools.lru_cache(maxsize=1024)
def schedule_of(name: str, request: Request) -> Schedule:
    """The schedule of a collective algorithm with its defaults."""
    provider = shared_plugins().get("collective", name)
    factory, options = provider.load_factory(), provider.load_options()
    schedule: Schedule = factory(request, options()) if options else factory(request)
    return schedule


lowered = functools.lru_cache(maxsize=1024)(lower)


def phases(case: dict[str, Any], platform: Platform, size: int) -> Iterator[Phase]:
    """The phases of a chunk."""
    names = algorithms(case)
    collective = Collective(case["workload"]["collective"])
    logical = list(platform.logical_dimensions())
    if names[0].startswith("one"):
        names = [names[0].removeprefix("one")]
        names[0] = names[0][0].lower() + names[0][1:]
        logical = [platform.whole()]
    plan = [(collective, index, 1) for index in range(len(logical))]
    if collective is Collective.ALL_GATHER:
        plan.reverse()
    if collective is Collective.ALL_REDUCE and case["system_json"].get("collective-optimization") == "localBWAware":
        last = len(logical) - 1
        plan = [(Collective.REDUCE_SCATTER, index, 1) for index in range(last)]
        plan += [(Collective.ALL_REDUCE, last, 1)]
        plan += [(Collective.ALL_GATHER, index, -1) for index in reversed(range(last))]
    for kind, index, direction in plan:
        request = Request(kind, logical[index].size, size, direction)
        schedule = schedule_of(ALGORITHMS[names[index]], request)
        size = schedule.output_bytes
        yield schedule, logical[index]


def run(case: dict[str, Any], made: Any, name: str) -> Any:
    """The engine, after the collective."""
    system, platform = case["system_json"], made.platform

    def reduce_ps(size: int) -> int:
        return 3 * int(size / (system["local-mem-bw"] * 1e9) * 1e9) * 1000

    if isinstance(made.network, EventNetwork):
        made.network.begin()
    engine = find_engine(name)(platform.npus, made.network, system["endpoint-delay"] * 1000, reduce_ps, False, None)
    slots = system.get("active-chunks-per-dimension", 1)
    engine.add_queues([(slots, lambda jobs, running, job: len(jobs)) for _ in platform.dimensions])
    groups: dict[LogicalDimension, int] = {}
    schedules = []
    for schedule, dimension in phases(case, platform, chunks(case)[0]):
        if dimension not in groups:
            groups[dimension] = engine.add_groups(dimension.groups(platform.npus), dimension)
        schedules.append((engine.add_schedule(lowered(schedule), groups[dimension]), dimension.physical or 0))
    issued = [
        [PhaseStep(Job(0, "", 0, 0), queue=queue, phase=engine.add_phase(schedule, together=False)) for schedule, queue in schedules]
        for _ in chunks(case)
    ]
    engine.add_program([Task(COLLECTIVE, 0)], range(platform.npus), lambda task, now: issued)
    engine.run()
    assert not engine.record.unfinished()
    return engine


def messages(case: dict[str, Any], platform: Platform) -> int:
    """Messages that a case sends."""
    sent = [
        schedule.total_messages() * (platform.npus // dimension.size) for schedule, dimension in phases(case, platform, chunks(case)[0])
    ]
    return sum(sent) * len(chunks(case))


@pytest.mark.skipif(not CASES, reason="no reference cases of ASTRA-sim 2.x")
@pytest.mark.parametrize("prefix", ["ca_", "md_", "ua_"])
def test_collectives_finish_when_those_of_astra_sim_do(prefix: str, tmp_path: Path) -> None:
    """On every NPU where the Python engine is fast enough, else the last one."""
    checked, in_python, wrong = 0, 0, []
    for case in CASES:
        if not case["id"].startswith(prefix) or not is_simple(case):
            continue
        result = components(case, tmp_path)
        count, expected = messages(case, result.platform), case["finish_cycles_per_sys"]
        if count > LARGEST:
            continue
        checked += 1
        if count <= FEASIBLE:
            in_python += 1
            engine = run(case, result, "python")
            times = [engine.record.times(npu)[1][0] // 1000 for npu in range(result.platform.npus)]
            right = (min(times), max(times), expected.get("list", times)) == (expected["min"], expected["max"], times)
        else:
            right = run(case, result, "auto").now // 1000 == expected["max"]
        if not right:
            wrong.append(case["id"])
    assert set(wrong) <= TIES
    assert in_python > checked // 4
    assert checked >= AT_LEAST[prefix]
