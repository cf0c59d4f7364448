"""An experiment in a table: the path of its file, and the changes to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim import Experiment, InputError, load_experiment
from astra_sim.commands import Plugins
from astra_sim.errors import suggestion

EXPERIMENT = "experiment"
KEYS = (EXPERIMENT, "set", "run", *Experiment.KINDS)


def read_base(table: Mapping[str, Any], where: str, folder: str, plugins: Plugins, others: Sequence[str] = ()) -> Experiment:
    """The experiment of a table with KEYS and perhaps `others`, which are not looked at; paths are relative to `folder`.

    It is that of a file, or an empty one; then come components, options of the run, and assignments. Raises InputError.
    """
    for key in table:
        if key not in (*KEYS, *others):
            raise InputError(f"{where}: unknown key {key!r}; {suggestion(key, (*KEYS, *others))}")
    path, run, assignments = table.get(EXPERIMENT), table.get("run", {}), table.get("set", [])
    if path is not None and not isinstance(path, str):
        raise InputError(f"{where}: experiment is {path!r}; expected the path of an experiment file")
    if not isinstance(run, Mapping):
        raise InputError(f"{where}: run is {run!r}, not a table")
    if not isinstance(assignments, list) or not all(isinstance(each, str) for each in assignments):
        raise InputError(f"{where}: set is {assignments!r}; expected a list such as ['system.splits=8']")
    experiment = Experiment() if path is None else load_experiment(os.path.join(folder, path), plugins)
    for kind in Experiment.KINDS:
        if kind in table:
            experiment.use(kind, table[kind], plugins, folder, f"{where}: {kind}")
    for key, value in run.items():
        experiment.choose(key, value, folder)
    for assignment in assignments:
        experiment.set(assignment)
    return experiment
