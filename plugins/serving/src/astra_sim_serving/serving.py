"""Reads an experiment of serving, builds its fleet and runs it."""

from __future__ import annotations

import copy
import functools
import importlib.metadata
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from astra_sim import AstraError, InputError
from astra_sim.commands import SECTIONS, Components, Plugins, build_compute, build_platform, component, experiment_from, shared_plugins
from astra_sim.compute import Compute
from astra_sim.errors import located, suggestion
from astra_sim.files import parse_toml, read_text
from astra_sim.models import ModelDescription, describe_model
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim.random import RandomStream
from astra_sim.shapes import ELEMENT_BYTES
from astra_sim.units import GIB

from astra_sim_serving.autoscale import Autoscaler, Pool, Unit
from astra_sim_serving.collectives import CommunicationTimes, OfBytes, OfTokens, build_network, exchange_of_tokens
from astra_sim_serving.drafts import LayerDraft, ModelDraft
from astra_sim_serving.fleet import Fleet, HandOver, Transfers
from astra_sim_serving.formulas import KernelFormulas
from astra_sim_serving.instance import Instance
from astra_sim_serving.iteration_time import Draft, FormulaTimes, IterationTime, KernelTimes, PricingCounts, TableTimes
from astra_sim_serving.kv_cache import KvCache
from astra_sim_serving.metrics import WeightedValues
from astra_sim_serving.model_memory import MemoryUse, Sharding, activation_bytes, kv_bytes_per_token, layer_parameters, weight_bytes
from astra_sim_serving.npus import npus_of_pools, place_in_block
from astra_sim_serving.options import AutoscaleOptions, PoolOptions, ServingCompute, ServingOptions, TierOptions
from astra_sim_serving.policies import make_scheduler
from astra_sim_serving.replica import Replica
from astra_sim_serving.requests import requests_of
from astra_sim_serving.result import ServingResult
from astra_sim_serving.routers import make_router
from astra_sim_serving.scheduler import Limits, Scheduler
from astra_sim_serving.speculation import Speculation
from astra_sim_serving.tables import KernelTables, read_tables
from astra_sim_serving.tiers import Tier, Tiers

DISTRIBUTION = "astra-sim-serving"
KNOWN_KEYS = ("name", "serving", *SECTIONS)
_OWN_COMPUTE = tuple(field.name for field in attrs.fields(ServingCompute))
_PATHS = (("serving", "requests", "trace"), ("compute", "tables"))


@attrs.define(eq=False)
class ServingExperiment:
    """An experiment: the table of a file, with paths relative to the working directory. `where` names the file in messages."""

    table: dict[str, Any]
    where: str = "experiment"

    def with_values(self, values: Mapping[str, Any]) -> ServingExperiment:
        """The same with other values of keys such as `serving.requests.rate`. Raises InputError."""
        table = copy.deepcopy(self.table)
        for key, value in values.items():
            *path, last = key.split(".")
            current: Any = table
            for step in path:
                current = _child(current, step, key)
            if isinstance(current, list):
                current[_position(current, last, key)] = value
            else:
                current[last] = value
        return ServingExperiment(table, self.where)


def _child(current: Any, step: str, key: str) -> Any:
    child = current[_position(current, step, key)] if isinstance(current, list) else current.setdefault(step, {})
    if not isinstance(child, (dict, list)):
        raise InputError(f"{key}: {step!r} is {child!r}, which has no keys")
    return child


def _position(current: list[Any], step: str, key: str) -> int:
    if not step.isdecimal() or int(step) >= len(current):
        raise InputError(f"{key}: {step!r} is not one of the positions 0 to {len(current) - 1}")
    return int(step)


