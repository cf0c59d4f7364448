"""The network `auto`: it answers a run by parts, each simulated on another network, with the error bound of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Operation, Unit, Wait, graph_kinds
from astra_sim.network import EventNetwork, LinkLoad, Message, MessageFigures, Network, RefiningNetwork, Simulations
from astra_sim.platform import GroupShape, Platform, Route
from astra_sim.records import RunRecord
from astra_sim.schedule import Collective

from astra_sim_network_auto.error import Basis, NetworkError, Part
from astra_sim_network_auto.formula import FormulaNetwork
from astra_sim_network_auto.measuring import Measuring, SliceTimes, sent_bytes
from astra_sim_network_auto.mixes import Mixes
from astra_sim_network_auto.options import AutoOptions
from astra_sim_network_auto.slices import PartSlice, slices_of

_STATE, _STATE_PS = 0.006, 20_000
"""By how much a slice may differ in the run, if the network's clock and arbiters go on from slice to slice: a share of its time, and
picoseconds at least. Random experiments stay below (`docs/networks.md`); there is no proof."""


def auto_network(options: AutoOptions, platform: Platform, networks: Callable[[str], Network]) -> AutoNetwork:
    """The network of an experiment. Raises InputError if the target is none on which messages wait for each other."""
    target = networks(options.target)
    if not isinstance(target, EventNetwork):
        raise InputError(
            f"target is {options.target!r}, on which messages never wait for each other, so that a run on it costs next to nothing;"
            " expected a network on which they do, such as packet"
        )
    return AutoNetwork(target, options.target, options.share, options.part_bytes)


class _Answer(NamedTuple):
    """A run by its parts."""

    record: RunRecord
    error: NetworkError


_MET = 0.0015
"""Such a share of a whole run whose kinds of traffic have times of their own: from its state follows also what waits for what on links."""


class AutoNetwork(RefiningNetwork):
    """Runs on a `target` network in parts.

    A program that all NPUs run falls into slices that nothing overlaps (`slices`). Each kind of slice is simulated once on the target; the
    run is that of the program with the times of its slices. Other runs are bounded by the times of their kinds of traffic (`mixes`). A run
    of which the bound is wider than asked is simulated whole unless it sends more than `part_bytes`. As an `EventNetwork` it is the
    target itself.
    """

    def __init__(self, target: EventNetwork, name: str, asked: float, part_bytes: int) -> None:
        super().__init__(target.platform)
        self._target = target
        self._name = name
        self._asked = asked
        self._part_bytes = part_bytes
        self._ran_whole = True
        for attribute in ("has_traffic_classes", "device", "measured_dimensions", "accounting_dimension", "remedy", "price_remedy"):
            setattr(self, attribute, getattr(target, attribute))
        self.reports_completion, self.held_bytes, self.route_rules = target.reports_completion, target.held_bytes, target.route_rules

    def refine(self, simulations: Simulations) -> RunRecord:
        """The record of a run, with its `network_error` among its figures."""
        graph = simulations.graph
        if not simulations.alike or self._target.begin() != 0:  # else the run begins later
            return self._whole(simulations)
        answer = self._by_slices(simulations) if _is_sliceable(graph) else None
        answer = answer or self._by_kinds(simulations)
        if answer is None or (answer.error.width > self._asked and answer.error.run_bytes <= self._part_bytes):
            return self._whole(simulations)
        self._ran_whole = False
        return self._answered(*answer)

    def _whole(self, simulations: Simulations) -> RunRecord:
        """The whole run on the target."""
        self._ran_whole = True
        record = simulations.final(simulations.graph, self._target)
        ps = record.finish_ps - record.start_ps
        whole = Part("the run", 1, ps, ps, ps, Basis.WHOLE)
        return self._answered(record, self._error(record, [whole], 0, 0, sent_bytes(record, self.platform)))

    def _by_kinds(self, simulations: Simulations) -> _Answer | None:
        """The run with the times of its kinds of traffic; None if hardly any of them repeats."""
        mixes = Mixes(simulations, self._target, partial(_state_ps, forgets=self._target.forgets))
        if not mixes.repeats():
            return None
        mixed = mixes.bounded()
        if mixed is None:
            return None
        record = simulations.final(mixed.graph, mixed.network)
        met_ps = _state_ps(mixed.ps, self._target.forgets, _MET)
        below, above = mixed.ps - mixed.lower_ps + met_ps, mixed.upper_ps - mixed.ps + met_ps
        return _Answer(record, self._error(record, mixed.parts, below, above, mixed.simulated_bytes, mixed.floor_ps))

    def _by_slices(self, simulations: Simulations) -> _Answer | None:
        """The run with the times of its slices; None if it is one slice."""
        graph = simulations.graph
        measuring = Measuring(simulations, self._target, self._part_bytes)
        operations = list(graph.operations)
        slices = [each.network_part() for each in slices_of(operations) if each.collectives]
        if len(slices) == 1 and not measuring.is_continued(slices[0]):
            return None
        times = [measuring.times(each) for each in slices]
        for part, measured in zip(slices, times, strict=True):
            for place in range(part.begin, part.end):
                operations[place] = _priced(operations[place], measured.durations_ps[place - part.begin])
        record = simulations.final(attrs.evolve(graph, operations=operations, shared=False), FormulaNetwork(self.platform))
        counts = Counter(map(id, times))
        kinds = {id(each): (part, each) for part, each in zip(slices, times, strict=True)}
        parts = [_part_of(part, each, counts[number], self._target.forgets) for number, (part, each) in kinds.items()]
        below = sum(part.count * (part.ps - part.least_ps) for part in parts)
        above = sum(part.count * (part.most_ps - part.ps) for part in parts)
        return _Answer(record, self._error(record, parts, below, above, sum(each.bytes for _, each in kinds.values())))

    def _error(
        self, record: RunRecord, parts: Sequence[Part], below_ps: int, above_ps: int, simulated_bytes: int, floor_ps: int | None = None
    ) -> NetworkError:
        """The error of the makespan of a record, which may be so much smaller or larger."""
        makespan = record.finish_ps
        return NetworkError(
            target=self._name,
            asked=self._asked,
            makespan_ps=makespan,
            lower_ps=makespan - below_ps,
            upper_ps=makespan + above_ps,
            parts=parts,
            simulated_bytes=simulated_bytes,
            run_bytes=sent_bytes(record, self.platform),
            floor_ps=floor_ps,
        )

    def _answered(self, record: RunRecord, error: NetworkError) -> RunRecord:
        """The record with its error among its figures."""
        self.doubts = error.doubts()
        return attrs.evolve(record, figures={**record.figures, **error.figures()})

    # -- The target ----------------------------------------------------------------------------------------------------

    def route(self, source: int, destination: int) -> Route:
        """The route on the target."""
        return self._target.route(source, destination)

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        """The price on the target."""
        return self._target.collective_ps(collective, size, shape)

    def begin(self) -> int:
        """Begin a run on the target."""
        self._ran_whole = True
        return self._target.begin()

    def on_progress(self, tell: Callable[[int], None] | None) -> None:
        """Watch the target."""
        self._target.on_progress(tell)

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Send messages on the target."""
        self._target.inject(time, messages)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Advance the target."""
        return self._target.advance(until)

    def take_completed(self) -> Sequence[int]:
        """The facts about the target."""
        return self._target.take_completed()

    def keep_message_figures(self) -> None:
        """Keep figures of messages on the target."""
        self._target.keep_message_figures()

    def message_figures(self) -> Mapping[int, MessageFigures]:
        """Figures of messages on the target."""
        return self._target.message_figures()

    def function_table(self) -> object | None:
        """The function table of the target."""
        return self._target.function_table()

    def statistics(self) -> dict[str, object]:
        """The figures of the target if the whole run was on it."""
        return self._target.statistics() if self._ran_whole else {}

    def links(self) -> Sequence[LinkLoad]:
        """The links of the target if the whole run was on it."""
        return self._target.links() if self._ran_whole else ()

    def reports(self) -> dict[str, str]:
        """The files of the target if the whole run was on it."""
        return self._target.reports() if self._ran_whole else {}


def _is_sliceable(graph: ExecutionGraph) -> bool:
    """Whether all NPUs run one program of collectives and computing alone, of which only collectives need the unit of communication.

    Composites have collectives of their own; other operations that need the unit would no longer wait for collectives that have a price.
    """
    return not graph.others and all(
        isinstance(kind, (Communicate, Wait)) or (isinstance(kind, Compute) and kind.unit is not Unit.COMMUNICATION)
        for kind in graph_kinds(graph)
    )


def _priced(operation: Operation, duration_ps: int) -> Operation:
    """A collective that takes so long as a whole, with the time that it waits for its unit; another operation as it is."""
    if not isinstance(operation, Communicate) or not operation.bytes:
        return operation
    return attrs.evolve(operation, priced_ps=max(0, duration_ps - operation.update_ps), unit=Unit.NONE)


def _state_ps(ps: int, forgets: bool, share: float = _STATE) -> int:
    """By how many picoseconds a time on the target may differ in the run, from its state."""
    return 0 if forgets else max(_STATE_PS, int(share * ps))


def _part_of(part: PartSlice, times: SliceTimes, count: int, forgets: bool) -> Part:
    """A kind of slices, and the error bound of a slice in the run.

    If NPUs do not end at once, they begin the next slice as far apart, and it is not known whether that makes it shorter or longer: each
    way twice as much is allowed for. If the network does not forget, its clock and its arbiters are not as in a run of the slice alone.
    """
    beyond = 2 * times.skew_ps
    beyond += _state_ps(times.ps, forgets)
    least, most = min(times.least_ps, times.ps) - beyond, max(times.most_ps, times.ps) + beyond
    if times.continued:
        basis = Basis.CONTINUED
    elif times.skew_ps:
        basis = Basis.SKEWED
    else:
        basis = Basis.EXACT if forgets else Basis.SIMULATED
    return Part(_name(part), count, times.ps, max(0, least), most, basis)


def _name(part: PartSlice) -> str:
    """Describe a slice."""
    kinds: Counter[tuple[Any, int]] = Counter()
    for operation in part.operations:
        if isinstance(operation, Communicate):
            kinds[operation.collective, operation.bytes] += 1
    return " and ".join(f"{count} x {collective} of {size} bytes" for (collective, size), count in kinds.items())
