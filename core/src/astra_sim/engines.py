"""Building blocks for packages with an engine of their own (hook `astra_engines`). Public, but provisional.

An engine follows the kernel's tasks, queues and phases step by step, so these names change with it. A package with an engine requires
exactly the version of `astra-sim-core` for which it was written (`astra-sim-core==...`). `simulate_graph` runs a graph on an engine, which
`find_engine` names, and returns its record. The meaning of a run is in the engine that the
kernel has itself, `astra_sim.engine.reference`, which `astra_sim.testing` compares others with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_sim._boundary import MAX_PICOSECONDS
from astra_sim._lazy import lazy_names
from astra_sim.engine.columns import Spans, Use
from astra_sim.engine.interface import (
    ACCESS,
    CAUSAL_KEY_LENGTH,
    COLLECTIVE,
    COMPUTE,
    CONTROL_BYTES,
    JOIN,
    RECEIVE,
    SEND,
    TIMER,
    BusOptions,
    CausalKey,
    ComputePs,
    Engine,
    EngineRecord,
    EngineType,
    Issue,
    LinkKind,
    OverheadPs,
    PathEdge,
    PhaseStep,
    PhaseStepRecord,
    PhaseStepRecords,
    RankState,
    Task,
    UnlikeCollectivesError,
    check_groups,
    check_ports,
    check_program,
    task_rows,
    too_long,
)
from astra_sim.engine.orders import Job, Order, Rule, RuleOrder, Standing, place_of

if TYPE_CHECKING:
    from astra_sim.engine.reference import ReferenceEngine
    from astra_sim.run.record import RunRecord
    from astra_sim.run.simulation import simulate_graph
    from astra_sim.setup.engines import engine_of, find_engine

__getattr__ = lazy_names(  # an engine in C++ need not import these
    __name__,
    {
        "engine.reference": ("ReferenceEngine",),
        "run.record": ("RunRecord",),
        "run.simulation": ("simulate_graph",),
        "setup.engines": ("engine_of", "find_engine"),
    },
)
