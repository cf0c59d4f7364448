"""The engine: executes tasks, ordered queues and messages in simulated time."""

from astra_sim.engine.reference import CALL, CONTROL_BYTES, JOIN, PHASE, TIMER, TRAIL_LENGTH, Barrier, Engine, Job, Order, PhaseRun, Trail

__all__ = ["CALL", "CONTROL_BYTES", "JOIN", "PHASE", "TIMER", "TRAIL_LENGTH", "Barrier", "Engine", "Job", "Order", "PhaseRun", "Trail"]
