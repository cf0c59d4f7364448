"""Test classes for plugin authors. Subclass one, name your component, and pytest runs its tests.

class TestMine(CollectiveContract):
    name = "mine"                     # as offered through the hook; the package must be installed
    options = {"window": 2}           # if it has options
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from astra_sim.components import options_of
from astra_sim.models import Compute, Memory, MissingWork, Work
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.options import describe_options
from astra_sim.platform import Dimension, Platform, Topology
from astra_sim.plugins import shared_plugins
from astra_sim.schedule import Peer
from astra_sim.testing.components import RANKS, check_collective


class ComponentContract:
    """What every component promises: it is found, loads, and documents itself."""

    kind: ClassVar[str]
    name: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}

    @cached_property
    def provider(self) -> Any:
        """The provider."""
        return shared_plugins().get(self.kind, self.name)

    def make(self, *context: Any) -> Any:
        """A component with the options of the test, given the context of its kind."""
        return self.provider.create(options_of(self.provider, self.options, self.name), *context)

    def test_it_documents_itself(self) -> None:
        """Name, summary and help texts are there."""
        assert self.provider.summary
        assert all(option.help for option in describe_options(self.provider.load_options()))


class CollectiveContract(ComponentContract):
    """A collective moves every piece where it belongs, on all numbers of `ranks` that it does not refuse."""

    kind = "collective"
    ranks: ClassVar[tuple[int, ...]] = RANKS

    def test_pieces_end_where_they_should(self) -> None:
        """Real pieces are moved along every schedule."""
        options = options_of(self.provider, self.options, self.name)
        factory = self.provider.load_factory()
        check_collective(factory if options is None else lambda request: factory(request, options), self.ranks)


class TopologyContract(ComponentContract):
    """A topology counts hops sensibly, and is as symmetric as it says."""

    kind = "platform"

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions under test."""
        return tuple(self.make())

    def test_it_is_a_topology(self) -> None:
        """Every dimension has what the kernel asks of it."""
        for dimension in self.dimensions:
            assert isinstance(dimension.topology, Topology)
            assert dimension.size >= 1
            assert dimension.link_bandwidth > 0

    def test_hops_are_positive_and_the_same_both_ways(self) -> None:
        """Hops count from 1, and do not depend on the way."""
        for dimension in self.dimensions:
            for a in range(dimension.size):
                for b in range(dimension.size):
                    if a != b:
                        assert dimension.topology.hops(a, b) == dimension.topology.hops(b, a) >= 1

    def test_it_is_as_symmetric_as_it_says(self) -> None:
        """Peers said to be symmetric are as far away from everywhere."""
        for dimension in self.dimensions:
            n = dimension.size
            peers = [Peer("shift", d) for d in range(1, n)] + [Peer("xor", m) for m in range(1, n) if all(r ^ m < n for r in range(n))]
            for peer in peers:
                if dimension.topology.is_symmetric(peer):
                    assert len({dimension.topology.hops(r, peer.of(r, n)) for r in range(n)}) == 1


class NetworkContract(ComponentContract):
    """A network delivers every message once, in order of time, and not before it was sent."""

    kind = "network"
    platform: ClassVar[Platform]

    def test_larger_messages_take_no_less_time(self) -> None:
        """Delays grow with size."""
        network = self.make(self.platform)
        if isinstance(network, RouteDelayNetwork):
            delays = [network.message_delay(0, 1, size) for size in (0, 1, 1000, 10**6, 10**9)]
            assert delays == sorted(delays)
            assert all(type(delay) is int and delay >= 0 for delay in delays)

    def test_every_message_arrives_once(self) -> None:
        """What is injected is delivered."""
        network = self.make(self.platform)
        if not isinstance(network, EventNetwork):
            return
        pairs = [(a, b) for a in range(self.platform.npus) for b in range(self.platform.npus) if a != b][:50]
        network.inject(1000, [Message(number, a, b, 4096) for number, (a, b) in enumerate(pairs)])
        assert network.advance(999) is None
        arrived: list[int] = []
        last = 1000
        while (delivery := network.advance(None)) is not None:
            time, numbers = delivery
            assert time >= last
            last = time
            arrived += numbers
        assert sorted(arrived) == list(range(len(pairs)))


class ComputeContract(ComponentContract):
    """A compute model gives times that are not negative, and no less for more work."""

    kind = "compute"
    work: ClassVar[tuple[Work, ...]] = tuple(Work(10.0 * k, 1e6 * k, 1e3 * k) for k in (0, 1, 2, 10, 1000))

    def test_more_work_takes_no_less_time(self) -> None:
        """Times grow with work."""
        model = self.make()
        assert isinstance(model, Compute)
        times = [model.duration_ns(work) for work in self.work]
        assert times == sorted(times)
        assert times[0] >= 0

    def test_what_is_missing_is_said(self) -> None:
        """Work without figures is computed, or refused with a reason."""
        reason = "it was computed"
        try:
            self.make().duration_ns(Work())
        except MissingWork as error:
            reason = str(error)
        assert reason


class MemoryContract(ComponentContract):
    """A memory model gives whole picoseconds, and no less for more bytes."""

    kind = "memory"

    def test_more_bytes_take_no_less_time(self) -> None:
        """Times grow with bytes."""
        model = self.make()
        assert isinstance(model, Memory)
        for write in (False, True):
            times = [model.access_ps(size, write) for size in (0, 1, 1000, 10**6, 10**9)]
            assert times == sorted(times)
            assert all(type(time) is int and time >= 0 for time in times)

    def test_ports_of_remote_memory_are_numbers(self) -> None:
        """An NPU has a port, always the same, or none."""
        model = self.make()
        assert isinstance(model, Memory)
        ports = [model.remote_port(npu) for npu in range(8)]
        assert all(port is None or (type(port) is int and port >= 0) for port in ports)
        assert ports == [model.remote_port(npu) for npu in range(8)]
