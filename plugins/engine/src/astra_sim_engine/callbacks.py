"""The Python functions that a run of the machine calls: `Host` of native/host.hpp."""

from __future__ import annotations

from astra_sim.engines import ComputePs, Issue, OverheadPs
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork, advance, inject, not_under_way

from astra_sim_engine import _compiled
from astra_sim_engine.queues import CompiledQueues, StepRow


class Callbacks:
    """Asks who plans collectives (`issuers`, by program) and knows times of tasks and messages, and a network without a function table."""

    def __init__(self, machine: _compiled.Machine, queues: CompiledQueues, network: RouteDelayNetwork | EventNetwork | None) -> None:
        self._machine = machine
        self._queues = queues
        self._network = network
        self.issuers: list[Issue] = []
        self.compute_ps: ComputePs | None = None
        self.overhead_ps: OverheadPs | None = None

    def forget(self) -> None:
        """Forget who was asked, after the run: a planner of collectives refers to its engine, which would be a reference cycle."""
        self.compute_ps = self.overhead_ps = None
        self.issuers.clear()

    def issue(self, program: int, task: int, now: int) -> list[list[StepRow]]:
        """The steps of the chunks of a collective."""
        return self._queues.steps(self.issuers[program](task, now), now)

    def compute(self, npu: int, task: int, now: int) -> int:
        """The time of a COMPUTE task in picoseconds."""
        assert self.compute_ps is not None
        return self.compute_ps(npu, task, now)

    def overhead(self, size: int, receives: bool) -> int:
        """The time of a processor for a message of `size` bytes in picoseconds."""
        assert self.overhead_ps is not None
        return self.overhead_ps(size, receives)

    def delay(self, source: int, destination: int, size: int) -> int:
        """The time of a message of `size` bytes in picoseconds."""
        assert isinstance(self._network, RouteDelayNetwork)
        return self._network.message_delay(source, destination, size)

    def inject(self, now: int, messages: list[tuple[int, ...]]) -> None:
        """Hand messages to the network."""
        assert isinstance(self._network, EventNetwork)
        inject(self._network, now, [Message(*message) for message in messages])

    def advance(self, since: int, until: int | None) -> tuple[int, list[int], list[int]] | None:
        """The next deliveries of the network: their time, and the numbers of messages that have arrived and that are known to have.

        Raises PluginError.
        """
        assert isinstance(self._network, EventNetwork)
        delivery = advance(self._network, since, until)
        if delivery is None:
            return None
        for number in (*delivery[1], *delivery[2]):
            if not 0 <= number <= self._machine.messages:
                raise not_under_way(self._network, number)
        return delivery[0], list(delivery[1]), list(delivery[2])
