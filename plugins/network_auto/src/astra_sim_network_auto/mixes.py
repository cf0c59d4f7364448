"""Runs of which parts overlap: pipelines, exchanges beside others, programs that differ between NPUs.

Each kind of communication runs by itself on the target network, once. The run with these times is one in which nothing waits for
anything else; where kinds that share links are under way at once, it may take longer by what these links have to carry besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim.graph import Communicate, Composite, ExecutionGraph, NpuProgram, Operation, ProgramTimes, Send
from astra_sim.network import EventNetwork, Simulations
from astra_sim.platform import Route
from astra_sim.rows import Rows, kinds_of

from astra_sim_network_auto.error import Basis, Part
from astra_sim_network_auto.formula import FormulaNetwork
from astra_sim_network_auto.overlaps import Link, Passage, SharedLinks
from astra_sim_network_auto.traffic import GraphTraffic, TrafficKind, alone, content

Margin = Callable[[int], int]
"""How much a time may differ in the run, if the network's state goes on from part to part (picoseconds of picoseconds)."""

_BEYOND_APART = 0.5
"""How much longer a collective may take if its NPUs come at other moments than in the run in which they come one after the other: a share
of what that costs. Packets of a ring's steps get in each other's way then; in random pipelines a collective took up to twice as long."""
_ROUNDS = 2
"""How often delays are worked out with those of before."""


