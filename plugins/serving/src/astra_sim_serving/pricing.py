"""The time of an instance's iterations: kernels by tables or formulas, communication on their NPUs, and drafts."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from astra_sim import InputError
from astra_sim.compute import Compute
from astra_sim.models import ModelDescription
from astra_sim.network import EventNetwork

from astra_sim_serving.collectives import CommunicationTimes, Exchange, OfBytes, SharedCollectives, exchange_of_tokens
from astra_sim_serving.formulas import KernelFormulas
from astra_sim_serving.iteration_time import DraftTime, FormulaTimes, IterationTime, KernelTimes, LayerDraft, ModelDraft, TableTimes
from astra_sim_serving.lora import AdapterTimes, adapter_bytes
from astra_sim_serving.model_memory import Sharding
from astra_sim_serving.options import PoolOptions
from astra_sim_serving.parts import ModelParts, Parts


@attrs.frozen(eq=False)
class Pricing:
    """Makes the times of iterations of the pools of a model."""

    parts: Parts
    served: ModelParts

    def iteration_time(self, pool: PoolOptions, sharding: Sharding, where: str) -> Callable[[tuple[int, ...]], IterationTime]:
        """The timing of a pool's instances by their NPUs: tables, formulas and collectives."""
        options = self.parts.compute_options
        compute = self.served.compute_of(pool, where)
        formulas = self._formulas(self.served.model, sharding, compute)
        if formulas is not None:
            formulas.gathered = pool.exchange == "gather"
        kernels: KernelTimes
        if self.parts.tables is not None:
            power = self.served.options.expert_power
            kernels = TableTimes(self.parts.tables, self.served.model, sharding, self.parts.counts, formulas, options.skew, power)
        else:
            assert formulas is not None
            kernels = FormulaTimes(formulas, self.parts.counts)

        adapters = self._adapters(sharding, compute)

        def time_on(npus: tuple[int, ...]) -> IterationTime:
            result = IterationTime(
                kernels, self.served.model, sharding, host_us=options.host_us, host_us_per_sequence=options.host_us_per_sequence,
                asynchronous=self.parts.options.async_scheduling, graph_tokens=self._graph_tokens(pool),
            )  # fmt: skip
            self._communicate(result, pool, npus, compute, where)
            result.draft = self._draft(result, compute)
            result.adapters = adapters
            return result

        return time_on

    def _formulas(self, model: ModelDescription, sharding: Sharding, compute: Compute | None) -> KernelFormulas | None:
        """The times of a model's kernels by a compute model; None without one."""
        if compute is None:
            return None
        served = self.served.options
        return KernelFormulas(model, sharding, compute, served.precision, served.kv or "bf16", expert_power=served.expert_power)

    def _adapters(self, sharding: Sharding, compute: Compute | None) -> AdapterTimes | None:
        """The times of adapters; None if there are none. Raises InputError if no model gives them."""
        lora, model = self.parts.options.lora, self.served.model
        if lora is None:
            return None
        if compute is None:
            raise InputError(f"{self.parts.where}: serving.lora is given and there is no compute model for the kernels of adapters")
        if model.mla is not None:
            raise InputError(f"{self.parts.where}: serving.lora is given; expected a model without latent attention")
        load_us = adapter_bytes(model, sharding, lora.rank) / (lora.load_gb_per_s * 1e3)
        return AdapterTimes(model, sharding, lora.rank, compute, load_us)

    def _draft(self, time: IterationTime, compute: Compute | None) -> DraftTime | None:
        """The time of a token of all drafts: of one more layer with the head, or of an iteration of a model on the same ranks."""
        speculative = self.parts.options.speculative
        if speculative is None or speculative.draft == "ngram":
            return None
        if speculative.draft == "mtp":
            return LayerDraft(time)
        assert self.parts.draft_model is not None
        sharding = Sharding(time.sharding.tensor)
        formulas = self._formulas(self.parts.draft_model, sharding, compute)
        if formulas is None:
            raise InputError(
                f"{self.parts.where}: serving.speculative.draft is {speculative.draft!r} and there is no compute model for its kernels"
            )
        return ModelDraft(IterationTime(FormulaTimes(formulas, self.parts.counts), self.parts.draft_model, sharding, time.all_reduce_us))

    def _graph_tokens(self, pool: PoolOptions) -> int:
        """Tokens up to which the device runs graphs, which vLLM captures for up to twice as many as there are sequences."""
        graph_tokens = self.parts.options.graph_tokens
        return min(512, 2 * (pool.max_sequences or self.parts.options.max_sequences)) if graph_tokens is None else graph_tokens

    def _communicate(self, time: IterationTime, pool: PoolOptions, npus: tuple[int, ...], compute: Compute | None, where: str) -> None:
        """Give an iteration the times of its all-reduces, of its exchanges with experts, and of messages to the next stage."""
        sharding, model = time.sharding, self.served.model
        exchanges = sharding.data > 1 and model.experts > 0
        if not (sharding.tensor > 1 or sharding.pipeline > 1 or exchanges):
            return
        if self.parts.platform is None:
            degrees = ("tensor_parallel", sharding.tensor), ("pipeline_parallel", sharding.pipeline), ("data_parallel", sharding.data)
            name, value = next((name, value) for name, value in degrees if value > 1)
            raise InputError(f"{where}: {name} is {value} and there is no platform, on which its collectives run")
        times = CommunicationTimes(self.parts.network, sharding, npus)
        if sharding.tensor > 1:
            time.all_reduce_us = self._all_reduce(times, compute, where)
        if exchanges:
            exchange = exchange_of_tokens(times, model, pool.exchange, self.served.options.precision)
            time.exchange_us = lambda tokens: sum(map(times.collective_us, exchange(tokens)))
        if sharding.pipeline > 1:
            time.send_us = times.send_us
        if self.parts.options.collectives == "shared":
            time.shared = self._shared(times, time.all_reduce_us == times.all_reduce_us, exchange if exchanges else None, pool, where)

    def _shared(
        self, times: CommunicationTimes, reduces: bool, exchange: Exchange | None, pool: PoolOptions, where: str
    ) -> SharedCollectives | None:
        """The collectives of an instance that leave its nodes; None if none does. Raises InputError if links cannot be shared so."""
        sharding = times.sharding
        reduces = reduces and times.leaves_node(times.all_reduce(0).groups)
        if exchange is not None and not reduces and not any(times.leaves_node(each.groups) for each in exchange(1)):
            exchange = None
        if not reduces and exchange is None:
            return None
        if not isinstance(self.parts.network.network, EventNetwork):
            raise InputError(
                f"{where}: serving.collectives is 'shared', and collectives leave a node; expected a network on which messages wait for"
                " each other, such as flow"
            )
        if sharding.pipeline > 1:
            raise InputError(
                f"{where}: serving.collectives is 'shared', and pipeline_parallel is {sharding.pipeline}; expected 1 if collectives leave"
                " a node"
            )
        if pool.role == "prefill" and self.parts.options.transfer.mode == "layerwise":
            raise InputError(
                f"{where}: serving.collectives is 'shared', and serving.transfer.mode is 'layerwise'; expected 'after' if collectives of an"
                " instance for prompts leave a node"
            )
        times.exact = True
        return SharedCollectives(times, reduces, exchange)

    def _all_reduce(self, times: CommunicationTimes, compute: Compute | None, where: str) -> OfBytes:
        """The time of an all-reduce of tensor parallelism: directly between the NPUs of a node, or over the network.

        Raises InputError if it is to be direct and cannot be.
        """
        wanted, ranks = self.parts.options.all_reduce, times.sharding.tensor
        if wanted == "network":
            return times.all_reduce_us
        node = self.parts.network.platform.dimensions[0].size
        in_node = all(len({npu // node for npu in group}) == 1 for group in times.tensor_groups())
        known = compute is not None and in_node and compute.direct_all_reduce_us(ranks, 0) is not None
        if wanted == "direct" and not known:
            raise InputError(
                f"{where}: serving.all_reduce is 'direct'; expected NPUs of one node, and a compute model that knows such all-reduces"
            )
        if not known or (wanted is None and not self.parts.network.network.device):
            return times.all_reduce_us
        assert compute is not None

        def all_reduce_us(size: int) -> float:
            direct = compute.direct_all_reduce_us(ranks, size)
            return times.all_reduce_us(size) if direct is None else direct

        return all_reduce_us
