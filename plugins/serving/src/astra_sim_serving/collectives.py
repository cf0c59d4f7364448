"""Communication of an iteration: simulated by the engine on the platform of the experiment, one by one, and cached by size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs
from astra_sim.commands import Components, Experiment, Plugins, build, run_components
from astra_sim.graph import ExecutionGraph, NpuProgram, Operation, Receive, Send
from astra_sim.models import ModelDescription
from astra_sim.schedule import Collective, rank
from astra_sim.shapes import ELEMENT_BYTES

from astra_sim_serving.formulas import expert_layers
from astra_sim_serving.launches import GroupCollective, LaunchStep, graph_of, graph_of_programs
from astra_sim_serving.model_memory import ACTIVATION_BYTES, Sharding
from astra_sim_serving.npus import place_in_block

OfBytes = Callable[[int], float]
OfTokens = Callable[[float], float]
"""Microseconds by bytes of each NPU, and by tokens of each rank of data parallelism."""

_STEPS_PER_OCTAVE = 8


@attrs.define(eq=False)
class CommunicationTimes:
    """Times of concurrent transfers of an instance's NPUs, in microseconds. `npus` are in order of stages, in each of them of ranks of data
    parallelism, in each of these of tensor parallelism.

    Up to 64 KiB every size is simulated; between larger ones, eight an octave, the time is interpolated, unless it is to be `exact`.
    """

    components: Components
    sharding: Sharding
    npus: tuple[int, ...]
    exact: bool = False
    _times: dict[tuple[str, int], float] = attrs.field(factory=dict)

    def all_reduce(self, size: int) -> GroupCollective:
        """An all-reduce among the ranks of tensor parallelism, in all groups at once."""
        t = self.sharding.tensor
        return GroupCollective(Collective.ALL_REDUCE, size, tuple(tuple(range(i, i + t)) for i in range(0, self.sharding.stage_npus, t)))

    def all_reduce_us(self, size: int) -> float:
        """The time of such an all-reduce."""
        return self.collective_us(self.all_reduce(size))

    def tensor_groups(self) -> list[tuple[int, ...]]:
        """The NPUs of the platform that share each product, of all stages."""
        t = self.sharding.tensor
        return [self.npus[first : first + t] for first in range(0, len(self.npus), t)]

    def gather(self, size: int) -> tuple[GroupCollective, GroupCollective]:
        """An all-gather of `size` bytes of each rank of data parallelism, and the reduce-scatter of the sums of as many of each."""
        t, d = self.sharding.tensor, self.sharding.data
        groups = tuple(tuple(range(first, t * d, t)) for first in range(t))
        return GroupCollective(Collective.ALL_GATHER, size, groups), GroupCollective(Collective.REDUCE_SCATTER, size * d, groups)

    def all_to_all(self, size: int) -> GroupCollective:
        """An all-to-all of `size` bytes of each NPU of a stage."""
        return GroupCollective(Collective.ALL_TO_ALL, size, (tuple(range(self.sharding.stage_npus)),))

    def collective_us(self, collective: GroupCollective) -> float:
        """Microseconds of a collective alone."""
        return self._interpolated(
            str(collective.kind), collective.bytes, lambda exact: self._collective_us(collective._replace(bytes=exact))
        )

    def leaves_node(self, groups: Sequence[Sequence[int]]) -> bool:
        """Whether NPUs of a group are in several nodes, blocks of the first dimension; if there is but one, each NPU is a node."""
        dimensions = self.components.platform.dimensions
        node = dimensions[0].size if len(dimensions) > 1 else 1
        return any(len({self.npus[each] // node for each in group}) > 1 for group in groups)

    def send_us(self, size: int) -> float:
        """Messages of `size` bytes from all NPUs of a stage to those of the next."""
        each = self.sharding.stage_npus
        senders, receivers = self.npus[:each], self.npus[each : 2 * each]
        return self._interpolated("send", size, lambda exact: self._messages_us(exact, senders, receivers))

    def between_us(self, senders: int, size: int) -> float:
        """A transfer from the first NPUs to the others: in equal messages, from each and to each."""
        first, others = self.npus[:senders], self.npus[senders:]
        bytes_of_npu = -(-size // max(len(first), len(others)))
        return self._interpolated("transfer", bytes_of_npu, lambda exact: self._messages_us(exact, first, others))

    def _interpolated(self, kind: str, size: int, simulate: Callable[[int], float]) -> float:
        """The time of a size, simulated or between two that are."""
        step = 1 << max(0, size.bit_length() - _STEPS_PER_OCTAVE.bit_length()) if size > 1 << 16 and not self.exact else 1
        low = size // step * step
        first = self._simulated(kind, low, simulate)
        if low == size:
            return first
        return first + (self._simulated(kind, low + step, simulate) - first) * (size - low) / step

    def _simulated(self, kind: str, size: int, simulate: Callable[[int], float]) -> float:
        if (kind, size) not in self._times:
            self._times[kind, size] = simulate(size)
        return self._times[kind, size]

    def _collective_us(self, collective: GroupCollective) -> float:
        """Microseconds in which all groups do a collective."""
        graph = graph_of([collective], self.npus, self.components)
        return self._run(f"{collective.kind} of {collective.bytes} bytes", graph)

    def _messages_us(self, size: int, senders: tuple[int, ...], receivers: tuple[int, ...]) -> float:
        """Microseconds of messages of `size` bytes between the ends of `message_ends`."""
        programs: dict[tuple[int, ...], list[Operation]] = {}
        for sender, receiver in message_ends(senders, receivers):
            programs.setdefault((sender,), []).append(Send((), rank(receiver), size))
            programs.setdefault((receiver,), []).append(Receive((), rank(sender), size))
        npu_programs = [NpuProgram(tuple(operations), npus) for npus, operations in programs.items()]
        return self._run(f"messages of {size} bytes", graph_of_programs(npu_programs, self.components))

    def _run(self, name: str, graph: ExecutionGraph) -> float:
        """Microseconds of a run."""
        result = run_components(attrs.evolve(self.components, graph=graph), name, time.perf_counter(), None)
        return result.finish_ns / 1e3


def message_ends(senders: tuple[int, ...], receivers: tuple[int, ...]) -> list[tuple[int, int]]:
    """The ends of equal messages from one set of NPUs to another, as few as there may be from each NPU and to each."""
    messages = max(len(senders), len(receivers))
    return [(senders[number * len(senders) // messages], receivers[number * len(receivers) // messages]) for number in range(messages)]


Exchange = Callable[[float], tuple[GroupCollective, ...]]
"""The collectives in which tokens get to the experts of a layer and back, by the tokens of each rank of data parallelism."""


def exchange_of_tokens(times: CommunicationTimes, model: ModelDescription, exchange: str, precision: str) -> Exchange:
    """The exchange of tokens with the experts of a layer: those before and after the experts.

    `gather`: every rank gets all tokens, and a share of the sums. `all-to-all`: each token is sent to each of its experts, in the type
    of products, and comes back from each; ranks of tensor parallelism send a share of the tokens each.
    """
    if exchange == "gather":
        return lambda tokens: times.gather(round(tokens * model.hidden * ACTIVATION_BYTES))
    copies = model.top_k * model.hidden / times.sharding.tensor
    there, back = min(ELEMENT_BYTES[precision], ACTIVATION_BYTES) * copies, ACTIVATION_BYTES * copies
    return lambda tokens: (times.all_to_all(round(tokens * there)), times.all_to_all(round(tokens * back)))


@attrs.frozen(eq=False)
class SharedCollectives:
    """The collectives of iterations that run on links that others share: all-reduces if `reduces`, and exchanges with experts."""

    times: CommunicationTimes
    reduces: bool
    exchange: Exchange | None

    def plan(
        self, model: ModelDescription, tokens: int, mean_tokens: float, first_us: float, layers_us: float, experts_us: float, last_us: float
    ) -> tuple[list[LaunchStep], int]:
        """The steps of an iteration, and the picoseconds that they take alone.

        Of the ranks of data parallelism the fullest has `tokens`, and all have `mean_tokens` on average. `layers_us` are all layers without
        these collectives and without experts that have exchanges, `experts_us` these. A first all-reduce follows the first half of a layer.
        A second one ends it; in the last layers, those with experts, two exchanges with the experts between them end it if there are some.
        """
        with_experts = expert_layers(model) if self.exchange is not None else 0
        reduction = (self.times.all_reduce(tokens * model.hidden * ACTIVATION_BYTES),) if self.reduces else ()
        half = _ps(layers_us / model.layers / 2)
        dense: list[LaunchStep] = [half, *reduction, half, *reduction]
        steps = [_ps(first_us), *dense * (model.layers - with_experts)]
        if with_experts:
            assert self.exchange is not None
            there, back = self.exchange(mean_tokens)
            steps += [half, *reduction, half, there, _ps(experts_us / with_experts), back] * with_experts
        steps.append(_ps(last_us))
        return steps, sum(each if isinstance(each, int) else _ps(self.times.collective_us(each)) for each in steps)


def _ps(us: float) -> int:
    return round(us * 1e6)


@attrs.define(eq=False)
class TransferTimes:
    """Times of transfers of keys and values from the NPUs of an instance to those of another, each as if it were alone."""

    components: Components
    _between: dict[tuple[int, ...], CommunicationTimes] = attrs.field(factory=dict)

    def seconds(self, senders: tuple[int, ...], receivers: tuple[int, ...], size: float) -> float:
        """Seconds of `size` bytes in all."""
        npus = place_in_block((*senders, *receivers), self.components.platform)
        if npus not in self._between:
            self._between[npus] = CommunicationTimes(self.components, Sharding(), npus)
        return self._between[npus].between_us(len(senders), round(size)) / 1e6


def build_network(experiment: Experiment, plugins: Plugins) -> Components:
    """The platform, network and system of an experiment, for runs of collectives alone. Raises InputError."""
    result = experiment.copied()
    result.sections.pop("compute", None)
    result.use("workload", ExecutionGraph((), (), ()), plugins)
    return build(result, plugins)
