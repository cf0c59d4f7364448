"""`astra memory --search` on random experiments: what it lists fits and runs as it says, and it misses nothing that is faster.

What fits is what a run accepts: the fullest rank needs no more than the device's memory less the margin. A run with exactly that room is
accepted, and one with less refused. A combination takes no less than the bound by which others are left out, and the first ones are those
of a search that simulates all.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim.commands import shared_plugins
from astra_sim.providers import options_of
from astra_sim_llm.bounds import LeastTime
from astra_sim_llm.memory_command import AXES, memory, read_case
from astra_sim_llm.plan import make_plan
from click.testing import CliRunner

IN_TESTS = 3
IN_NIGHTLY = 100

GIB = 2**30


def check(seed: int, folder: Path) -> list[str]:
    """A search of all, one of the fastest, and runs at the edge of the memory."""
    random = Random(seed)
    path = folder / "experiment.toml"
    path.write_text(_experiment(random), encoding="utf-8")
    keep = [f"--keep={name}" for name in AXES if random.random() < 0.5]
    margin = random.choice((0.0, 0.125, 5.0))
    room = random.choice((0.02, 0.05, 70.0))
    arguments = (str(path), "--search", f"--capacity={margin + room}", "--set", f"workload.memory_margin={margin}", *keep, "--json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        everything, few = (_table(*arguments, "--limit", limit) for limit in ("100000", "3"))
        if not everything:
            return []
        return [*_listed(path, everything, few, room), *_bounds(path, everything), *_edge(path, everything)]


def _experiment(random: Random) -> str:
    experts = random.random() < 0.3
    extra = "experts = 4, top_k = 2, expert_ffn = 64, " if experts else ""
    sequence = random.choice((512, 8192))
    lines = [
        f'platform = "plugin:dgx_a100?nodes={random.choice((1, 2))}&gpus={random.choice((2, 4))}"',
        'compute = "plugin:gpu?device=a100-80"',
        'system = "plugin:astra2"',
        "[workload]",
        'plugin = "llm"',
        f"global_batch = {random.choice((8, 16))}",
        f"zero = {random.choice((0, 1, 2))}",
        f"overlap = {{ dp = {str(random.random() < 0.5).lower()}, p2p = {str(random.random() < 0.5).lower()} }}",
        f"model = {{ layers = {random.choice((2, 4))}, hidden = 256, heads = 4, vocab = 512, {extra}sequence = {sequence} }}",
    ]
    if random.random() < 0.3:
        lines.append(f'schedule = "{random.choice(("1f1b", "gpipe", "zb-h1"))}"')
        lines = [line.replace("zero = 2", "zero = 1") for line in lines]
    return "\n".join(lines) + "\n"


def _table(*arguments: str) -> dict[str, Any]:
    """What a search says; nothing where no combination runs at all."""
    done = CliRunner().invoke(memory, arguments)
    if isinstance(done.exception, astra_sim.InputError):
        return {}
    if done.exception is not None:
        raise done.exception
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _listed(path: Path, everything: dict[str, Any], few: dict[str, Any], room: float) -> list[str]:
    """Both searches list the same fastest, which fit, and run as they say."""
    results = []
    times = [[one["iteration_s"] for one in each["combinations"]] for each in (everything, few)]
    if times[0][: len(times[1])] != times[1] or len(times[1]) != min(3, len(times[0])):
        results.append(f"the fastest are {times[0][:3]}; the search of these alone finds {times[1]}")
    if not everything["tried"] >= everything["fitting"] == everything["simulated"] + everything["refused"]:
        results.append(f"{everything['tried']} tried, {everything['fitting']} fit, {everything['simulated']} simulated")
    results += [
        f"{one['memory_bytes']} bytes in {room} GiB: {one['options']}"
        for one in everything["combinations"]
        if one["memory_bytes"] > room * GIB
    ]
    for one in few["combinations"]:
        result = astra_sim.simulate(str(path), workload={"plugin": "llm", **one["options"]})
        if (result.iteration_s, result.memory_bytes) != (one["iteration_s"], one["memory_bytes"]):
            results.append(
                f"listed with {one['iteration_s']} s, {one['memory_bytes']} bytes; runs in {result.iteration_s}, {result.memory_bytes}"
            )
    return results


def _bounds(path: Path, everything: dict[str, Any]) -> list[str]:
    """No combination is faster than its bound."""
    case = read_case(str(path), {}, (), None)
    least = LeastTime(case.plan, case.durations.of_run)
    result = []
    for one in everything["combinations"]:
        options = options_of(shared_plugins().get("workload", "llm"), one["options"], "workload")
        bound = least(make_plan(options, case.npus).setup)
        if bound > one["iteration_s"] * (1 + 1e-9):
            result.append(f"bound {bound} s, simulated {one['iteration_s']} s: {one['options']}")
    return result


def _edge(path: Path, everything: dict[str, Any]) -> list[str]:
    """A run of the first combination is accepted where its memory is just there, and refused where a little is missing."""
    result = []
    for one in everything["combinations"][:1]:
        free = 80 * GIB - one["memory_bytes"]
        for more, accepted in ((-1024, True), (1024, False)):
            options = one["options"] | {"check_memory": True, "memory_margin": (free + more) / GIB}
            try:
                astra_sim.simulate(str(path), workload={"plugin": "llm", **options})
                runs = True
            except astra_sim.CapacityError:
                runs = False
            if runs is not accepted:
                result.append(f"{more} bytes beyond the margin: {'accepted' if runs else 'refused'}")
    return result
