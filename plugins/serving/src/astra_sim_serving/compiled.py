"""The loop of a fleet in C++ (`native/`), for what most experiments have; the other loop has everything, and gives the same results.

In C++ are instances for prompts, answers or both, also those that share experts, of one or several models, all schedulers, drafts, the
cache with its contents, all routers, jumps, and the figures of requests. From Python come times of kernels and collectives, once for each
shape, plans of policies of plugins, decisions of autoscaling, and transfers that share links. Not in C++ are pipelines, adapters, memories
behind the cache, timelines, and collectives that share links.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import attrs
from astra_sim import PluginError

from astra_sim_serving.autoscale import Autoscaler, InstanceLoad, ScaledUnit
from astra_sim_serving.batch import BatchShape
from astra_sim_serving.fleet import HandOver, ServingFleet
from astra_sim_serving.instance import InstanceTotals, ServingInstance
from astra_sim_serving.iteration_time import FormulaTimes, IterationTime, KernelTimes, LayerDraft, ModelDraft, TableTimes
from astra_sim_serving.lengths import LengthSampler
from astra_sim_serving.policies import PolicyScheduler
from astra_sim_serving.policies_in_core import policy_in_core
from astra_sim_serving.recorded import RecordedGaps, RecordedSequences
from astra_sim_serving.replica import Replica
from astra_sim_serving.request import ServingRequest
from astra_sim_serving.requests import ARRIVAL_STREAM, INPUT_STREAM, OUTPUT_STREAM, DrawnRequests
from astra_sim_serving.scheduler import InstanceScheduler
from astra_sim_serving.speculation import Speculation
from astra_sim_serving.transfers import PromptChunk, SharedTransfers, TransferPath, TransfersInTurn

if TYPE_CHECKING:
    from astra_sim_serving import _core

EVENTS_OF_A_LOOK = 0x1000
"""Events between two reports of progress."""
_WORDS = (1 << 64) - 1
_MOST_CACHED = 1 << 60


@attrs.define(eq=False)
class CompiledFleet:
    """A fleet whose events happen in C++. `instances` take their totals when it has run, or was stopped.

    `outcomes` are those of the drafts of each model that has some, `transfers` those of the hand-over, if instances take turns.
    `names` has the models by their numbers, `models` by pools.
    """

    core: _core.Fleet
    instances: Sequence[ServingInstance]
    sequences: RecordedSequences
    gaps: RecordedGaps
    on_progress: Callable[[float, int], None] | None
    outcomes: Sequence[tuple[Speculation, _core.Speculation]]
    transfers: _core.TransfersInTurn | None
    scaler: Autoscaler | None
    hand_over: HandOver | None
    names: Sequence[str]
    models: Mapping[int, str]

    @property
    def events(self) -> int:
        """Events that have happened."""
        return self.core.events

    def run(self) -> None:
        """Let everything happen, until all requests have ended."""
        if self.scaler is not None:
            self.scaler.begin()
        self.core.open([each.number for each in (self.instances if self.scaler is None else self.scaler.takers)])
        shared = self.hand_over.transfers if self.hand_over is not None else None
        on_progress = self.on_progress
        if isinstance(shared, SharedTransfers) and on_progress is not None:
            shared.links.report = lambda at: on_progress(at, self.core.events)
        try:
            while self.core.advance(EVENTS_OF_A_LOOK) == EVENTS_OF_A_LOOK:
                if self.on_progress is not None:
                    self.on_progress(self.core.now, self.core.events)
        finally:
            if isinstance(shared, SharedTransfers):
                shared.links.report = None  # the core has the transfers, and these would have the core
            self._take_totals()
        for each in self.instances:
            numbers = self.core.requests_in(each.number)
            if numbers:
                raise PluginError(f"instance {each.number} plans nothing, and requests {numbers[:5]} are there: they would never end")

    def _take_totals(self) -> None:
        for each in self.instances:
            each.totals = InstanceTotals(*self.core.totals(each.number))
            scheduler = each.scheduler
            scheduler.cache.free_blocks, scheduler.hit_tokens, scheduler.looked_up_tokens = self.core.scheduler_totals(each.number)
        for speculation, outcomes in self.outcomes:
            speculation.drafted, speculation.accepted = outcomes.drafted, outcomes.accepted
        if self.hand_over is not None and self.transfers is not None:
            self.hand_over.transfers.total_s, self.hand_over.transfers.count = self.transfers.total_s, self.transfers.count

    def sequences_of(self, model: str) -> RecordedSequences:
        """The requests of a model."""
        return self.sequences.of_model(self.names.index(model))


def compile_fleet(
    fleet: ServingFleet, requests: Iterable[ServingRequest], policies: Mapping[str, str], prefix_beta: float, seed: int
) -> CompiledFleet | None:
    """The same fleet in C++; None if it has something that is not there, or C++ is not installed. `policies`: of routers, by model."""
    module = _module()
    if module is None or not _is_plain(fleet):
        return None
    drawn = requests if isinstance(requests, DrawnRequests) else None
    known = [] if drawn is not None else list(requests)
    instances = [each for replica in fleet.replicas for each in replica.instances]
    names = list(policies)
    drafting = {id(each.speculation): each.speculation for each in instances if each.speculation is not None}
    outcomes = {key: module.Speculation(each.acceptance, seed & _WORDS) for key, each in drafting.items()}

    def request_at(number: int, arrival: float) -> ServingRequest:
        if drawn is not None:
            return drawn.at(number, arrival)
        return known[number] if known[number].arrival == arrival else attrs.evolve(known[number], arrival=arrival)

    def choose(number: int, takers: list[int]) -> int:
        """The place of the instance that the router chooses, which does not look at the arrival."""
        return takers.index(fleet.route(request_at(number, 0.0), [instances[taker] for taker in takers]).number)

    try:
        columns = _columns_of(known, names) if drawn is None else _drawn_columns(module, drawn)
        core: _core.Fleet = module.Fleet(
            fleet.concurrency or 0,
            fleet.front_end_s,
            max(1, fleet.queue_limit) if fleet.queue_limit is not None else 0,
            fleet.max_model_tokens,
            seed & _WORDS,
        )
        for policy in policies.values():
            is_chosen = policy == "session"  # it hashes names
            core.add_model("chosen" if is_chosen else policy, prefix_beta, seed & _WORDS, choose if is_chosen else None)
        _add_instances(module, core, fleet, {pool: names.index(model) for pool, model in fleet.models.items()}, outcomes)
        if columns.limit >= module.MOST_TOKENS:
            raise OverflowError(f"answers of up to {columns.limit} tokens")
        core.add_requests(*attrs.astuple(columns))
    except OverflowError:
        return None
    transfers = _add_transfers(module, core, fleet.hand_over, instances)
    if fleet.scaler is not None:
        _add_scaler(core, fleet.scaler)
    sequences, gaps = RecordedSequences(core, request_at), RecordedGaps(core)
    pairs = [(each, outcomes[key]) for key, each in drafting.items()]
    return CompiledFleet(
        core, instances, sequences, gaps, fleet.on_progress, pairs, transfers, fleet.scaler, fleet.hand_over, names, fleet.models
    )


def _add_transfers(
    module: ModuleType, core: _core.Fleet, hand_over: HandOver | None, instances: Sequence[ServingInstance]
) -> _core.TransfersInTurn | None:
    """Let keys and values go between instances; returns the transfers if they are in C++."""
    if hand_over is None:
        return None
    transfers = hand_over.transfers
    if isinstance(transfers, SharedTransfers):
        core.hand_over(module.PythonTransfers(_TransferCaller(transfers, instances), transfers.bytes_of.by_layer))
        return None
    assert isinstance(transfers, TransfersInTurn)
    seconds_of, bytes_of = transfers.seconds_of, transfers.bytes_of
    in_turn: _core.TransfersInTurn = module.TransfersInTurn(
        transfers.latency_s,
        [(bytes_of.per_token[each.pool], bytes_of.layers[each.pool]) for each in instances],
        transfers.bytes_per_s,
        lambda sender, receiver, size: seconds_of(instances[sender], instances[receiver], size),
    )
    core.hand_over(in_turn)
    return in_turn


@attrs.define(eq=False)
class _TransferCaller:
    """Hands transfers of a compiled fleet on to those that share links: requests and instances are numbers there."""

    transfers: SharedTransfers
    instances: Sequence[ServingInstance]
    _routes: dict[int, TransferPath] = attrs.field(factory=dict)

    def _route(self, number: int, sender: int, receiver: int) -> TransferPath:
        if number not in self._routes:
            self._routes[number] = TransferPath(number, self.instances[sender], self.instances[receiver])
        return self._routes[number]

    def stream(self, now: float, parts: list[tuple[int, int, int, float, float, int]]) -> None:
        """Send the layers of chunks, of which each has request, sender, receiver, begin, end and tokens."""
        self.transfers.stream(now, [(self._route(*route), PromptChunk(begin, end, tokens)) for *route, begin, end, tokens in parts])

    def close(self, now: float, number: int, sender: int, receiver: int, tokens: int) -> float | None:
        """Take a transfer whose prompt has ended."""
        route = self._route(number, sender, receiver)
        del self._routes[number]
        return self.transfers.close(now, route, tokens)

    def forget(self, number: int) -> None:
        """Forget a request whose prompt is to be computed again."""
        self._routes.pop(number, None)

    def is_under_way(self) -> bool:
        """Whether transfers are under way."""
        return self.transfers.links.is_under_way

    def advance(self, until: float | None) -> tuple[float, list[int]]:
        """The next moment at which transfers end, and their requests."""
        at, routes = self.transfers.links.advance(until)
        return at, [each.number for each in routes]


def _add_scaler(core: _core.Fleet, scaler: Autoscaler) -> None:
    """Let an autoscaler decide."""
    units = [unit for pool in scaler.pools for unit in pool.units]
    number_of = {id(unit): number for number, unit in enumerate(units)}

    def decide(
        started: int, now: float, loads: list[tuple[int, int, int]], periods: list[tuple[int, list[float]]]
    ) -> tuple[list[int], list[int]]:
        starting: list[ScaledUnit] = []
        if started >= 0:
            scaler.started(units[started], now)
        else:
            scaler.load = lambda instance: InstanceLoad(*loads[instance.number])
            for pool, (arrived, ttfts) in zip(scaler.pools, periods, strict=True):
                pool.arrived, pool.ttfts = arrived, ttfts
            scaler.release(now)
            starting = scaler.step(now)
        return [number_of[id(unit)] for unit in starting], [each.number for each in scaler.takers]

    core.scale(len(scaler.pools), scaler.options.period_s, scaler.options.cold_start_s, decide)


def _add_instances(
    module: ModuleType, core: _core.Fleet, fleet: ServingFleet, model_of: Mapping[int, int], outcomes: Mapping[int, _core.Speculation]
) -> None:
    """Add the instances of a fleet, with the numbers of their pools' models. Raises OverflowError if a number is too large."""
    times = _CompiledTimes(module)
    roles = {"both": module.Role.BOTH, "prefill": module.Role.PREFILL, "decode": module.Role.DECODE}
    for replica in fleet.replicas:
        for instance in replica.instances:
            scheduler = instance.scheduler
            cache, limits = scheduler.cache, scheduler.limits
            if cache.block_tokens >= module.MOST_TOKENS or cache.blocks * cache.block_tokens >= _MOST_CACHED:
                raise OverflowError(f"{cache.blocks} blocks of {cache.block_tokens} tokens")
            core.add_instance(
                instance.pool, model_of.get(instance.pool, 0), roles[instance.role],
                cache.blocks, cache.block_tokens, cache.prefix_caching, limits.sequences, limits.tokens, limits.prefill_tokens,
                scheduler.by_priority, scheduler.drafts, policy_in_core(module, scheduler), scheduler.what,
                outcomes.get(id(instance.speculation)),
            )  # fmt: skip
        core.add_replica(len(replica.instances), times.of(replica.time), replica.jumps)