class PricedMessages(FormulaNetwork):
    """Messages take known times, by their ends and bytes; others none, such as those by which two NPUs agree on one.

    If the times follow from routes, NPUs that do the same need not be simulated one by one.
    """

    def __init__(self, target: EventNetwork, times: Mapping[tuple[int, int, int], int]) -> None:
        super().__init__(target.platform)
        self.accounting_dimension = target.accounting_dimension
        self._times = times
        self._by_route: dict[tuple[int, int, int], int] = {}
        for (source, destination, size), time in times.items():
            key = *self.route(source, destination), size
            self.delays_by_pair = self.delays_by_pair or self._by_route.setdefault(key, time) != time

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds of a message by its route."""
        return self._by_route.get((dimension, hops, size), 0)

    def pair_delay(self, source: int, destination: int, size: int) -> int:
        """Picoseconds of a message by its ends."""
        return self._times.get((source, destination, size), 0)


@attrs.frozen
class Measured:
    """Traffic alone on the target, in picoseconds: until the last NPU, and the first one, has ended. `busy` is the time of each link.

    `apart_ps` is the time after its last NPU has come, if they come one after the other, or at once if that takes longer.
    `bytes` are those that it sent. If it is messages, `each_ps` are their times, by the NPU that sends, and `range_ps` the least and
    the most time of those with a like route: which of them waits for which others depends on the moments at which they come.
    """

    ps: int
    least_ps: int
    apart_ps: int
    busy: Mapping[Link, int]
    bytes: int
    each_ps: Mapping[int, int]
    range_ps: Mapping[int, tuple[int, int]]


class _Price(NamedTuple):
    """The time of traffic in a run: of a collective, and of each message by the NPU that sends it (picoseconds)."""

    ps: int
    each_ps: Mapping[int, int]

    @classmethod
    def alone(cls, measured: Measured) -> _Price:
        return cls(measured.ps, measured.each_ps)

    @classmethod
    def least(cls, measured: Measured, margin: Margin) -> _Price:
        each = {npu: max(0, least - margin(least)) for npu, (least, _) in measured.range_ps.items()}
        return cls(max(0, measured.least_ps - margin(measured.ps)), each)

    @classmethod
    def most(cls, measured: Measured, margin: Margin) -> _Price:
        """NPUs that others wait for may have ended as much later as they are apart."""
        each = {npu: most + margin(most) for npu, (_, most) in measured.range_ps.items()}
        apart = measured.apart_ps + int(_BEYOND_APART * (measured.apart_ps - measured.ps))
        return cls(apart + measured.ps - measured.least_ps + margin(measured.ps), each)


def _keeper() -> tuple[list[ProgramTimes], Callable[[Sequence[ProgramTimes], int], dict[str, Any]]]:
    """A list, and figures of a graph that put the times of its programs there."""
    seen: list[ProgramTimes] = []

    def keep(programs: Sequence[ProgramTimes], finish_ps: int) -> dict[str, Any]:
        seen.extend(programs)
        return {}

    return seen, keep


def _sent(programs: Sequence[ProgramTimes]) -> dict[int, int]:
    """How long the message of each NPU that sends one was under way."""
    return {each.program.npus[0]: each.ended_ps[each.sends[0]] - each.sends_begun_ps[0] for each in programs if each.sends}


@attrs.frozen(eq=False)
class MixedRun:
    """A run by the times of its parts: its graph and network for the final simulation, and its bounds (picoseconds)."""

    graph: ExecutionGraph
    network: PricedMessages
    ps: int
    lower_ps: int
    upper_ps: int
    floor_ps: int
    parts: list[Part]
    simulated_bytes: int


class Mixes:
    """Bounds runs of a graph on a target network by the times of its parts."""

    def __init__(self, simulations: Simulations, target: EventNetwork, margin: Margin) -> None:
        self._simulations = simulations
        self._target = target
        self._margin = margin
        self._npus = target.platform.npus
        self._inside: dict[Hashable, int] = {}
        self.traffic = GraphTraffic(simulations.graph, self._npus)

    def repeats(self) -> bool:
        """Whether simulating each kind once is less work than the run."""
        return self.traffic.instances() >= 2 * max(1, len(self.traffic.kinds))

    def bounded(self) -> MixedRun:
        """The run by the times of its parts."""
        kinds = self.traffic.kinds
        measured = [self._measured(kind) for kind in kinds]
        counts, passages, middle = self._run([_Price.alone(each) for each in measured])
        least = [_Price.least(each, self._margin) for each in measured]
        most = [_Price.most(each, self._margin) for each in measured]
        _, _, lower = self._run(least)
        _, late, upper = self._run(most)
        links = SharedLinks([each.busy.keys() for each in measured], [kind.programs for kind in kinds])
        # What is late may meet what it would else miss, and is later for it: twice around, from the doubt about the times alone.
        delay, doubt = 0, upper - lower
        for _ in range(_ROUNDS):
            delay = max(links.delay_ps(passages, doubt + delay), links.delay_ps(late, doubt + delay))
        parts = [
            Part(kind.name, count, each.ps, low.ps, high.ps, Basis.SKEWED if each.least_ps < each.ps else Basis.SIMULATED)
            for kind, each, low, high, count in zip(kinds, measured, least, most, counts, strict=True)
        ]
        parts.append(Part("waiting for others on links", 1, 0, 0, delay, Basis.OVERLAPPING))
        prices = [_Price.alone(each) for each in measured]
        return MixedRun(
            graph=self._priced(prices, None),
            network=self._messages(prices),
            ps=middle,
            lower_ps=min(lower, middle),
            upper_ps=max(upper, middle) + delay,
            floor_ps=self._floor_ps(measured, counts),
            parts=parts,
            simulated_bytes=sum(each.bytes for each in measured),
        )

    # -- Parts alone ---------------------------------------------------------------------------------------------------

    def _measured(self, kind: TrafficKind) -> Measured:
        """The times of a kind alone on the target; of a collective also if its NPUs come one by one."""
        graph = kind.alone(self._simulations.graph, self._npus)
        seen, keep = _keeper()
        record = self._simulations.run(attrs.evolve(graph, figures=keep), self._target)
        spent = record.finish_ps - record.start_ps
        busy = {(load.dimension, load.source, load.target): int(load.utilisation * spent) for load in self._target.links() if load.bytes}
        if isinstance(kind.operation, Send):
            # The system's own times of a message are in the run as well.
            without, keep = _keeper()
            self._simulations.run(attrs.evolve(graph, figures=keep), PricedMessages(self._target, {}))
            each = {npu: max(0, time - _sent(without)[npu]) for npu, time in _sent(seen).items()}
            ranges = self._ranges(kind.operation, each)
            least = max(least for least, _ in ranges.values())
            longest = max(each.values())
            return Measured(longest, least, longest, busy, sum(record.payload), each, ranges)
        ends = record.npu_end_ps
        if len(ends) == self._npus:
            ends = [ends[npu] for npu in kind.npus]
        size = sum(record.payload) * (self._npus if len(record.npu_end_ps) == 1 else 1)
        spread, last = kind.apart(self._simulations.graph, self._npus, spent // 2)
        apart = self._simulations.run(spread, self._target)
        slowest = max(spent, apart.finish_ps - apart.start_ps - last)
        return Measured(spent, min(spent, min(ends) - record.start_ps), slowest, busy, size, {}, {})

    def _ranges(self, send: Send, each: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """For each message the least and the most time of those with a like route."""
        platform = self._target.platform
        ends = {npu: send.to.of(npu, self._npus) for npu in each}
        # By the first and the last dimension that they enter: messages of one node differ from those between nodes.
        routes = {npu: (platform.route(npu, end, True), platform.route(npu, end, False)) for npu, end in ends.items()}
        times: dict[tuple[Route, Route], list[int]] = {}
        for npu, time in each.items():
            times.setdefault(routes[npu], []).append(time)
        return {npu: (min(times[route]), max(times[route])) for npu, route in routes.items()}

    def _floor_ps(self, measured: Sequence[Measured], counts: Sequence[int]) -> int:
        """What no run can be shorter than: how long the busiest link needs for all that it carries."""
        links: Counter[Link] = Counter()
        for kind, each, count in zip(self.traffic.kinds, measured, counts, strict=True):
            for link, time in each.busy.items():
                links[link] += time * count // len(kind.programs)
        return max(links.values(), default=0)

    def _inside_ps(self, operation: Communicate) -> int:
        """Picoseconds of a collective of a composite, which runs alone in the run on the target, too."""
        key = content(operation)
        if key not in self._inside:
            graph = ExecutionGraph([alone(operation)], self._simulations.graph.dimensions, ())
            record = self._simulations.run(graph, self._target)
            self._inside[key] = record.finish_ps - record.start_ps
        return self._inside[key]

    # -- The run with their times --------------------------------------------------------------------------------------

    def _run(self, prices: Sequence[_Price]) -> tuple[list[int], Counter[Passage], int]:
        """The run with the time of each kind: how often each is in it, its passages, and the makespan."""
        seen, keep = _keeper()
        graph = self._priced(prices, keep)
        record = self._simulations.run(graph, self._messages(prices))
        number_of = {id(program.operations): number for number, program in enumerate(graph.programs(self._npus))}
        counts, passages = [0] * len(prices), Counter[Passage]()
        numbers = [next(place for place, (operations, _) in enumerate(self.traffic.programs) if operations is program.operations)
                   for program in self._simulations.graph.programs(self._npus)]  # fmt: skip
        for program in seen:
            number = numbers[number_of[id(program.program.operations)]]
            begun = dict(zip(program.sends, program.sends_begun_ps, strict=True))
            operations = program.program.operations
            places = operations.kind_of if isinstance(operations, Rows) else range(len(operations))
            rows = kinds_of(operations)
            here: Counter[Passage] = Counter()
            for place, kind in enumerate(places):
                traffic = self.traffic.number(number, kind)
                if traffic is None:
                    continue
                counts[traffic] += 1
                operation, end = rows[kind], program.ended_ps[place]
                if isinstance(operation, Communicate):
                    end -= operation.update_ps
                    here[Passage(end - prices[traffic].ps, end, traffic)] += 1
                else:
                    here[Passage(begun.get(place, end - prices[traffic].ps), end, traffic)] += 1
            passages |= here  # several programs have seen one collective
        return counts, passages, record.finish_ps - record.start_ps

    def _messages(self, prices: Sequence[_Price]) -> PricedMessages:
        """The network on which messages take the times of their kinds."""
        table: dict[tuple[int, int, int], int] = {}
        for kind, price in zip(self.traffic.kinds, prices, strict=True):
            if isinstance(kind.operation, Send):
                for npu, time in price.each_ps.items():
                    key = npu, kind.operation.to.of(npu, self._npus), kind.operation.bytes
                    table[key] = max(time, table.get(key, 0))
        return PricedMessages(self._target, table)

    def _priced(self, prices: Sequence[_Price], figures: Callable[..., Any] | None) -> ExecutionGraph:
        """The graph in which collectives take the times of their kinds."""
        graph = self._simulations.graph
        composites: dict[int, Composite] = {}
        priced: dict[int, Sequence[Operation]] = {}
        for number, (operations, _) in enumerate(self.traffic.programs):
            kinds = [self._priced_kind(number, kind, each, prices, composites) for kind, each in enumerate(kinds_of(operations))]
            priced[id(operations)] = attrs.evolve(operations, kinds=kinds) if isinstance(operations, Rows) else kinds
        return attrs.evolve(
            graph,
            operations=priced[id(graph.operations)],
            others=tuple(NpuProgram(priced[id(each.operations)], each.npus) for each in graph.others),
            shared=False,
            figures=figures or graph.figures,
        )

    def _priced_kind(
        self, program: int, kind: int, operation: Operation, prices: Sequence[_Price], composites: dict[int, Composite]
    ) -> Operation:
        if isinstance(operation, Composite):
            return self._priced_composite(operation, composites)
        number = self.traffic.number(program, kind)
        if number is None or not isinstance(operation, Communicate):
            return operation
        return attrs.evolve(operation, priced_ps=prices[number].ps)

    def _priced_composite(self, composite: Composite, known: dict[int, Composite]) -> Composite:
        for one in composite.chain():
            if id(one) not in known:
                inner = [
                    attrs.evolve(each, priced_ps=self._inside_ps(each)) if isinstance(each, Communicate) and each.bytes else each
                    for each in kinds_of(one.operations)
                ]
                rows = attrs.evolve(one.operations, kinds=inner) if isinstance(one.operations, Rows) else inner
                previous = None if one.previous is None else known[id(one.previous)]
                known[id(one)] = attrs.evolve(one, operations=rows, previous=previous)
        return known[id(composite)]
