"""A plan on its way to workers, which look at its versions before they read it: of other packages it may be something else."""

from __future__ import annotations

import pickle
import socket

from astra_sim import InputError
from astra_sim.commands import shared_plugins
from astra_sim.experiments import version_differences, versions

from astra_sim_sweep.plan import SweepPlan

_MOST_NAMED = 5


def packed(plan: SweepPlan) -> bytes:
    """A plan as bytes, preceded by the plugins that this process has chosen and the versions of its software."""
    return pickle.dumps((shared_plugins().choices, dict(plan.versions), pickle.dumps(plan)))


def unpacked(data: bytes) -> SweepPlan:
    """The plan of `packed`, with its plugin files in use, and the plugins off that were switched off.

    Raises InputError, naming host and packages, if this process runs others: its results would be others.
    """
    choices, made_by, pickled = pickle.loads(data)
    shared_plugins().choose(choices)
    different = version_differences(made_by, versions(shared_plugins(), "auto"), ("here", "there"))
    if different:
        more = f"; {len(different) - _MOST_NAMED} more" if len(different) > _MOST_NAMED else ""
        raise InputError(
            f"a worker on {socket.gethostname()} has other packages: {'; '.join(different[:_MOST_NAMED])}{more}; expected the same here and"
            " there"
        )
    plan: SweepPlan = pickle.loads(pickled)
    return plan
