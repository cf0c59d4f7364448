"""Synthesized collectives on random fabrics: each is proved by the kit, is no faster than the bound, and no slower than `auto`.

A case is a fabric of one or two dimensions or a random graph with links of unlike bandwidth, a collective and its bytes. What the plan
writes in the format of MSCCL is read again, and the kit proves that, too.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

from astra_sim.commands import shared_plugins
from astra_sim.errors import InputError
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.testing import check_schedule
from astra_sim_collectives.msccl import MscclOptions, msccl
from astra_sim_synthesis import msccl_xml
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.synthesis import NETWORK, Synthesizer

IN_TESTS = 12
IN_NIGHTLY = 200


def check(seed: int, folder: Path) -> list[str]:
    """Plan the case of a seed."""
    random = Random(seed)
    fabric, collective = _fabric(random, folder), random.choice([*Collective])
    size = int(2 ** random.uniform(10, 26))
    judge = Judge.of(fabric, random.choice((NETWORK, NETWORK, "plugin:flow")), None, shared_plugins())
    method = random.choice(("fastest", "fastest", "fastest", "exchanges" if collective is Collective.ALL_TO_ALL else "matching"))
    try:
        plan = Synthesizer(judge, method).plan(collective, size)
    except InputError as error:  # some fabrics have no plan of that kind
        return [] if f"by {method}" in str(error) else [f"{collective} of {size} bytes on {fabric}: {error}"]
    wrong = _proof(plan.designed, plan.request, "the plan")
    path = folder / "plan.xml"
    path.write_text(msccl_xml(plan.designed, plan.request, "plan"))
    wrong += _proof(msccl(plan.request, MscclOptions(file=str(path))), plan.request, "the file")
    if plan.time_ns < plan.bound.time_ns * (1 - 1e-6):
        wrong.append(f"{plan.time_ns} ns by {plan.method}, below the bound {plan.bound}")
    if method == "fastest" and plan.time_ns > plan.auto_ns * (1 + 1e-9):
        wrong.append(f"{plan.time_ns} ns by {plan.method}, and auto takes {plan.auto_ns}")
    again = judge.time_ns(plan.schedule, collective, plan.request.bytes)
    if again > plan.time_ns * 1.001 + 100:
        wrong.append(f"{plan.time_ns} ns by {plan.method}, and its schedule takes {again}")
    return [f"{collective} of {size} bytes on {fabric}: {line}" for line in wrong]


def _proof(schedule: Schedule, request: Request, what: str) -> list[str]:
    try:
        check_schedule(schedule, request)
    except AssertionError as error:
        return [f"{what}: {error}"]
    return []


def _fabric(random: Random, folder: Path) -> str:
    if random.random() < 0.4:
        return _graph(random, folder)
    size, other = random.randint(2, 12), random.randint(2, 4)
    link = f"link_bandwidth_gb_per_s={random.choice((12.5, 50, 200))}&link_latency_ns={random.choice((0, 50, 2000))}"
    fabric = random.choice(
        (
            f"ring?size={size}&links=2",
            f"switch?size={size}",
            f"fully_connected?size={size}&links={size - 1}",
            f"mesh?sizes={other},{random.randint(2, 4)}",
            f"torus?sizes={other},{random.randint(2, 4)}",
            f"fat_tree?arity=2&levels={random.randint(2, 3)}",
            f"dragonfly?routers=2&npus={random.randint(1, 2)}&groups=3",
            f"hyperx?sizes={other},2&npus={random.randint(1, 2)}",
        )
    )
    return f"plugin:{fabric}&{link}"


def _graph(random: Random, folder: Path) -> str:
    """NPUs in a chain, some further links, and perhaps a switch, each of its own bandwidth; some links go one way."""
    npus, lines = random.randint(3, 10), ["source,target,bandwidth_gb_per_s,latency_ns,both_ways"]
    order = random.sample(range(npus), npus)
    pairs = dict.fromkeys(itertools.pairwise(order), True)
    for _ in range(random.randint(0, 2 * npus)):
        a, b = random.sample(range(npus), 2)
        if (a, b) not in pairs and (b, a) not in pairs:
            pairs[a, b] = random.random() < 0.8
    rows = [(str(a), str(b), both) for (a, b), both in pairs.items()]
    if random.random() < 0.4:
        rows += [(str(npu), "switch", True) for npu in random.sample(range(npus), random.randint(2, npus))]
    for one, other, both in rows:
        lines.append(f"{one},{other},{random.choice((10, 25, 100, 400))},{random.choice((0, 100, 1000))},{str(both).lower()}")
    path = folder / "graph.csv"
    path.write_text("\n".join(lines) + "\n")
    return f"plugin:graph?file={path}"
