"""Runs of which parts overlap: pipelines, exchanges beside others, programs that differ between NPUs.

Each kind of communication runs by itself on the target network, once. In the run with these times it shows which collectives and messages
are under way at once on shared links, and which have NPUs that come one after the other: those run together, from the moments at which
they come. That is repeated with the new times, until the run stays as it is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim.graph import Communicate, Composite, ExecutionGraph, NpuProgram, Operation, Pass, ProgramTimes, Receive, Send
from astra_sim.network import EventNetwork, Simulations
from astra_sim.rows import Rows, column, kinds_of
from astra_sim.schedule import Collective
from astra_sim.units import PS_PER_NS

from astra_sim_network_auto.clusters import Clusters, Price, RunTimes, Scene, merged
from astra_sim_network_auto.components import Link, TrafficComponent, alike, components_of, paths_on
from astra_sim_network_auto.error import Basis, Part
from astra_sim_network_auto.formula import FormulaNetwork
from astra_sim_network_auto.instances import Instances
from astra_sim_network_auto.traffic import GraphTraffic, TrafficKind, alone, content, kept_times

Margin = Callable[[int], int]
"""How much a time may differ in the run, if the network's state goes on from part to part (picoseconds of picoseconds)."""

_SETTLED = 16
"""Ends that move by less than this part of how much the run may be off anyway are not followed further, but added to the bound."""
_APART_PS = 20_000
"""NPUs that end further apart than that (picoseconds) come to later collectives one by one."""
_ROUNDS = 6
"""How often clusters are looked for at most."""
_MOST_WORK = 0.5
"""Bytes that are sent in clusters, as a share of those of the run: with more, the whole run is hardly more work."""


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

    If it is messages, `each_ps` are their times, by the NPU that sends, and `system_ps` what the system itself takes for one besides.
    """

    ps: int
    least_ps: int
    busy: Mapping[Link, int]
    each_ps: Mapping[int, int]
    system_ps: int = 0


class _ClassTimes(NamedTuple):
    """The times of components that are alike: of links by their place there, of messages in the order of members."""

    measured: Measured
    busy: Mapping[int, int]
    each_ps: tuple[int, ...]


def _arrived(programs: Sequence[ProgramTimes]) -> dict[int, int]:
    """How long the message of each NPU that sends one was under way until it had arrived."""
    begun = {each.program.npus[0]: each.sends_begun_ps[0] for each in programs if each.sends}
    result = {}
    for each in programs:
        for operation, ended in zip(each.program.operations, each.ended_ps, strict=True):
            if isinstance(operation, Receive):
                result[operation.source.value] = ended - begun[operation.source.value]
    return result


class _Prices(NamedTuple):
    """The time of each instance in a run (picoseconds); None: that of its kind alone. `each_ps` are those of messages, by kind and NPU."""

    of: list[Price | None]
    alone_ps: list[int]
    each_ps: list[Mapping[int, int]]

    def ps(self, number: int, kind: int) -> int:
        """That of the slowest group, or the longest of messages."""
        price = self.of[number]
        return self.alone_ps[kind] if price is None else max(ps for _, ps in price)


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


def _waiting_ps(numbers: Sequence[int], times: RunTimes) -> int:
    """How long instances that are under way together wait for each other at most, if one of them stands still for all others."""
    lengths = [times.end_ps[number] - times.begin_ps[number] for number in numbers]
    return sum(lengths) - min(lengths)


class _Settled(NamedTuple):
    """A run with the times of traffic that shares links: how many clusters of it there are, and how well they are known.

    `skews_ps` is how far apart NPUs end each instance.
    """

    prices: _Prices
    times: RunTimes
    skews_ps: Sequence[int]
    clusters: int
    doubt_ps: int


class Mixes:
    """Bounds runs of a graph on a target network by the times of its parts."""

    def __init__(self, simulations: Simulations, target: EventNetwork, margin: Margin) -> None:
        self._simulations = simulations
        self._target = target
        self._margin = margin
        self._npus = target.platform.npus
        self._inside: dict[Hashable, int] = {}
        self._alone: dict[Hashable, _ClassTimes | None] = {}
        self._apart_known: dict[Hashable, int] = {}
        self._component_of: dict[int, TrafficComponent] = {}
        self._simulated_bytes = 0
        self.traffic = GraphTraffic(simulations.graph, self._npus)
        self._instances = Instances(self.traffic, self._npus)
        self._paths = paths_on(target.platform, target.route_rules)
        self._clusters = Clusters(simulations, target, self.traffic, self._instances, self._is_one_by_one(), margin)

    def repeats(self) -> bool:
        """Whether simulating each kind once is less work than the run."""
        return self.traffic.instances() >= 2 * max(1, len(self.traffic.kinds))

    def bounded(self) -> MixedRun | None:
        """The run by the times of its parts; None if it is not known which sends and receives, or which collectives, belong together."""
        kinds = self.traffic.kinds
        if not self._instances.is_matched:
            return None
        measured = [self._measured(number, kind) for number, kind in enumerate(kinds)]
        prices, times, skews, together, doubt = self._settled(measured)
        lower = self._run(self._shifted(prices, measured, -1)).makespan_ps - doubt
        upper = self._run(self._late(self._shifted(prices, measured, 1), measured, times, skews)).makespan_ps + doubt
        counts = Counter(instance.kind for instance in self._instances.all)
        parts = []
        for number, (kind, each) in enumerate(zip(kinds, measured, strict=True)):
            beyond = self._margin(each.ps)
            basis = Basis.SKEWED if each.least_ps < each.ps else Basis.SIMULATED
            parts.append(Part(kind.name, counts[number], each.ps, max(0, each.least_ps - beyond), each.ps + beyond, basis))
        if together:
            parts.append(Part("traffic that shares links", together, 0, -doubt, doubt, Basis.TOGETHER))
        return MixedRun(
            graph=self._priced(prices, None),
            network=self._messages(prices),
            ps=times.makespan_ps,
            lower_ps=max(0, min(lower, times.makespan_ps)),
            upper_ps=max(upper, times.makespan_ps),
            floor_ps=self._floor_ps(measured, counts),
            parts=parts,
            simulated_bytes=self._simulated_bytes + self._clusters.simulated_bytes,
        )

    def _settled(self, measured: Sequence[Measured]) -> _Settled:
        """The run with the times of traffic that shares links, once these do not change any more.

        `doubt_ps` is by how much ends still moved in the last round if there were too few; and where simulating what is under way together
        is too much work, how long it may wait for each other.
        """
        instances, kinds = self._instances.all, self.traffic.kinds
        prices = _Prices([None] * len(instances), [each.ps for each in measured], [each.each_ps for each in measured])
        share = self._sharing(measured)
        work = _MOST_WORK * sum(kinds[each.kind].operation.bytes * len(kinds[each.kind].npus) for each in instances)
        alone_skews = [each.ps - each.least_ps for each in measured]
        skews = [alone_skews[each.kind] for each in instances]
        times = self._run(prices)
        together = doubt = 0
        for _ in range(_ROUNDS):
            clusters = [each for each in merged(times, share, self._apart(skews), max(skews, default=0)) if len(each) > 1]
            skews = [alone_skews[each.kind] for each in instances]
            changed: list[Price | None] = [None] * len(instances)
            for numbers in clusters:
                scene = self._clusters.scene(numbers, times)
                components = self._components_of(scene)
                work -= self._clusters.cost(scene, components)
                if work < 0:
                    return _Settled(prices, times, skews, len(clusters), doubt + sum(_waiting_ps(each, times) for each in clusters))
                for number, each in zip(scene.numbers, self._clusters.together(scene, components), strict=True):
                    system_ps = measured[instances[number].kind].system_ps
                    changed[number] = tuple((npu, max(0, ps - system_ps)) for npu, ps in each.price)
                    skews[number] = each.skew_ps
            together = len(clusters)
            if changed == prices.of:
                return _Settled(prices, times, skews, together, 0)
            prices = prices._replace(of=changed)
            before, times = times, self._run(prices)
            doubt = max(abs(one - other) for one, other in zip(before.end_ps, times.end_ps, strict=True))
            if doubt <= self._margin(times.makespan_ps) // _SETTLED:
                break
        return _Settled(prices, times, skews, together, doubt)

    def _components_of(self, scene: Scene) -> list[TrafficComponent]:
        """The components of a scene; one of all if their routes are not known."""
        dimensions = self._simulations.graph.dimensions
        members = [member for role, number in enumerate(scene.numbers) for member in self._instances.members(number, role, dimensions)]
        listed = None if self._paths is None else components_of(members, self._paths)
        return listed or [TrafficComponent(tuple(members), (), tuple(members))]

    def _is_one_by_one(self) -> bool:
        """Whether the system has an NPU do one operation of communication at a time."""
        graph = self._simulations.graph
        dimensions = tuple(range(len(graph.dimensions)))
        both = [Communicate((), Collective.ALL_REDUCE, 1, dimensions, -1, Pass.FORWARD, priced_ps=PS_PER_NS) for _ in range(2)]
        run = attrs.evolve(graph, operations=both, others=(), shared=False, figures=None)
        record = self._simulations.run(run, FormulaNetwork(self._target.platform))
        return record.finish_ps - record.start_ps > PS_PER_NS

    def _apart(self, skews: Sequence[int]) -> Callable[[int, int], int]:
        """How long after an instance another of the same program may still meet it: as long as its NPUs end apart."""
        of = self._instances.all
        programs = [{program for program, _ in (*each.places.items(), *each.received)} for each in of]

        def of_two(one: int, other: int) -> int:
            return 0 if programs[one].isdisjoint(programs[other]) else skews[one]

        return of_two

    def _sharing(self, measured: Sequence[Measured]) -> Callable[[int, int], bool]:
        """Whether two instances may delay each other: by links that they share, or as collectives of one program."""
        instances, kinds = self._instances.all, self.traffic.kinds
        known: dict[tuple[int, int], bool] = {}

        def share(one: int, other: int) -> bool:
            a, b = sorted((instances[one].kind, instances[other].kind))
            if (a, b) not in known:
                of_one = measured[a].busy.keys(), kinds[a]
                of_other = measured[b].busy.keys(), kinds[b]
                links = not of_one[0] or not of_other[0] or not of_one[0].isdisjoint(of_other[0])
                issued = all(isinstance(each.operation, Communicate) for each in (kinds[a], kinds[b]))
                known[a, b] = links or (issued and not kinds[a].programs.isdisjoint(kinds[b].programs))
            return known[a, b]

        return share

    def _shifted(self, prices: _Prices, measured: Sequence[Measured], sign: int) -> _Prices:
        """Prices that are lower or higher by what the network's state may change."""

        def moved(ps: int) -> int:
            return max(0, ps + sign * self._margin(ps))

        alone_ps = [moved(each.ps if sign > 0 else each.least_ps) for each in measured]
        each_ps = [
            self._extremes(kind, tuple(each.items()), sign, moved) for kind, each in zip(self.traffic.kinds, prices.each_ps, strict=True)
        ]
        of = [
            None if price is None else self._extremes(self.traffic.kinds[instance.kind], price, sign, moved)
            for instance, price in zip(self._instances.all, prices.of, strict=True)
        ]
        return _Prices(of, alone_ps, list(map(dict, each_ps)))

    def _late(self, prices: _Prices, measured: Sequence[Measured], times: RunTimes, skews: Sequence[int]) -> _Prices:
        """Prices with what collectives may take longer if their NPUs come apart, as far as any earlier instance has brought them apart."""
        of = list(prices.of)
        apart: dict[int, int] = {}
        for number in sorted(range(len(of)), key=times.begin_ps.__getitem__):
            instance = self._instances.all[number]
            kind = self.traffic.kinds[instance.kind]
            span = max(apart.get(program, 0) for program in instance.places)
            if isinstance(kind.operation, Communicate) and span > _APART_PS:
                longer = self._longer_ps(instance.kind, measured[instance.kind].ps, span)
                price = of[number] or ((kind.npus[0], prices.alone_ps[instance.kind]),)
                of[number] = tuple((npu, ps + longer) for npu, ps in price)
            ends = instance.received or instance.places.items()
            for program, _ in ends:
                apart[program] = max(apart.get(program, 0), skews[number])
        return prices._replace(of=of)

    def _longer_ps(self, number: int, alone_ps: int, span_ps: int) -> int:
        """How much longer a collective takes from its last NPU on if they come one by one within a time, or half of it."""
        kind = self.traffic.kinds[number]
        assert isinstance(kind.operation, Communicate)
        span = min(1 << span_ps.bit_length(), alone_ps // 2)
        component = self._component_of.get(number)
        key = number if component is None else (content(kind.operation), component.shape), span
        if key not in self._apart_known:
            longest = 0
            for each in (span, span // 2):
                graph, last = kind.apart(self._simulations.graph, self._npus, kind.npus if component is None else component.npus, each)
                record = self._simulations.run(graph, self._target)
                longest = max(longest, record.finish_ps - record.start_ps - last - alone_ps)
            self._apart_known[key] = longest
        return self._apart_known[key]

    def _extremes(self, kind: TrafficKind, price: Price, sign: int, moved: Callable[[int], int]) -> Price:
        """The least or the most time of groups, or of messages with a like route: which waits for which depends on who comes first."""
        platform, operation = self._target.platform, kind.operation
        routes: dict[int, Hashable] = {npu: None for npu, _ in price}
        if isinstance(operation, Send):
            # By the first and the last dimension that they enter: messages of one node differ from those between nodes.
            for npu in routes:
                end = operation.to.of(npu, self._npus)
                routes[npu] = platform.route(npu, end, True), platform.route(npu, end, False)
        most: dict[Hashable, int] = {}
        for npu, ps in price:
            most[routes[npu]] = (max if sign > 0 else min)(ps, most.get(routes[npu], ps))
        return tuple((npu, moved(most[routes[npu]])) for npu, _ in price)

    # -- Parts alone ---------------------------------------------------------------------------------------------------

    def _measured(self, number: int, kind: TrafficKind) -> Measured:
        """The times of a kind alone on the target: of components that are alike one is simulated."""
        members = kind.members(self._simulations.graph.dimensions, self._npus)
        components = None if self._paths is None else components_of(members, self._paths)
        classes = [] if components is None else list(alike(components))
        if not components or len(classes) == len(components):
            return self._simulated(kind, kind.npus)
        self._component_of[number] = classes[0][0]
        listed = [(same, self._of_class(kind, same[0])) for same in classes]
        busy: dict[Link, int] = {}
        each_ps: dict[int, int] = {}
        for same, times in listed:
            if times is None:
                return self._simulated(kind, kind.npus)
            for component in same:
                busy.update((self._name(component.links[place]), time) for place, time in times.busy.items())
                each_ps.update((member.npus[0], time) for member, time in zip(component.members, times.each_ps, strict=False))
        alone = [times.measured for _, times in listed if times is not None]
        return Measured(
            ps=max(each.ps for each in alone),
            least_ps=min(each.least_ps for each in alone),
            busy=busy,
            each_ps=each_ps,
            system_ps=max(each.system_ps for each in alone),
        )

    def _name(self, link: int) -> Link:
        assert self._paths is not None
        return self._paths.name(link)

    def _of_class(self, kind: TrafficKind, component: TrafficComponent) -> _ClassTimes | None:
        """The times of a component, and of all that are alike; None if it takes other links than expected."""
        operation = kind.operation
        what: Hashable = content(operation) if isinstance(operation, Communicate) else (operation.bytes, operation.unit)
        key = type(operation), what, component.shape
        if key not in self._alone:
            npus = component.npus if isinstance(operation, Communicate) else tuple(sorted(each.npus[0] for each in component.members))
            measured = self._simulated(kind, npus)
            names = {self._name(link): place for place, link in enumerate(component.links)}
            used = None
            if measured.busy.keys() <= names.keys():
                each_ps = tuple(measured.each_ps[each.npus[0]] for each in component.members) if measured.each_ps else ()
                used = _ClassTimes(measured, {names[name]: time for name, time in measured.busy.items()}, each_ps)
            self._alone[key] = used
        return self._alone[key]

    def _simulated(self, kind: TrafficKind, npus: tuple[int, ...]) -> Measured:
        """The times of a kind alone on the target, or of those of its NPUs that are given."""
        graph = kind.alone(self._simulations.graph, self._npus, npus)
        seen, keep = kept_times()
        record = self._simulations.run(attrs.evolve(graph, figures=keep), self._target)
        spent = record.finish_ps - record.start_ps
        loads = [load for load in self._target.links() if load.bytes]
        busy = {(load.dimension, load.source, load.target): int(load.utilisation * spent) for load in loads}
        self._simulated_bytes += sum(load.bytes for load in loads)
        if isinstance(kind.operation, Send):
            # The system's own times of a message are in the run as well.
            without, keep = kept_times()
            self._simulations.run(attrs.evolve(graph, figures=keep), PricedMessages(self._target, {}))
            of_system = _arrived(without)
            each = {npu: max(0, time - of_system[npu]) for npu, time in _arrived(seen).items()}
            return Measured(max(each.values()), min(each.values()), busy, each, max(of_system.values()))
        ends = record.npu_end_ps
        if len(ends) == self._npus:
            ends = [ends[npu] for npu in npus]
        return Measured(spent, min(spent, min(ends) - record.start_ps), busy, {})

    def _floor_ps(self, measured: Sequence[Measured], counts: Mapping[int, int]) -> int:
        """What no run can be shorter than: how long the busiest link needs for all that it carries."""
        links: Counter[Link] = Counter()
        for number, each in enumerate(measured):
            for link, time in each.busy.items():
                links[link] += time * counts[number]
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

    def _run(self, prices: _Prices) -> RunTimes:
        """The times of the run in which communication takes known times."""
        seen, keep = kept_times()
        graph = self._priced(prices, keep)
        record = self._simulations.run(graph, self._messages(prices))
        number_of = {id(program.operations): number for number, program in enumerate(graph.programs(self._npus))}
        numbers = [
            next(place for place, (operations, _) in enumerate(self.traffic.programs) if operations is program.operations)
            for program in self._simulations.graph.programs(self._npus)
        ]
        count = len(self._instances.all)
        ended: list[Sequence[int]] = [()] * len(self.traffic.programs)
        begins, ends = [0] * count, [0] * count
        for program in seen:
            number = numbers[number_of[id(program.program.operations)]]
            begun = dict(zip(program.sends, program.sends_begun_ps, strict=True))
            ended[number] = program.ended_ps
            for place, operation in enumerate(self._instances.operations[number]):
                instance = self._instances.number_at.get((number, place))
                if instance is None:
                    continue
                end = program.ended_ps[place]
                price = prices.ps(instance, self._instances.all[instance].kind)
                if isinstance(operation, Communicate):
                    end -= operation.update_ps
                    begins[instance] = end - price
                else:
                    begins[instance] = begun.get(place, end - price)
                ends[instance] = max(end, begins[instance])
        return RunTimes(ended, begins, ends, record.finish_ps - record.start_ps)

    def _variants(self, prices: _Prices) -> dict[int, int]:
        """Bytes for the messages of instances that have a time of their own, so that the network tells them from others."""
        taken = {kind.operation.bytes for kind in self.traffic.kinds if isinstance(kind.operation, Send)}
        listed: dict[tuple[int, Price], int] = {}
        result = {}
        for number, price in enumerate(prices.of):
            kind = self._instances.all[number].kind
            operation = self.traffic.kinds[kind].operation
            if price is None or not isinstance(operation, Send):
                continue
            if (kind, price) not in listed:
                listed[kind, price] = next(size for size in itertools.count(operation.bytes + 1) if size not in taken)
                taken.add(listed[kind, price])
            result[number] = listed[kind, price]
        return result

    def _messages(self, prices: _Prices) -> PricedMessages:
        """The network on which messages take the times of their kinds."""
        table: dict[tuple[int, int, int], int] = {}
        for kind, each_ps in zip(self.traffic.kinds, prices.each_ps, strict=True):
            if isinstance(kind.operation, Send):
                for npu, time in each_ps.items():
                    table[npu, kind.operation.to.of(npu, self._npus), kind.operation.bytes] = time
        for number, size in self._variants(prices).items():
            kind = self.traffic.kinds[self._instances.all[number].kind]
            assert isinstance(kind.operation, Send)
            price = prices.of[number]
            assert price is not None
            table.update(((npu, kind.operation.to.of(npu, self._npus), size), ps) for npu, ps in price)
        return PricedMessages(self._target, table)

    def _priced(self, prices: _Prices, figures: Callable[..., Any] | None) -> ExecutionGraph:
        """The graph in which collectives take the times of their instances."""
        graph = self._simulations.graph
        sizes = {}
        for number, size in self._variants(prices).items():
            instance = self._instances.all[number]
            sizes.update(dict.fromkeys((*instance.places.items(), *instance.received), size))
        composites: dict[int, Composite] = {}
        priced = {id(operations): self._priced_program(number, operations, prices, sizes, composites)
                  for number, (operations, _) in enumerate(self.traffic.programs)}  # fmt: skip
        return attrs.evolve(
            graph,
            operations=priced[id(graph.operations)],
            others=tuple(NpuProgram(priced[id(each.operations)], each.npus) for each in graph.others),
            shared=False,
            figures=figures or graph.figures,
        )

    def _priced_program(
        self,
        program: int,
        operations: Sequence[Operation],
        prices: _Prices,
        sizes: Mapping[tuple[int, int], int],
        composites: dict[int, Composite],
    ) -> Sequence[Operation]:
        """The operations of a program with the times of their instances: of rows, each time makes a kind."""
        rows = kinds_of(operations)
        places = operations.kind_of if isinstance(operations, Rows) else range(len(operations))
        kinds: list[Operation] = []
        known: dict[Hashable, int] = {}
        kind_of = []
        for place, kind in enumerate(places):
            instance = self._instances.number_at.get((program, place))
            price = None if instance is None else prices.ps(instance, self._instances.all[instance].kind)
            size = sizes.get((program, place))
            key = kind, price, size
            if key not in known:
                known[key] = len(kinds)
                kinds.append(self._priced_kind(rows[kind], price, size, composites))
            kind_of.append(known[key])
        if isinstance(operations, Rows):
            return attrs.evolve(operations, kinds=kinds, kind_of=column(kind_of, "I"))
        return [kinds[kind] for kind in kind_of]

    def _priced_kind(self, operation: Operation, price: int | None, size: int | None, composites: dict[int, Composite]) -> Operation:
        if isinstance(operation, Composite):
            return self._priced_composite(operation, composites)
        if isinstance(operation, Communicate) and price is not None:
            return attrs.evolve(operation, priced_ps=price)
        if isinstance(operation, (Send, Receive)) and size is not None:
            return attrs.evolve(operation, bytes=size)
        return operation

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
