"""The programs of ASTRA-sim 1.0: their options, their output, and the files to which runs add rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import astra_sim
from astra_sim import InputError
from astra_sim.commands import Experiment, shared_plugins

from astra_sim_compat import astra2
from astra_sim_compat.arguments import Arguments
from astra_sim_compat.shared_tables import SharedTables

_OF_2X = "--remote-memory-configuration"
"""An option that runs of 2.x must have, and 1.0 does not know. Both have programs of these names."""

_ANALYTICAL_OVERRIDES: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "units-count": ("size", int),
    "links-count": ("links", int),
    "link-bandwidth": ("link_bandwidth_gib_per_s", float),
    "link-latency": ("link_latency_ns", float),
}
"""Options that replace lists of the network file: the option of a dimension, and the type of its values."""

_CONGESTION_OVERRIDES: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "npus-count": ("size", int),
    "bandwidth": ("link_bandwidth_gib_per_s", float),
    "latency": ("link_latency_ns", float),
}


def analytical(name: str, argv: Sequence[str]) -> None:
    """AnalyticalAstra of 1.0; of 2.x if the options are."""
    if _is_of_2x(argv):
        astra2.congestion_unaware(name, argv)
        return
    known = _options(name, "analytical network")
    known.number("num-queues-per-dim", "queues of each dimension", 1)
    values = _values(known, _ANALYTICAL_OVERRIDES, argv)
    result = _run(values, _experiment(values, _ANALYTICAL_OVERRIDES), [], SharedTables.NAMES)
    cost = result.network.get("cost_usd")
    if cost is not None:
        print(f"\n[Analytical, main] Total Cost: ${cost:g}")


def congestion(name: str, argv: Sequence[str]) -> None:
    """AstraCongestion of 2023, which has 1.0's system layer and a YAML network file; of 2.x if the options are."""
    if _is_of_2x(argv):
        astra2.congestion_aware(name, argv)
        return
    values = _values(_options(name, "network with contention"), _CONGESTION_OVERRIDES, argv)
    tables = [table for table in SharedTables.NAMES if not table.startswith("backend_")]
    _run(values, _experiment(values, _CONGESTION_OVERRIDES), ["network.congestion=aware"], tables)


def garnet(name: str, argv: Sequence[str]) -> None:
    """gem5 with Garnet and 1.0's system layer: a script of gem5 and `--synthetic=training` come before the options of 1.0."""
    scripts = [each for each in argv if each.endswith(".py") and not each.startswith("-")]
    known = _options(name, "network of routers (Garnet)")
    known.text("synthetic", "the simulated task: training")
    values = _values(known, {}, [each for each in argv if each not in scripts])
    if values["synthetic"] != "training":
        raise InputError(f"--synthetic is {values['synthetic']}; expected training, as astra simulates ASTRA-sim alone")
    path = values["network_configuration"]
    if not os.path.exists(path) and os.path.exists(f"{path}.txt"):
        values["network_configuration"] = f"{path}.txt"  # as published run scripts name them
    experiment = _experiment(values, {})
    if experiment.sections.get("network", {}).get("plugin") != "packet":
        raise InputError(f"--network-configuration is {values['network_configuration']}, no network file of Garnet; expected one")
    tables = [table for table in SharedTables.NAMES if not table.startswith("backend_")]
    _run(values, experiment, [], tables)


def _is_of_2x(argv: Sequence[str]) -> bool:
    return any(each.partition("=")[0] == _OF_2X for each in argv)


def _options(name: str, network: str) -> Arguments:
    """The options that both programs have."""
    known = Arguments(name, f"ASTRA-sim 1.0, {network}, as astra simulates it.")
    known.text("network-configuration", "network")
    known.text("system-configuration", "system layer (text)")
    known.text("workload-configuration", "workload (text)")
    known.text("path", "prefix of the names of result files: a folder with / at its end")
    known.text("run-name", "name of the run in result files (unnamed run)", "unnamed run")
    known.number("num-passes", "training iterations", 1)
    known.number("comm-scale", "factor on the size of collectives", 1.0)
    known.number("compute-scale", "factor on compute times", 1.0)
    known.number("injection-scale", "factor on the endpoint delay", 1.0)
    known.number("total-stat-rows", "how many runs share the result files", 1)
    known.number("stat-row", "which of them this is, from 0; row 0 begins the files anew", 0)
    known.switch("rendezvous-protocol", "a message waits for a request of its receiver (false)")
    return known


def _values(known: Arguments, overrides: Mapping[str, tuple[str, type[int] | type[float]]], argv: Sequence[str]) -> dict[str, Any]:
    """The values of options. Raises UsageError and InputError."""
    for option, (_, kind) in overrides.items():
        known.numbers(option, "of each dimension, in place of the network file's value", kind)
    values = known.all([each for each in argv if each])  # scripts for several networks leave some arguments empty
    if values["total_stat_rows"] < 1:
        raise InputError(f"--total-stat-rows is {values['total_stat_rows']}; expected at least 1")
    if not 0 <= values["stat_row"] < values["total_stat_rows"]:
        raise InputError(f"--stat-row is {values['stat_row']}; expected 0 to {values['total_stat_rows'] - 1} (--total-stat-rows - 1)")
    return values


def _experiment(values: Mapping[str, Any], overrides: Mapping[str, tuple[str, type[int] | type[float]]]) -> Experiment:
    """The platform and network of a file, with the lists that options replace. Raises InputError."""
    experiment = Experiment()
    experiment.use("network", astra2.file_of(values, "network-configuration"), shared_plugins(), where="--network-configuration")
    platform = experiment.sections.get("platform", {})
    for option, (key, _) in overrides.items():
        replaced = values[option.replace("-", "_")]
        if replaced is None:
            continue
        dimensions = platform.get("dimensions")
        if not dimensions:
            raise InputError(f"--{option}: {values['network_configuration']} has no dimensions; expected a network file of ASTRA-sim")
        if len(replaced) != len(dimensions):
            raise InputError(f"--{option} has {len(replaced)} values for {len(dimensions)} dimensions")
        changed = [{**dimension, key: value} for dimension, value in zip(dimensions, replaced, strict=True)]
        platform = {**platform, "dimensions": changed}
        experiment.sections["platform"] = platform
    return experiment


def _run(values: Mapping[str, Any], experiment: Experiment, assignments: list[str], names: Sequence[str]) -> astra_sim.Result:
    """Run, add the run to its result files, and report its end."""
    row, total = values["stat_row"], values["total_stat_rows"]
    tables = SharedTables(values["path"], names)
    print(f"stat path: {values['path']} ,total rows: {total} ,stat row: {row}", flush=True)
    if row == 0:
        tables.clear()
    result = astra_sim.simulate(
        experiment,
        workload=astra2.file_of(values, "workload-configuration"),
        system=astra2.file_of(values, "system-configuration"),
        passes=values["num_passes"],
        compute_scale=values["compute_scale"],
        comm_scale=values["comm_scale"],
        injection_scale=values["injection_scale"],
        queues_per_dim=values.get("num_queues_per_dim"),
        rendezvous=values["rendezvous_protocol"],
        run_name=values["run_name"],
        set=assignments,
    )
    tables.add(result, row, total)
    first = result.layers[0].name if result.layers else ""
    print("*************************")
    print(f"all passes finished at time: {int(result.finish_ns)}, id of first layer: {first}")
    return result
