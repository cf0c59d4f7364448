"""The engine: executes programs, queues and messages in simulated time. There are two with one meaning."""

from __future__ import annotations

from collections.abc import Callable

from astra_sim.engine.interface import (
    ACCESS,
    COLLECTIVE,
    COMPUTE,
    CONTROL_BYTES,
    HISTORY_LENGTH,
    JOIN,
    RECEIVE,
    SEND,
    TIMER,
    BusOptions,
    ComputePs,
    Engine,
    History,
    Link,
    LinkKind,
    OverheadPs,
    PhaseStep,
    PhaseStepRecord,
    PhaseStepRecords,
    RankState,
    Task,
    UnlikeCollectivesError,
)
from astra_sim.engine.orders import Job, Order, Rule, RuleOrder
from astra_sim.errors import InputError

MakeEngine = Callable[..., Engine]
"""Makes an engine: (npus, network, endpoint_ps, memory_ps, rendezvous, bus), see `reference.ReferenceEngine`."""

ENGINES = ("auto", "python", "compiled")


def has_compiled() -> bool:
    """Whether the compiled engine is installed."""
    try:
        from astra_sim.engine import _compiled  # noqa: F401
    except ImportError:
        return False
    return True


def choose_engine(name: str) -> MakeEngine:
    """The engine of that name; `auto` is the compiled one where it is installed. Raises InputError."""
    if name not in ENGINES:
        raise InputError(f"engine is {name!r}; expected auto, python or compiled")
    if name != "python" and has_compiled():
        from astra_sim.engine.compiled import CompiledEngine

        return CompiledEngine
    if name == "compiled":
        raise InputError(
            "engine is 'compiled', which is not installed; 'python' is (install astra-sim-core with a C++ compiler to have both)"
        )
    from astra_sim.engine.reference import ReferenceEngine

    return ReferenceEngine


__all__ = [
    "ACCESS",
    "COLLECTIVE",
    "COMPUTE",
    "CONTROL_BYTES",
    "ENGINES",
    "HISTORY_LENGTH",
    "JOIN",
    "RECEIVE",
    "SEND",
    "TIMER",
    "BusOptions",
    "ComputePs",
    "Engine",
    "History",
    "Job",
    "Link",
    "LinkKind",
    "MakeEngine",
    "Order",
    "OverheadPs",
    "PhaseStep",
    "PhaseStepRecord",
    "PhaseStepRecords",
    "RankState",
    "Rule",
    "RuleOrder",
    "Task",
    "UnlikeCollectivesError",
    "choose_engine",
    "has_compiled",
]
