"""The engine in readable Python. It defines simulated time; the compiled engine gives the same results.

One file for each part, in the order in which they use each other. `plugins/engine/native` has the same parts, with the same names, in C++.

    causes           which event has brought about which
    events           events, and their order
    processors       compute, and handling of messages if that takes time
    transport        messages on their way through the network
    shared_bus       the bus between an NPU and its memory, if endpoints share one
    phase_kinds      what is said of phases before the run: groups, schedules, how they end
    phases           the ranks of a collective's phase, which run its schedule
    agreement        orders that NPUs have in common
    waiting, queues  the queues of an NPU, and the jobs in them
    chunks           the chunks of a collective on an NPU, and the queues through which they pass
    collectives      which chunks a collective becomes, and who shares them
    point_to_point   messages between two tasks
    durations        how long tasks take that send and receive nothing
    tasks            the programs of NPUs, and the units that their tasks need
    record           what is known of a run
    machine          the engine: owns the parts, and dispatches events
"""

from astra_sim.engine.reference.machine import ReferenceEngine

__all__ = ["ReferenceEngine"]
