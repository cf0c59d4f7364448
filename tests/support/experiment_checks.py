"""What must hold for random experiments, and the command that runs them.

`python3 dev.py random [N] [FIRST]` runs N of them (1000) from seed FIRST (0) on, and prints what does not hold. An experiment runs with
and without symmetry, on the Python and on the compiled engine:

* Every figure of the result is the same in all four runs: JSON, tables, timeline, CSV files, when each NPU had finished. An experiment
  that cannot run fails in all four with the same kind of error, on both engines with the same words.
* Bytes are conserved: what NPUs hand to the network, counted where it is handed over, is what schedules, sends and requests say, all NPUs
  together; what NPU 0 hands over, by dimension, is what the result says of it.
* No network but the formula is faster than the capacity of links allows, and the audit agrees.
* The last NPU to finish is the end of the run, and what NPUs sent is what dimensions and links carried.
* The same experiment again, after others in the same process and with other threads, has the same figures.
* Other numbers of NPUs change nothing but numbers, where that is a theorem (see `Experiment.renumbered`).
* Twice the bandwidth is never slower, where that is a theorem (see `Experiment.is_monotone`).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import astra_sim
import attrs
from astra_sim import AstraError
from astra_sim.api import run_components
from astra_sim.engine.interface import CONTROL_BYTES
from astra_sim.graph import Communicate, Send
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Group
from astra_sim.report.details import RunDetails
from astra_sim.schedule import Schedule
from astra_sim.setup.components import Components, build
from astra_sim.setup.experiment import Experiment as Sections
from astra_sim.setup.plugins import shared_plugins
from astra_sim.system import PhasePlan
from astra_sim_reports_astra1 import tables as csv_tables
from astra_sim_reports_astra1.utilisation import dimension_utilization

from support.link_bounds import link_needs
from support.random_experiments import Experiment

RUNS = [(engine, symmetry) for symmetry in (True, False) for engine in ("compiled", "python")]

# -- counting bytes ----------------------------------------------------------------------------------------------------


@attrs.define
class Handed:
    """What NPUs hand to a network: messages, bytes, messages by ends and size, and bytes of NPU 0 in each dimension."""

    messages: int = 0
    bytes: int = 0
    between: Counter[tuple[int, int, int]] = attrs.field(factory=Counter)
    of_first: Counter[int] = attrs.field(factory=Counter)


def count_handed(components: Components) -> Handed:
    """Count from now on what the Python engine hands to the network of a run, message by message."""
    handed, network, platform = Handed(), components.network, components.platform

    def handle(source: int, destination: int, size: int) -> None:
        handed.messages += 1
        handed.bytes += size
        handed.between[source, destination, size] += 1
        if source == 0:
            crossed = [i for i in range(len(platform.dimensions)) if platform.coordinate(0, i) != platform.coordinate(destination, i)]
            handed.of_first[crossed[0] if _goes_first(components) else crossed[-1]] += size

    if isinstance(network, RouteDelayNetwork):
        delay_of = network.message_delay

        def message_delay(source: int, destination: int, size: int) -> int:
            handle(source, destination, size)
            return delay_of(source, destination, size)

        network.message_delay = message_delay  # type: ignore[method-assign]
    else:
        assert isinstance(network, EventNetwork)
        hand_over = network.inject

        def inject(time: int, messages: Sequence[Message]) -> None:
            for message in messages:
                handle(message.source, message.destination, message.bytes)
            hand_over(time, messages)

        network.inject = inject  # type: ignore[method-assign]
    return handed


def _goes_first(components: Components) -> bool:
    """Whether a message counts in the first dimension that it crosses."""
    return isinstance(components.network, EventNetwork) or components.network.accounting_dimension == "lowest"


def said(components: Components, result: astra_sim.Result) -> tuple[int, int]:
    """The messages and bytes of all NPUs, as schedules, sends and requests say.

    Collectives over dimensions are those of NPU 0, for all NPUs take part in them. Those of a group are planned once more here, by its
    first member.
    """
    messages = size = 0
    assert isinstance(result._details, RunDetails)
    for record in result._details._run.phases:
        if not isinstance(record.plan.logical, Group):
            count, amount = _of_phase(record.plan)
            groups = components.platform.npus // record.plan.logical.size
            messages, size = messages + groups * count, size + groups * amount
    session = components.system.session(components.graph.dimensions)
    for program in components.graph.programs(components.platform.npus):
        for operation in program.operations:
            if isinstance(operation, Send):
                messages, size = messages + len(program.npus), size + operation.bytes * len(program.npus)
            elif isinstance(operation, Communicate) and operation.group is not None and operation.group[0] in program.npus:
                for chunk in session.issue(operation, 0):
                    for plan in chunk.phases:
                        count, amount = _of_phase(plan) if isinstance(plan.logical, Group) else (0, 0)
                        messages, size = messages + count, size + amount
    return (2 * messages, size + CONTROL_BYTES * messages) if components.system.rendezvous else (messages, size)


def _of_phase(plan: PhasePlan) -> tuple[int, int]:
    """Messages and bytes that all ranks of one group send in a phase."""
    schedule: Schedule = plan.schedule
    steps = [step for rank in range(schedule.ranks) for step in schedule.program(rank).steps if step.send_to is not None]
    return sum(step.times for step in steps), sum(step.times * step.bytes for step in steps)


# -- running -----------------------------------------------------------------------------------------------------------


def components_of(options: Mapping[str, Any], engine: str, symmetry: bool) -> Components:
    """The components of a run."""
    return experiment_of(options, engine, symmetry)[1]


def experiment_of(options: Mapping[str, Any], engine: str, symmetry: bool) -> tuple[Sections, Components]:
    """An experiment, and the components of its run."""
    sections = Sections()
    for kind in ("workload", "platform", "network", "system", "memory"):
        if kind in options:
            sections.use(kind, options[kind], shared_plugins(), where=kind)
    if "groups" in options:
        sections.choose("groups", options["groups"])
    sections.run.update({name: value for name, value in options.items() if name not in (*sections.sections, "groups")})
    sections.run.update(engine=engine, symmetry=symmetry)
    return sections, build(sections, shared_plugins())


def figures(result: astra_sim.Result) -> dict[str, Any]:
    """Every figure of the simulated system, in all the forms in which a result gives it."""
    table = result.to_dict()
    tables = result.tables()
    del tables["run"]
    for name in ("wall_s", "simulated_npus", "every_npu_reason", "events", "experiment", "versions", "inputs"):
        del table[name]
    table["network"] = {name: value for name, value in table["network"].items() if name != "simulated_npus"}
    reports = ("end_to_end", "detailed", "backend_end_to_end", "backend_dim_info", "tutorial_result")
    return {
        "json": table,
        "tables": tables,
        "busy_ns": result.busy_ns,
        "npu_finish_ns": result.npu_finish_ns,
        "csv": {name: "".join(getattr(csv_tables, name)([result])) for name in reports},
        "series": "".join(dimension_utilization(result)),
        "network": result.network_reports(),
    }


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two figures differ, by their path."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [line for key in a for line in differences(a[key], b[key], f"{where}.{key}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [line for place, (x, y) in enumerate(zip(a, b, strict=True)) for line in differences(x, y, f"{where}[{place}]")]
    return [] if a == b else [f"{where or 'answer'}: {str(a)[:100]} and {str(b)[:100]}"]


@attrs.define
class Outcome:
    """What an experiment came to: "finished", or the kind of its error; and what does not hold."""

    end: str
    violations: list[str]
    checked_bandwidth: bool = False
    checked_numbers: bool = False


def check(seed: int, folder: Path, kind: type[Experiment] = Experiment) -> Outcome:
    """Run the experiment of a seed in all ways."""
    experiment = kind(seed, folder)
    answers: dict[tuple[str, bool], Any] = {}
    violations: list[str] = []
    finish_ns = 0.0
    for engine, symmetry in RUNS:
        try:
            components = components_of(experiment.options, engine, symmetry)
            handed = count_handed(components) if engine == "python" and not symmetry else None
            result = run_components(components, "run", time.perf_counter())
            answers[engine, symmetry] = figures(result), (result.simulated_npus, result.events)
            finish_ns = result.finish_ns
            violations += (
                [] if handed is None else [*_conservation(components, result, handed), *faster_than_links(experiment, result, handed)]
            )
        except AstraError as error:
            answers[engine, symmetry] = type(error).__name__, str(error)
    violations += _disagreements(answers)
    first = answers[RUNS[0]]
    renumbered = experiment.renumbered()
    if isinstance(first[0], dict):
        violations += [f"again{line}" for line in differences(first[0], _again(experiment, seed))[:5]]
        violations += _of_one_run(first[0])
        if renumbered is not None:
            violations += _of_other_numbers(*renumbered)
    monotone = isinstance(first[0], dict) and experiment.is_monotone()
    if monotone:
        faster = run_components(components_of(experiment.with_twice_the_bandwidth(), "compiled", True), "run", time.perf_counter())
        if faster.finish_ns > finish_ns:
            violations.append(f"twice the bandwidth takes {faster.finish_ns} ns for {finish_ns}")
    return Outcome(_end_of(first), violations, monotone, renumbered is not None and isinstance(first[0], dict))


def _again(experiment: Experiment, seed: int) -> Any:
    """The figures of an experiment that has run before, with another number of threads where a network has them."""
    options = experiment.options
    if experiment.network == "packet":
        options = {**options, "network": {**options["network"], "threads": 1 + seed % 3}}
    try:
        return figures(run_components(components_of(options, "compiled", True), "run", time.perf_counter()))
    except AstraError as error:
        return f"{type(error).__name__}: {error}"


def _of_one_run(told: Mapping[str, Any]) -> list[str]:
    """Where figures of one run contradict each other."""
    ends = told["npu_finish_ns"]
    pairs = [
        ("the end of the run and of its last NPU", told["json"]["finish_ns"], max(ends)),
        ("the end of the first NPU", told["json"]["earliest_finish_ns"], min(ends)),
    ]
    return [f"{what}: {one} and {other}" for what, one, other in pairs if one != other]


def _of_other_numbers(options: Mapping[str, Any], others: Mapping[str, Any], new: Sequence[int]) -> list[str]:
    """Where NPUs with other numbers finish at other times."""
    ends, moved = (
        run_components(components_of(each, "compiled", True), "run", time.perf_counter()).npu_finish_ns for each in (options, others)
    )
    wrong = [npu for npu, end in enumerate(ends) if end != moved[new[npu]]]
    return [f"NPU {npu} finishes at {ends[npu]} ns, and as NPU {new[npu]} at {moved[new[npu]]}" for npu in wrong[:3]]


def faster_than_links(experiment: Experiment, result: astra_sim.Result, handed: Handed) -> list[str]:
    """Where a network is faster than links can be."""
    if experiment.network == "unaware":
        return []
    messages = [message for message in handed.between.elements() if message[0] != message[1]]
    if not messages:
        return []
    rounds_down = experiment.options["network"].get("rounding", "picosecond") != "picosecond"
    needs = link_needs(components_of(experiment.options, "compiled", True).platform.fabric(), messages, rounds_down)
    results = [f"the audit of a network with links: {finding.message}" for finding in result.audit]
    return results + ([f"{result.finish_ns} ns, and links need {needs.bound_ns}"] if result.finish_ns < needs.bound_ns else [])


def _disagreements(answers: Mapping[tuple[str, bool], Any]) -> list[str]:
    """Where runs differ: in their figures or kind of error; of two engines also in the words, and in how much was simulated."""
    result = []
    first = answers[RUNS[0]][0]
    for run in RUNS[1:]:
        result += [f"{run}{line}" for line in differences(first, answers[run][0])[:5]]
    for symmetry in (True, False):
        more = [answers[engine, symmetry][1] for engine in ("compiled", "python")]
        result += [f"engines, symmetry {symmetry}: {line}" for line in differences(*more)]
    return result


def _end_of(answer: Any) -> str:
    """How a run ended. Of deadlocks those of the packet network, whose buffers fill up, are distinguished from those of programs."""
    if isinstance(answer[0], dict):
        return "finished"
    return "deadlock of the network" if "network is deadlocked" in answer[1] else str(answer[0])


def _conservation(components: Components, result: astra_sim.Result, handed: Handed) -> list[str]:
    messages, size = said(components, result)
    pairs = [
        ("messages of the result", result.messages, handed.messages),
        ("messages of schedules", messages, handed.messages),
        ("bytes of schedules", size, handed.bytes),
        (
            "payload_bytes_per_dimension",
            result.network["payload_bytes_per_dimension"],
            [handed.of_first[number] for number in range(len(components.platform.dimensions))],
        ),
    ]
    if not components.system.rendezvous:
        in_table = sum(dimension.bytes for dimension in result.dimensions)
        pairs.append(("bytes of the table of dimensions", in_table, sum(handed.of_first.values())))
    return [f"{what} are {results}, and handed to the network {got}" for what, results, got in pairs if results != got]


def main(arguments: Sequence[str]) -> int:
    """Run many experiments. Returns 1 if something does not hold."""
    count, first = (int(argument) for argument in (*arguments, *("1000", "0")[len(arguments) :]))
    ends: Counter[str] = Counter()
    wrong = bandwidths = numbers = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            outcome = check(seed, Path(folder))
        ends[outcome.end] += 1
        bandwidths += outcome.checked_bandwidth
        numbers += outcome.checked_numbers
        wrong += bool(outcome.violations)
        for line in outcome.violations:
            print(f"seed {seed}: {line}", flush=True)
        if (seed - first + 1) % 100 == 0:
            print(f"{seed - first + 1} of {count}: {wrong} in which something does not hold", file=sys.stderr, flush=True)
    ran = ", ".join(f"{number} {end}" for end, number in ends.most_common())
    more = f"{bandwidths} with twice the bandwidth, {numbers} with other numbers of NPUs"
    print(f"{count} experiments ({ran}); {more}; {wrong} in which something does not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
