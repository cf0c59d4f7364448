"""The number of blocks of keys and values of an instance, in its memory and behind it."""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
from astra_sim import AstraError, InputError
from astra_sim.errors import located
from astra_sim.shapes import ELEMENT_BYTES
from astra_sim.units import GIB

from astra_sim_serving.lora import adapter_bytes
from astra_sim_serving.model_memory import ServingMemoryUse, Sharding, activation_bytes, kv_bytes_per_token, layer_parameters, weight_bytes
from astra_sim_serving.options import PoolOptions, TierOptions
from astra_sim_serving.parts import ModelParts, Parts
from astra_sim_serving.tiers import MemoryTier, Tiers


@attrs.frozen(eq=False)
class CacheMemory:
    """Sizes the caches of the pools of a model."""

    parts: Parts
    served: ModelParts

    def blocks(self, pool: PoolOptions, sharding: Sharding, where: str) -> int:
        """Blocks of an instance: as given, or as many as fit beside the weights. Raises InputError if none fits."""
        options = self.parts.options
        kv_blocks = pool.kv_blocks or options.kv_blocks
        if kv_blocks is not None:
            return kv_blocks
        memory = (
            options.memory_gib * GIB
            if options.memory_gib is not None
            else getattr(self.served.compute_of(pool, where), "memory_bytes", None)
        )
        if memory is None:
            raise InputError(f"{where}: the memory of an NPU is not known; expected serving.kv_blocks, or serving.memory_gib")
        model, served = self.served.model, self.served.options
        sequences = pool.max_sequences or options.max_sequences
        use = ServingMemoryUse(
            memory * options.memory_utilization,
            weight_bytes(model, sharding, served.precision) + self._draft_weights(sharding),
            activation_bytes(model, sharding, pool.max_batched_tokens or options.max_batched_tokens, sequences),
            options.memory_margin_gib * GIB,
            self._adapters(sharding),
        )
        try:
            return use.blocks(options.block_tokens * self.kv_bytes(sharding))
        except AstraError as error:
            raise located(error, where) from None

    def kv_bytes(self, sharding: Sharding) -> int:
        """Bytes of the keys and values of a token on a rank, with those of the draft model."""
        kind = self.served.options.kv or "bf16"
        per_token = kv_bytes_per_token(self.served.model, sharding, kind)
        if self.parts.draft_model is not None:
            return per_token + kv_bytes_per_token(self.parts.draft_model, Sharding(sharding.tensor), kind)
        return per_token + (per_token // len(sharding.stages(self.served.model.layers)[0]) if self._drafts_by_layer else 0)

    @property
    def _drafts_by_layer(self) -> bool:
        speculative = self.parts.options.speculative
        return speculative is not None and speculative.draft == "mtp"

    def _draft_weights(self, sharding: Sharding) -> int:
        """Bytes of the weights of the draft model, on a rank."""
        kind = self.served.options.precision
        if self.parts.draft_model is not None:
            return weight_bytes(self.parts.draft_model, Sharding(sharding.tensor), kind)
        last = self.served.model.layers - 1
        return math.ceil(layer_parameters(self.served.model, last, sharding) * ELEMENT_BYTES[kind]) if self._drafts_by_layer else 0

    def _adapters(self, sharding: Sharding) -> int:
        """Bytes of the adapters that a rank has memory for."""
        lora = self.parts.options.lora
        return lora.places * adapter_bytes(self.served.model, sharding, lora.rank) if lora is not None else 0

    def tiers(self, pool: PoolOptions, sharding: Sharding, where: str) -> Callable[[], Tiers | None]:
        """The factory of the memories behind the cache of each instance of a pool. Raises InputError if one holds no block."""
        options = self.parts.options
        if options.tier and not options.prefix_caching:
            raise InputError(f"{self.parts.where}: serving.tier has no effect without prefix_caching")
        size = options.block_tokens * self.kv_bytes(sharding)

        def tier_of(tier_options: TierOptions) -> MemoryTier:
            blocks = int(tier_options.capacity_gib * GIB // size) * (pool.instances * sharding.data if tier_options.shared else 1)
            if not blocks:
                raise InputError(f"{where}: a tier of {tier_options.capacity_gib:g} GiB holds no block of {size} bytes")
            return MemoryTier(blocks, tier_options.latency_us / 1e6, size / (tier_options.read_gb_per_s * 1e9))

        shared = [tier_of(tier_options) if tier_options.shared else None for tier_options in options.tier]
        if not options.tier:
            return lambda: None
        return lambda: Tiers([one or tier_of(tier_options) for one, tier_options in zip(shared, options.tier, strict=True)])