def read_experiment(path: str | os.PathLike[str]) -> ServingExperiment:
    """The experiment of a TOML file, whose paths are relative to it. Raises InputError."""
    file = os.fspath(path)
    table = parse_toml(read_text(file), file)
    folder = os.path.dirname(file)
    for keys in _PATHS:
        current: Any = table
        for key in keys[:-1]:
            current = current.get(key, {}) if isinstance(current, dict) else {}
        if isinstance(current, dict) and isinstance(current.get(keys[-1]), str):
            current[keys[-1]] = os.path.join(folder, current[keys[-1]])
    model = table.get("serving", {}).get("model") if isinstance(table.get("serving"), dict) else None
    if isinstance(model, dict) and isinstance(model.get("name"), str) and (os.sep in model["name"] or model["name"].endswith(".json")):
        model["name"] = os.path.join(folder, model["name"])
    return ServingExperiment(table, file)


def serve(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | ServingExperiment,
    *,
    on_progress: Callable[[float, int], None] | None = None,
    timeline: Callable[[Instance, float], None] | None = None,
    plugins: Plugins | None = None,
) -> ServingResult:
    """Simulate a server, request by request.

    `experiment` is the path of a TOML file, its table, or a `ServingExperiment`. `on_progress` is told the simulated seconds and the events
    so far, `timeline` each instance and the time whenever it has begun iterations. Ctrl-C ends the run early, with what is done until then.
    Raises InputError.
    """
    plugins = plugins or shared_plugins()
    if isinstance(experiment, Mapping):
        experiment = ServingExperiment(copy.deepcopy(dict(experiment)))
    elif not isinstance(experiment, ServingExperiment):
        experiment = read_experiment(experiment)
    fleet, result = _Builder(experiment, plugins).build(on_progress, timeline)
    try:
        fleet.run()
    except KeyboardInterrupt:
        result.is_complete = False
    result.sequences = fleet.sequences
    result.events = fleet.events
    if fleet.scaler is not None and result.sequences:
        begin = result.sequences[0].request.arrival
        result.scaling = fleet.scaler.document(begin, begin + result.makespan_s)
    if fleet.hand_over is not None:
        transfers = fleet.hand_over.transfers
        result.transfer_s, result.transfers = transfers.total_s, transfers.count
    return result


