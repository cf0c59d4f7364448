"""Communication of an iteration: simulated by the engine on the platform of the experiment, one by one, and cached by size."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs
from astra_sim.commands import Components, Experiment, Plugins, build, run_components
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.models import ModelDescription
from astra_sim.schedule import Collective, rank
from astra_sim.shapes import ELEMENT_BYTES

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

    Up to 64 KiB every size is simulated; between larger ones, eight an octave, the time is interpolated.
    """

    components: Components
    sharding: Sharding
    npus: tuple[int, ...]
    _times: dict[tuple[str, int], float] = attrs.field(factory=dict)

    def all_reduce_us(self, size: int) -> float:
        """An all-reduce among the ranks of tensor parallelism, in all groups at once."""
        t = self.sharding.tensor
        groups = [tuple(range(first, first + t)) for first in range(0, self.sharding.stage_npus, t)]
        return self._interpolated("all_reduce", size, lambda exact: self._collective_us(Collective.ALL_REDUCE, exact, groups))

    def tensor_groups(self) -> list[tuple[int, ...]]:
        """The NPUs of the platform that share each product, of all stages."""
        t = self.sharding.tensor
        return [self.npus[first : first + t] for first in range(0, len(self.npus), t)]

    def gather_us(self, size: int) -> float:
        """An all-gather of `size` bytes of each rank of data parallelism, and the reduce-scatter of the sums of as many of each."""
        t, d = self.sharding.tensor, self.sharding.data
        groups = [tuple(range(first, t * d, t)) for first in range(t)]
        there = self._interpolated("all_gather", size, lambda exact: self._collective_us(Collective.ALL_GATHER, exact, groups))
        return there + self._interpolated(
            "reduce_scatter", size * d, lambda exact: self._collective_us(Collective.REDUCE_SCATTER, exact, groups)
        )

    def all_to_all_us(self, size: int) -> float:
        """An all-to-all of `size` bytes of each NPU of a stage."""
        groups = [tuple(range(self.sharding.stage_npus))]
        return self._interpolated("all_to_all", size, lambda exact: self._collective_us(Collective.ALL_TO_ALL, exact, groups))

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
        step = 1 << max(0, size.bit_length() - _STEPS_PER_OCTAVE.bit_length()) if size > 1 << 16 else 1
        low = size // step * step
        first = self._simulated(kind, low, simulate)
        if low == size:
            return first
        return first + (self._simulated(kind, low + step, simulate) - first) * (size - low) / step

    def _simulated(self, kind: str, size: int, simulate: Callable[[int], float]) -> float:
        if (kind, size) not in self._times:
            self._times[kind, size] = simulate(size)
        return self._times[kind, size]

    def _collective_us(self, kind: Collective, size: int, groups: list[tuple[int, ...]]) -> float:
        """Microseconds in which all groups, numbers among the NPUs of the instance, do a collective of `size` bytes."""
        every = tuple(range(self.components.platform.npus))
        dimensions = tuple(range(len(self.components.platform.logical_dimensions())))
        programs: dict[tuple[int, ...], list[Operation]] = {}
        for group in groups:
            npus = tuple(self.npus[each] for each in group)
            programs[npus] = [Communicate((), kind, size, dimensions, -1, Pass.FORWARD, group=None if npus == every else npus)]
        return self._run(f"{kind} of {size} bytes", programs)

    def _messages_us(self, size: int, senders: tuple[int, ...], receivers: tuple[int, ...]) -> float:
        """Microseconds of messages of `size` bytes between the ends of `message_ends`."""
        programs: dict[tuple[int, ...], list[Operation]] = {}
        for sender, receiver in message_ends(senders, receivers):
            programs.setdefault((sender,), []).append(Send((), rank(receiver), size))
            programs.setdefault((receiver,), []).append(Receive((), rank(sender), size))
        return self._run(f"messages of {size} bytes", programs)

    def _run(self, name: str, programs: dict[tuple[int, ...], list[Operation]]) -> float:
        """Microseconds of a run in which some NPUs do operations, and the others nothing."""
        platform = self.components.platform
        first: tuple[Operation, ...] = ()  # of NPU 0, and of all that no other program names
        others = []
        for npus, operations in programs.items():
            if 0 in npus:
                first = tuple(operations)
            else:
                others.append(NpuProgram(tuple(operations), npus))
        idle = set(range(platform.npus)).difference(*programs)
        if first and idle:
            others.append(NpuProgram((), tuple(sorted(idle))))
        graph = ExecutionGraph(first, platform.logical_dimensions(), (), None, tuple(others))
        result = run_components(attrs.evolve(self.components, graph=graph), name, time.perf_counter(), None)
        return result.finish_ns / 1e3


def message_ends(senders: tuple[int, ...], receivers: tuple[int, ...]) -> list[tuple[int, int]]:
    """The ends of equal messages from one set of NPUs to another, as few as there may be from each NPU and to each."""
    messages = max(len(senders), len(receivers))
    return [(senders[number * len(senders) // messages], receivers[number * len(receivers) // messages]) for number in range(messages)]


def exchange_of_tokens(times: CommunicationTimes, model: ModelDescription, exchange: str, precision: str) -> OfTokens:
    """The time in which tokens of each rank of data parallelism get to the experts of a layer and back.

    `gather`: every rank gets all tokens, and a share of the sums. `all-to-all`: each token is sent to each of its experts, in the type
    of products, and comes back from each; ranks of tensor parallelism send a share of the tokens each.
    """
    if exchange == "gather":
        return lambda tokens: times.gather_us(round(tokens * model.hidden * ACTIVATION_BYTES))
    copies = model.top_k * model.hidden / times.sharding.tensor
    there, back = min(ELEMENT_BYTES[precision], ACTIVATION_BYTES) * copies, ACTIVATION_BYTES * copies
    return lambda tokens: times.all_to_all_us(round(tokens * there)) + times.all_to_all_us(round(tokens * back))


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