def _module() -> ModuleType | None:
    try:
        from astra_sim_serving import _core
    except ImportError:
        return None
    return _core


def _is_plain(fleet: ServingFleet) -> bool:
    """Whether the compiled loop has all that a fleet has."""
    return fleet.timeline is None and all(map(_is_plain_replica, fleet.replicas))


def _is_plain_replica(replica: Replica) -> bool:
    """Whether the compiled loop has all that a replica has."""
    time = replica.time
    if (
        time.sharding.pipeline > 1
        or time.adapters is not None
        or time.shared is not None
        or not isinstance(time.kernels, (FormulaTimes, TableTimes))
    ):
        return False
    return all(
        type(each.scheduler) in (InstanceScheduler, PolicyScheduler) and each.scheduler.cache.tiers is None and each.adapters is None
        for each in replica.instances
    )


class _CompiledTimes:
    """Times of iterations in C++, those of equal kernels with one memory of attention."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._attention: dict[int, object] = {}
        self._times: dict[int, _core.IterationTime] = {}

    def of(self, time: IterationTime) -> _core.IterationTime:
        """The same in C++."""
        if id(time) not in self._times:
            kernels = time.kernels
            if id(kernels) not in self._attention:
                self._attention[id(kernels)] = self._attention_of(kernels)
            attention = self._attention[id(kernels)]
            together = None
            if time.sharding.data > 1:
                together = self._module.ExpertTimes(time.rank_us, kernels.experts_us, time.exchanges_us, time.graph_tokens)
            self._times[id(time)] = self._module.IterationTime(
                attention, time.body_us, kernels.head_us, time.host_us, time.host_us_per_sequence, time.asynchronous,
                self._draft_of(time, attention), together,
            )  # fmt: skip
        return self._times[id(time)]

    def _draft_of(self, time: IterationTime, attention: object) -> object:
        """The time of drafts; None if they take none."""
        draft = time.draft
        if isinstance(draft, ModelDraft):
            return self._module.ModelDraft(self.of(draft.model))
        if isinstance(draft, LayerDraft):
            rest = draft.time.layer_rest_us
            return self._module.LayerDraft(attention, lambda sequences: rest(max(1, sequences), sequences), time.model.layers)
        assert draft is None
        return None

    def _attention_of(self, kernels: KernelTimes) -> object:
        """The times of attention in C++, which ask these for shapes that are new."""
        if isinstance(kernels, FormulaTimes):
            return self._module.FormulaAttention(kernels.prompt_us, kernels.decodes_us, kernels.formulas.model.layers)
        assert isinstance(kernels, TableTimes)
        tables = kernels

        def context_us(
            chunk: int, pairs: float, decodes: int, kv_tokens: int, kv_longest: int, sampled: int, drafts: int, kv: float
        ) -> float:
            return tables.context_us(BatchShape(chunk, pairs, decodes, kv_tokens, kv_longest, sampled, drafts), kv)

        return self._module.TableAttention(context_us, tables.skew, tables.least_chunk)


@attrs.frozen
class _RequestColumns:
    """Requests in columns of bytes: 64-bit floating-point or whole numbers. `priorities`, `models` and what prompts share may be empty.

    `counts` has how many of `contents` each request has, of `content_tokens` tokens each. `limit`: the longest answer that the server
    assumes; 0: each one's own length.
    """

    arrivals: bytes
    inputs: bytes
    outputs: bytes
    priorities: bytes = b""
    models: bytes = b""
    counts: bytes = b""
    content_tokens: bytes = b""
    contents: bytes = b""
    limit: int = 0


def _columns_of(requests: Sequence[ServingRequest], models: Sequence[str]) -> _RequestColumns:
    """Requests that are objects. Raises OverflowError if a number of one has more than 64 bits."""
    number_of = {name: number for number, name in enumerate(models)}
    shares = any(each.content for each in requests)
    return _RequestColumns(
        array("d", [each.arrival for each in requests]).tobytes(),
        _words(each.input for each in requests),
        _words(each.output for each in requests),
        _words(each.priority for each in requests),
        _words(number_of[each.model] for each in requests if len(models) > 1),
        _words(len(each.content) for each in requests if shares),
        _words(each.content_tokens for each in requests if shares),
        _words(content for each in requests for content in each.content),
        requests[0].limit if requests else 0,
    )


def _drawn_columns(module: ModuleType, requests: DrawnRequests) -> _RequestColumns:
    """Requests that are drawn. Raises OverflowError if one is too long."""
    options, seed = requests.options, requests.seed & _WORDS
    if options.arrival == "poisson" and requests.count is not None:
        arrivals = module.draw_poisson(seed, ARRIVAL_STREAM, options.rate, requests.count)
    else:
        arrivals = array("d", requests.arrivals()).tobytes()
    count = len(arrivals) // 8
    inputs = module.draw_lengths(_sampler(module, requests.inputs), seed, INPUT_STREAM, count)
    outputs = module.draw_lengths(_sampler(module, requests.outputs), seed, OUTPUT_STREAM, count)
    longest, prefix, priorities = options.max_output, options.prefix, options.priorities
    if longest is not None:
        outputs = _words(min(each, longest) for each in array("q", outputs))
    result = _RequestColumns(
        arrivals,
        inputs,
        outputs,
        _words(priorities[number % len(priorities)] for number in range(count if priorities else 0)),
        limit=longest or 0,
    )
    if prefix is None:
        return result
    tokens = prefix.tokens
    return attrs.evolve(
        result,
        inputs=_words(each + tokens for each in array("q", inputs)),
        counts=_words([1] * count),
        content_tokens=_words([tokens] * count),
        contents=_words(map(requests.group, range(count))),
    )


def _words(values: Iterable[int]) -> bytes:
    return array("q", values).tobytes()


def _sampler(module: ModuleType, lengths: LengthSampler) -> object:
    """A distribution of lengths in C++. Raises OverflowError if its lengths are too long."""
    name, numbers, values, maximum, parts = lengths.parameters(module.MOST_TOKENS)
    return module.LengthSampler(name, numbers, values, maximum, [_sampler(module, part) for part in parts])