class _Builder:
    """Makes a fleet of an experiment's table."""

    def __init__(self, experiment: ServingExperiment, plugins: Plugins) -> None:
        table, where = experiment.table, experiment.where
        for key in table:
            if key not in KNOWN_KEYS:
                raise InputError(f"{where}: unknown key {key!r}; {suggestion(key, KNOWN_KEYS)}")
        if "serving" not in table:
            raise InputError(f"{where}: there is no section serving; expected one with a model, such as [serving.model] name = ...")
        self.where = where
        self.plugins = plugins
        self.options: ServingOptions = structure(ServingOptions, table["serving"], f"{where}: serving")
        compute = table.get("compute", {})
        if not isinstance(compute, Mapping):
            compute = {"plugin": compute} if isinstance(compute, str) and not compute.endswith(".toml") else {"file": compute}
        own = {key: value for key, value in compute.items() if key in _OWN_COMPUTE}
        self.compute_options: ServingCompute = structure(ServingCompute, own, f"{where}: compute")
        components: dict[str, Any] = {kind: table[kind] for kind in ("system", "network", "platform", "memory") if kind in table}
        self.kernel = experiment_from(components, where, plugins)
        rest = {key: value for key, value in compute.items() if key not in _OWN_COMPUTE}
        if isinstance(rest.get("plugin"), str):
            rest["plugin"] = rest["plugin"].removeprefix("plugin:")
        self.has_compute = bool(rest)
        if rest:
            self.kernel.use("compute", rest, plugins, os.path.dirname(where), f"{where}: compute")
        self.counts = PricingCounts()
        self.gaps = WeightedValues()
        self.model = self._model()
        self.draft_model = self._draft_model()
        given = self.options.speculative
        self.speculation = None
        if given is not None:
            self.speculation = Speculation(given.tokens, given.acceptance, RandomStream(self.options.seed, "speculation"))
        self.platform: Platform | None = build_platform(self.kernel, plugins) if "platform" in self.kernel.sections else None
        self.compute = self._compute()
        self.tables = self._tables()
        self.network: Components | None = None

    def _model(self) -> ModelDescription:
        given = self.options.model
        where = f"{self.where}: serving.model"
        if (given.name is None) == (not given.dimensions):
            raise InputError(f"{where}: expected either name or dimensions")
        return describe_model(given.name or given.dimensions, self.plugins, where)

    def _draft_model(self) -> ModelDescription | None:
        """The model that drafts tokens, if one does. Raises InputError where ranks cannot share it."""
        given = self.options.speculative
        if given is None or given.draft in ("ngram", "mtp"):
            return None
        where = f"{self.where}: serving.speculative.draft"
        model = describe_model(given.draft, self.plugins, where)
        for pool in self.options.pool:
            if model.heads % pool.tensor_parallel:
                raise InputError(f"{where}: {pool.tensor_parallel} ranks of tensor parallelism cannot share {model.heads} query heads")
        return model

    def _compute(self) -> Compute | None:
        if not self.has_compute:
            return None
        if self.platform is not None:
            return build_compute(self.kernel, self.plugins, self.platform)
        alone: Compute = component("compute", self.kernel.sections["compute"], self.plugins, f"{self.where}: compute")
        return alone

    def _tables(self) -> KernelTables | None:
        given = self.compute_options
        if given.tables is None:
            if given.run is not None:
                raise InputError(f"{self.where}: compute.run has no effect without compute.tables")
            if self.compute is None:
                raise InputError(f"{self.where}: there is no section compute; expected a compute model (plugin = 'gpu'), or tables")
            return None
        return read_tables(given.tables, given.run)

    def build(
        self, on_progress: Callable[[float, int], None] | None, timeline: Callable[[Instance, float], None] | None
    ) -> tuple[Fleet, ServingResult]:
        """The fleet, and the result that is filled by its run."""
        options, compute = self.options, self.compute_options
        arrivals = requests_of(options.requests, options.seed, f"{self.where}: serving.requests")
        replicas = self._replicas()
        instances = [each for replica in replicas for each in replica.instances]
        npus = sum(pool.instances * pool.sharding.npus for pool in options.pool)
        router, stream = options.router, RandomStream(options.seed, "router")
        transfers = self._transfers()
        fleet = Fleet(
            replicas,
            make_router(self._router_policy(), stream, router.prefix_beta),
            arrivals,
            concurrency=options.requests.concurrency,
            front_end_s=compute.front_end_ms / 1e3,
            queue_limit=router.queue_limit,
            max_model_tokens=options.max_model_tokens,
            hand_over=None if transfers is None else HandOver(transfers, make_router("least-kv", stream, 0.0)),
            scaler=self._scaler(),
            on_progress=on_progress,
            timeline=timeline,
        )
        result = ServingResult(
            [], instances, self.gaps, self.counts, npus, options.slo, options.seed, importlib.metadata.version(DISTRIBUTION),
            front_end_s=compute.front_end_ms / 1e3, warmup_s=options.warmup_s, speculation=self.speculation,
        )  # fmt: skip
        return fleet, result

    def _scaler(self) -> Autoscaler | None:
        """What starts and stops instances. Raises InputError where a pool is smaller than the least number of instances."""
        given = self.options.autoscale
        if given.policy == "none":
            if given != AutoscaleOptions():
                raise InputError(f"{self.where}: serving.autoscale is given without a policy; expected policy = queue, kv, rate or ttft")
            return None
        for number, pool in enumerate(self.options.pool):
            if pool.instances < given.minimum:
                raise InputError(
                    f"{self.where}: serving.pool.{number} has {pool.instances} instances, and autoscale.minimum is {given.minimum}"
                )
        return Autoscaler(given, [Pool(units) for units in self.units])

    def _router_policy(self) -> str:
        """The policy as given; else that of vLLM between ranks of data parallelism, where there are some."""
        if self.options.router.policy is not None:
            return self.options.router.policy
        return "least-waiting" if any(pool.data_parallel > 1 for pool in self.options.pool) else "round-robin"

    def _replicas(self) -> list[Replica]:
        """The instances of all pools, as far as they are independent of each other, with their NPUs in order."""
        options = self.options
        if not options.pool:
            raise InputError(f"{self.where}: serving.pool is empty; expected at least one pool of instances")
        roles = {pool.role for pool in options.pool}
        if ("prefill" in roles) != ("decode" in roles) or ("both" in roles and len(roles) > 1):
            raise InputError(
                f"{self.where}: serving.pool has the roles {', '.join(sorted(roles))}; expected both alone, or prefill and decode"
            )
        npus = npus_of_pools(options.pool, self.platform, self.where) if self.platform is not None else None
        if npus is None and any(pool.npus is not None for pool in options.pool):
            raise InputError(f"{self.where}: serving.pool has npus, and there is no platform that they are of")
        self.units: list[list[Unit]] = [[] for _ in options.pool]
        replicas: list[Replica] = []
        count = 0
        for number, pool in enumerate(options.pool):
            where = f"{self.where}: serving.pool.{number}"
            sharding = self._sharding(pool, where)
            time = functools.cache(self._iteration_time(pool, sharding, where))
            blocks, tiers = self._blocks(pool, sharding, where), self._tiers(pool, sharding, where)
            for first in range(0, pool.instances * sharding.npus, sharding.npus):
                own = npus[number][first : first + sharding.npus] if npus is not None else ()
                priced = time(place_in_block(own, self.platform) if self.platform is not None else ())
                ranks = [
                    Instance(count + rank, number, pool.role, self._scheduler(pool, blocks, tiers()), self.gaps, rank, self.speculation)
                    for rank in range(sharding.data)
                ]
                count += len(ranks)
                self.units[number].append(Unit(number, sharding.npus, ranks))
                is_steady = ranks[0].scheduler.is_predictable and sharding.pipeline == 1 and self.speculation is None
                jumps = options.jumps and is_steady
                together = [ranks] if self.model.experts else [[rank] for rank in ranks]  # ranks of a dense model never meet
                replicas += [Replica(each, priced, jumps) for each in together]
        return replicas

    def _tiers(self, pool: PoolOptions, sharding: Sharding, where: str) -> Callable[[], Tiers | None]:
        """What makes the memories behind the cache of each instance of a pool. Raises InputError where one holds no block."""
        options = self.options
        if options.tier and not options.prefix_caching:
            raise InputError(f"{self.where}: serving.tier has no effect without prefix_caching")
        size = options.block_tokens * self._kv_bytes(sharding)

        def tier_of(given: TierOptions) -> Tier:
            blocks = int(given.capacity_gib * GIB // size) * (pool.instances * sharding.data if given.shared else 1)
            if not blocks:
                raise InputError(f"{where}: a tier of {given.capacity_gib:g} GiB holds no block of {size} bytes")
            return Tier(blocks, given.latency_us / 1e6, size / (given.read_gb_per_s * 1e9))

        shared = [tier_of(given) if given.shared else None for given in options.tier]
        if not options.tier:
            return lambda: None
        return lambda: Tiers([one or tier_of(given) for one, given in zip(shared, options.tier, strict=True)])

    def _scheduler(self, pool: PoolOptions, blocks: int, tiers: Tiers | None) -> Scheduler:
        """The scheduler of a rank, with a cache of so many blocks."""
        options = self.options
        limits = Limits(
            pool.max_sequences or options.max_sequences, pool.max_batched_tokens or options.max_batched_tokens, options.max_prefill_tokens
        )
        cache = KvCache(blocks, options.block_tokens, options.prefix_caching, tiers)
        made = make_scheduler(options.engine, cache, limits, options.priorities, self.plugins, f"{self.where}: serving.engine")
        made.drafts = self.speculation.tokens if self.speculation is not None else 0
        return made

    def _sharding(self, pool: PoolOptions, where: str) -> Sharding:
        """How the instances of a pool share the model. Raises InputError where that cannot be."""
        t, e, model = pool.tensor_parallel, pool.expert_parallel, self.model
        shared = t * pool.data_parallel
        if model.heads % t:
            raise InputError(f"{where}: tensor_parallel is {t}; expected a divisor of the {model.heads} query heads")
        if shared % e or (e > 1 and not model.experts) or (e > 1 and model.experts % e):
            ranks = f"tensor_parallel times data_parallel ({shared})" if pool.data_parallel > 1 else f"tensor_parallel ({t})"
            why = f"a divisor of {ranks} and of the {model.experts} experts" if model.experts else "1: the model has no experts"
            raise InputError(f"{where}: expert_parallel is {e}; expected {why}")
        if pool.pipeline_parallel > model.layers:
            raise InputError(f"{where}: pipeline_parallel is {pool.pipeline_parallel}; expected at most the {model.layers} layers")
        if pool.exchange != "gather" and (pool.data_parallel == 1 or not model.experts):
            raise InputError(f"{where}: exchange has no effect without data_parallel and experts")
        return pool.sharding

    def _iteration_time(self, pool: PoolOptions, sharding: Sharding, where: str) -> Callable[[tuple[int, ...]], IterationTime]:
        """What prices iterations of the instances of a pool by their NPUs: tables, formulas and collectives."""
        given = self.compute_options
        formulas = self._formulas(self.model, sharding)
        kernels: KernelTimes
        if self.tables is not None:
            kernels = TableTimes(self.tables, self.model, sharding, self.counts, formulas, given.skew)
        else:
            assert formulas is not None
            kernels = FormulaTimes(formulas, self.counts)

        def time_on(npus: tuple[int, ...]) -> IterationTime:
            made = IterationTime(
                kernels, self.model, sharding, *self._communication(pool, sharding, npus, where), given.host_us,
                given.host_us_per_sequence, self.options.async_scheduling, self._graph_tokens(pool),
            )  # fmt: skip
            made.draft = self._draft(made)
            return made

        return time_on

    def _formulas(self, model: ModelDescription, sharding: Sharding) -> KernelFormulas | None:
        """The times of a model's kernels by the compute model; None without one."""
        if self.compute is None:
            return None
        served = self.options.model
        return KernelFormulas(model, sharding, self.compute, served.precision, served.kv or "bf16")

    def _draft(self, time: IterationTime) -> Draft | None:
        """What drafts tokens for an instance whose iterations take such times, on its ranks of tensor parallelism."""
        given = self.options.speculative
        if given is None or given.draft == "ngram":
            return None
        if given.draft == "mtp":
            return LayerDraft(time)
        assert self.draft_model is not None
        sharding = Sharding(time.sharding.tensor)
        formulas = self._formulas(self.draft_model, sharding)
        if formulas is None:
            raise InputError(f"{self.where}: serving.speculative.draft is {given.draft!r} and there is no compute model for its kernels")
        return ModelDraft(IterationTime(FormulaTimes(formulas, self.counts), self.draft_model, sharding, time.all_reduce_us))

    def _graph_tokens(self, pool: PoolOptions) -> int:
        """Tokens up to which the device runs graphs, which vLLM captures for up to twice as many as there are sequences."""
        given = self.options.graph_tokens
        return min(512, 2 * (pool.max_sequences or self.options.max_sequences)) if given is None else given

    def _communication(
        self, pool: PoolOptions, sharding: Sharding, npus: tuple[int, ...], where: str
    ) -> tuple[OfBytes | None, OfTokens | None, OfBytes | None]:
        """The times of an all-reduce, of an exchange with the experts, and of a message to the next stage; None where there are none."""
        exchanges = sharding.data > 1 and self.model.experts > 0
        if sharding.npus == 1 or not (sharding.tensor > 1 or sharding.pipeline > 1 or exchanges):
            return None, None, None
        if self.platform is None:
            ways = ("tensor_parallel", sharding.tensor), ("pipeline_parallel", sharding.pipeline), ("data_parallel", sharding.data)
            name, value = next((name, value) for name, value in ways if value > 1)
            raise InputError(f"{where}: {name} is {value} and there is no platform, on which its collectives run")
        if self.network is None:
            self.network = build_network(self.kernel, self.plugins)
        times = CommunicationTimes(self.network, sharding, npus)
        return (
            times.all_reduce_us if sharding.tensor > 1 else None,
            exchange_of_tokens(times, self.model, pool.exchange, self.options.model.precision) if exchanges else None,
            times.send_us if sharding.pipeline > 1 else None,
        )

    def _blocks(self, pool: PoolOptions, sharding: Sharding, where: str) -> int:
        """Blocks of an instance: as told, or what fits beside the weights. Raises InputError where none does."""
        options = self.options
        given = pool.kv_blocks or options.kv_blocks
        if given is not None:
            return given
        memory = options.memory_gib * GIB if options.memory_gib is not None else getattr(self.compute, "memory_bytes", None)
        if memory is None:
            raise InputError(f"{where}: the memory of an NPU is not known; expected serving.kv_blocks, or serving.memory_gib")
        model, served = self.model, options.model
        sequences = pool.max_sequences or options.max_sequences
        use = MemoryUse(
            memory * options.memory_utilization,
            weight_bytes(model, sharding, served.precision) + self._draft_weights(sharding),
            activation_bytes(model, sharding, pool.max_batched_tokens or options.max_batched_tokens, sequences),
            options.memory_margin_gib * GIB,
        )
        try:
            return use.blocks(options.block_tokens * self._kv_bytes(sharding))
        except AstraError as error:
            raise located(error, where) from None

    def _kv_bytes(self, sharding: Sharding) -> int:
        """Bytes of the keys and values of a token on a rank, with those of what drafts."""
        kind = self.options.model.kv or "bf16"
        own = kv_bytes_per_token(self.model, sharding, kind)
        if self.draft_model is not None:
            return own + kv_bytes_per_token(self.draft_model, Sharding(sharding.tensor), kind)
        return own + (own // len(sharding.stages(self.model.layers)[0]) if self._drafts_by_layer else 0)

    @property
    def _drafts_by_layer(self) -> bool:
        given = self.options.speculative
        return given is not None and given.draft == "mtp"

    def _draft_weights(self, sharding: Sharding) -> int:
        """Bytes of the weights of what drafts tokens, on a rank."""
        kind = self.options.model.precision
        if self.draft_model is not None:
            return weight_bytes(self.draft_model, Sharding(sharding.tensor), kind)
        last = self.model.layers - 1
        return math.ceil(layer_parameters(self.model, last, sharding) * ELEMENT_BYTES[kind]) if self._drafts_by_layer else 0

    def _transfers(self) -> Transfers | None:
        pools = [pool for pool in self.options.pool if pool.role == "prefill"]
        if not pools:
            return None
        given = self.options.transfer
        if given.bandwidth_gb_per_s is None:
            raise InputError(f"{self.where}: prefill and decode pools need serving.transfer.bandwidth_gb_per_s")
        bytes_per_token = pools[0].tensor_parallel * self._kv_bytes(Sharding(pools[0].tensor_parallel))
        exposed = 1.0 if given.mode == "after" else 1 / self.model.layers
        return Transfers(given.latency_us / 1e6, given.bandwidth_gb_per_s * 1e9, bytes_per_token, exposed)
