"""Builds the fleet of an experiment."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable

import attrs
from astra_sim import InputError
from astra_sim.network import EventNetwork
from astra_sim.random import RandomStream

from astra_sim_serving.autoscale import Autoscaler, Pool, ScaledUnit
from astra_sim_serving.cache_memory import CacheMemory
from astra_sim_serving.collectives import TransferTimes, build_network
from astra_sim_serving.compiled import CompiledFleet, compile_fleet
from astra_sim_serving.fleet import HandOver, ServingFleet
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.kv_cache import KvCache
from astra_sim_serving.launches import Launcher
from astra_sim_serving.lora import AdapterPlaces
from astra_sim_serving.metrics import WeightedValues
from astra_sim_serving.model_memory import Sharding
from astra_sim_serving.npus import npus_of_pools, place_in_block
from astra_sim_serving.options import AutoscaleOptions, PoolOptions
from astra_sim_serving.parts import ModelParts, Parts
from astra_sim_serving.policies import VLLM, make_scheduler
from astra_sim_serving.pricing import Pricing
from astra_sim_serving.replica import Replica
from astra_sim_serving.requests import requests_of, with_adapters
from astra_sim_serving.result import ServingResult
from astra_sim_serving.routers import Router, make_router
from astra_sim_serving.scheduler import InstanceScheduler, Limits
from astra_sim_serving.shared_links import ServingLinks
from astra_sim_serving.speculation import Speculation
from astra_sim_serving.tiers import Tiers
from astra_sim_serving.transfers import PromptBytes, SharedTransfers, Transfers, TransfersInTurn

DISTRIBUTION = "astra-sim-serving"


@attrs.frozen(eq=False)
class _OfModel:
    """What the instances of a model have in common."""

    parts: ModelParts
    pricing: Pricing
    memory: CacheMemory
    speculation: Speculation | None
    gaps: WeightedValues = attrs.field(factory=WeightedValues)


class FleetBuilder:
    """Makes instances, their router, and the result that their run fills."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.units: list[list[ScaledUnit]] = [[] for _ in parts.options.pool]
        self.models = {
            name: _OfModel(each, Pricing(parts, each), CacheMemory(parts, each), self._speculation()) for name, each in parts.models.items()
        }

    def _speculation(self) -> Speculation | None:
        """The outcomes of drafts for a model, if there are drafts."""
        options = self.parts.options
        if options.speculative is None:
            return None
        return Speculation(options.speculative.tokens, options.speculative.acceptance, RandomStream(options.seed, "speculation"))

    def _of(self, pool: PoolOptions) -> _OfModel:
        """The model that a pool serves."""
        return self.models[pool.model or ""]

    def build(
        self,
        on_progress: Callable[[float, int], None] | None,
        timeline: Callable[[ServingInstance, float], None] | None,
        compiled: bool = True,
    ) -> tuple[ServingFleet | CompiledFleet, ServingResult]:
        """The fleet, and the result that is filled by its run. `compiled`: a compiled fleet if it can be."""
        options, compute = self.parts.options, self.parts.compute_options
        arrivals = requests_of(options.requests, options.seed, f"{self.parts.where}: serving.requests", options.models)
        if options.lora is not None:
            arrivals = with_adapters(arrivals, options.lora, options.seed)
        if options.models:
            arrivals = list(arrivals)  # both loops may ask for them
        replicas = self._replicas()
        stream = RandomStream(options.seed, "router")
        transfers = self._transfers()
        launching = [replica for replica in replicas if replica.time.shared is not None]
        for replica in launching:
            replica.launcher = Launcher(self._links, self.parts.network, [npu for each in replica.instances for npu in each.npus])
        fleet = ServingFleet(
            replicas,
            self._router(stream),
            iter(arrivals),
            concurrency=options.requests.concurrency,
            front_end_s=compute.front_end_ms / 1e3,
            queue_limit=options.router.queue_limit,
            max_model_tokens=options.max_model_tokens,
            hand_over=None if transfers is None else HandOver(transfers, make_router("least-kv", stream, 0.0)),
            links=self._links if launching or isinstance(transfers, SharedTransfers) else None,
            scaler=self._scaler(),
            on_progress=on_progress,
            timeline=timeline,
            models={number: pool.model for number, pool in enumerate(options.pool) if pool.model is not None},
        )
        result = self._result([each for replica in replicas for each in replica.instances])
        if compiled:
            policies = {name: self._router_policy(name) for name in self.models}
            in_core = compile_fleet(fleet, arrivals, policies, options.router.prefix_beta, options.seed)
            if in_core is not None:
                result.gaps = in_core.gaps
                for number, part in enumerate(result.models.values()):
                    part.gaps = attrs.evolve(in_core.gaps, model=number)
                return in_core, result
        return fleet, result

    def _result(self, instances: list[ServingInstance]) -> ServingResult:
        """The result of the fleet, with one of each model if pools name models."""
        if not self.parts.options.models:
            return self._result_of(instances, *self.models)
        result = self._result_of(instances)
        for name in self.models:
            served = [each for each in instances if self.parts.options.pool[each.pool].model == name]
            result.models[name] = attrs.evolve(self._result_of(served, name), fleet=result)
        return result

    def _result_of(self, instances: list[ServingInstance], model: str | None = None) -> ServingResult:
        """An empty result of instances; of those of several models without their gaps and drafts."""
        options = self.parts.options
        npus = sum(pool.instances * pool.sharding.npus for pool in options.pool if model is None or (pool.model or "") == model)
        gaps, speculation = (self.models[model].gaps, self.models[model].speculation) if model is not None else (WeightedValues(), None)
        return ServingResult(
            [], instances, gaps, self.parts.counts, npus, options.slo, options.seed, importlib.metadata.version(DISTRIBUTION),
            front_end_s=self.parts.compute_options.front_end_ms / 1e3, warmup_s=options.warmup_s, speculation=speculation,
        )  # fmt: skip

    def _router(self, stream: RandomStream) -> Router:
        """The router, which chooses among the instances of a request's model as that of a fleet of this model alone."""
        beta = self.parts.options.router.prefix_beta
        routers = {name: make_router(self._router_policy(name), stream, beta) for name in self.models}
        if len(routers) == 1:
            return next(iter(routers.values()))
        return lambda request, instances: routers[request.model](request, instances)

    def _scaler(self) -> Autoscaler | None:
        """The policy that starts and stops instances. Raises InputError if a pool is smaller than the least number of instances."""
        autoscale = self.parts.options.autoscale
        if autoscale.policy == "none":
            if autoscale != AutoscaleOptions():
                raise InputError(
                    f"{self.parts.where}: serving.autoscale is given without a policy; expected policy = queue, kv, rate or ttft"
                )
            return None
        for number, pool in enumerate(self.parts.options.pool):
            if pool.instances < autoscale.minimum:
                raise InputError(
                    f"{self.parts.where}: serving.pool.{number} has {pool.instances} instances, "
                    f"and autoscale.minimum is {autoscale.minimum}"
                )
        return Autoscaler(autoscale, [Pool(units) for units in self.units])

    def _router_policy(self, model: str) -> str:
        """The policy as given; else that of vLLM between ranks of data parallelism, if the pools of a model have some."""
        if self.parts.options.router.policy is not None:
            return self.parts.options.router.policy
        pools = [pool for pool in self.parts.options.pool if (pool.model or "") == model]
        return "least-waiting" if any(pool.data_parallel > 1 for pool in pools) else "round-robin"

    def _replicas(self) -> list[Replica]:
        """The instances of all pools, as far as they are independent of each other, with their NPUs in order."""
        options = self.parts.options
        if not options.pool:
            raise InputError(f"{self.parts.where}: serving.pool is empty; expected at least one pool of instances")
        for model in self.models:
            roles = {pool.role for pool in options.pool if (pool.model or "") == model}
            if ("prefill" in roles) != ("decode" in roles) or ("both" in roles and len(roles) > 1):
                raise InputError(
                    f"{self.parts.where}: serving.pool has the roles {', '.join(sorted(roles))}{f' for {model}' if model else ''}; expected"
                    " both alone, or prefill and decode"
                )
        npus = npus_of_pools(options.pool, self.parts.platform, self.parts.where) if self.parts.platform is not None else None
        if npus is None and any(pool.npus is not None for pool in options.pool):
            raise InputError(f"{self.parts.where}: serving.pool has npus, and there is no platform that they are of")
        replicas: list[Replica] = []
        count = 0
        for number, pool in enumerate(options.pool):
            where, of = f"{self.parts.where}: serving.pool.{number}", self._of(pool)
            sharding = self._sharding(pool, where)
            time = functools.cache(of.pricing.iteration_time(pool, sharding, where))
            blocks, tiers = of.memory.blocks(pool, sharding, where), of.memory.tiers(pool, sharding, where)
            for first in range(0, pool.instances * sharding.npus, sharding.npus):
                npus_of_group = npus[number][first : first + sharding.npus] if npus is not None else ()
                priced = time(place_in_block(npus_of_group, self.parts.platform) if self.parts.platform is not None else ())
                ranks = [
                    ServingInstance(
                        count + rank, number, pool.role, self._scheduler(pool, blocks, tiers()), of.gaps, rank, of.speculation,
                        npus=sharding.npus_of_rank(npus_of_group, rank),
                        adapters=AdapterPlaces(options.lora.places) if options.lora is not None else None,
                    )
                    for rank in range(sharding.data)
                ]  # fmt: skip
                count += len(ranks)
                self.units[number].append(ScaledUnit(number, sharding.npus, ranks))
                is_steady = ranks[0].scheduler.is_predictable and sharding.pipeline == 1 and of.speculation is None
                jumps = options.jumps and is_steady and priced.shared is None
                together = [ranks] if of.parts.model.experts else [[rank] for rank in ranks]  # ranks of a dense model never meet
                replicas += [Replica(each, priced, jumps) for each in together]
        return replicas

    def _scheduler(self, pool: PoolOptions, blocks: int, tiers: Tiers | None) -> InstanceScheduler:
        """The scheduler of a rank, with a cache of `blocks` blocks."""
        options = self.parts.options
        limits = Limits(
            pool.max_sequences or options.max_sequences, pool.max_batched_tokens or options.max_batched_tokens, options.max_prefill_tokens
        )
        cache = KvCache(blocks, options.block_tokens, options.prefix_caching, tiers)
        scheduler = make_scheduler(
            options.engine, cache, limits, options.priorities, self.parts.plugins, f"{self.parts.where}: serving.engine"
        )
        if options.lora is not None and options.lora.max_loras is not None:
            if options.engine != VLLM:
                raise InputError(
                    f"{self.parts.where}: serving.lora.max_loras has no effect with the policy {options.engine!r}; expected {VLLM!r}"
                )
            scheduler.max_adapters, scheduler.in_order = options.lora.max_loras, False
        scheduler.drafts = options.speculative.tokens if options.speculative is not None else 0
        return scheduler

    def _sharding(self, pool: PoolOptions, where: str) -> Sharding:
        """The parallelism of a pool's instances. Raises InputError if it is impossible."""
        t, e, model = pool.tensor_parallel, pool.expert_parallel, self._of(pool).parts.model
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

    def _transfers(self) -> Transfers | None:
        """The transfers of keys and values; None if no pool is for prompts alone. Raises InputError if they cannot be timed."""
        pools = self.parts.options.pool
        if all(pool.role != "prefill" for pool in pools):
            return None
        transfer = self.parts.options.transfer
        bytes_of = PromptBytes(
            [pool.tensor_parallel * self._of(pool).memory.kv_bytes(Sharding(pool.tensor_parallel)) for pool in pools],
            [1 if transfer.mode == "after" else self._of(pool).parts.model.layers for pool in pools],
        )
        latency_s = transfer.latency_us / 1e6
        if transfer.bandwidth_gb_per_s is None and self._is_shared:
            traffic_class = self.parts.network.system.send_class if self.parts.network.network.has_traffic_classes else -1
            return SharedTransfers(latency_s, bytes_of, self._links, transfer.order == "in-order", traffic_class)
        if transfer.order == "concurrent":
            raise InputError(
                f"{self.parts.where}: serving.transfer.order is 'concurrent', and nothing here is shared; expected a network on which"
                " messages wait for each other, such as flow, without serving.transfer.bandwidth_gb_per_s"
            )
        if transfer.bandwidth_gb_per_s is not None:
            return TransfersInTurn(latency_s, bytes_of, transfer.bandwidth_gb_per_s * 1e9, _no_network)
        times = TransferTimes(self.parts.network)
        return TransfersInTurn(latency_s, bytes_of, 0.0, lambda sender, receiver, size: times.seconds(sender.npus, receiver.npus, size))

    @property
    def _is_shared(self) -> bool:
        """Whether messages wait for each other on the network. Raises InputError if there is no platform for one."""
        if self.parts.platform is None:
            raise InputError(f"{self.parts.where}: prefill and decode pools need serving.transfer.bandwidth_gb_per_s, or a platform")
        return isinstance(self.parts.network.network, EventNetwork)

    @functools.cached_property
    def _links(self) -> ServingLinks:
        """The links of a network on which messages wait for each other. Raises InputError if there is but one such network."""
        network = build_network(self.parts.kernel, self.parts.plugins).network
        assert isinstance(network, EventNetwork)
        if network is self.parts.network.network:
            raise InputError(f"{self.parts.where}: network is an object, on which collectives run; expected one by name for transfers")
        with_collectives = self.parts.options.collectives == "shared"
        return ServingLinks(network, f"{self.parts.where}: serving{'' if with_collectives else '.transfer'}")


def _no_network(sender: ServingInstance, receiver: ServingInstance, size: float) -> float:
    raise AssertionError("transfers at a bandwidth use no network")
