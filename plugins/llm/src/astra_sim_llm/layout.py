"""The placement of layers and ranks: the layers of each chunk, and the groups of ranks on a platform."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import attrs
from astra_sim import InputError
from astra_sim.platform import LogicalDimension, Platform

from astra_sim_llm.models import Model
from astra_sim_llm.parallelism import Parallelism

Part = int | Literal["embedding", "head"]
"""A layer by its number, or a part before or after the layers."""


@attrs.frozen
class Chunk:
    """Layers that a stage does in one pass: their numbers, and whether the embedding comes before them and the head after them."""

    layers: tuple[int, ...]
    embedding: bool
    head: bool


def split_layers(model: Model, chunks: int, how: str | Sequence[int], weight_of: Callable[[Part], float]) -> list[Chunk]:
    """The layers of each virtual stage in order.

    even: as many in each; embedding_as_layer: embedding and head count as a layer each, and every virtual stage has as many, or one
    less; weighted: so that the longest virtual stage is as short as can be, if `weight_of` gives the time of a layer by its number, of
    the embedding and of the head. Raises InputError if they do not fit.
    """
    layers = model.layers
    if not isinstance(how, str):
        counts = list(how)
        if len(counts) != chunks or sum(counts) != layers or min(counts) < 0:
            raise InputError(f"stages is {counts}; expected {chunks} numbers of layers that add up to {layers}")
    elif how == "even":
        if layers % chunks:
            raise InputError(
                f"stages is even, and {layers} layers are not a multiple of {chunks} virtual stages;"
                " expected embedding_as_layer, weighted, or a list of layers"
            )
        counts = [layers // chunks] * chunks
    elif how == "embedding_as_layer":
        # Llama 3 405B: 126 layers, embedding and head are 128 slots (Megatron-core's account_for_embedding_in_pipeline_split).
        slots, rest = divmod(layers + 2, chunks)
        if not slots or (chunks == 1 and rest):
            raise InputError(
                f"stages is embedding_as_layer, and {layers + 2} layers are fewer than {chunks} virtual stages; expected as many"
            )
        counts = [slots + (number < rest) for number in range(chunks)]
        counts[0] -= 1
        counts[-1] -= 1
    elif how == "weighted":
        counts = _weighted(model, chunks, weight_of)
    else:
        raise InputError(f"stages is {how!r}; expected even, embedding_as_layer, weighted, or a list of {chunks} numbers of layers")
    result, first = [], 0
    for number, count in enumerate(counts):
        result.append(Chunk(tuple(range(first, first + count)), number == 0, number == chunks - 1))
        first += count
    return result


def _weighted(model: Model, chunks: int, weight_of: Callable[[Part], float]) -> list[int]:
    """Numbers of layers of which the longest virtual stage is as short as can be: the least bound that greedy filling keeps."""
    weights = [weight_of(layer) for layer in range(model.layers)]
    low, high = max(weights), sum(weights) + weight_of("embedding") + weight_of("head")

    def fill(bound: float) -> list[int] | None:
        counts, layer = [], 0
        for chunk in range(chunks):
            used = (weight_of("embedding") if chunk == 0 else 0.0) + (weight_of("head") if chunk == chunks - 1 else 0.0)
            first = layer
            # A small tolerance keeps sums of equal weights on one side of the bound.
            while layer < len(weights) and used + weights[layer] <= bound * (1 + 1e-9):
                used += weights[layer]
                layer += 1
            counts.append(layer - first)
        return counts if layer == len(weights) else None

    # Bisection of floating-point numbers, which have 53 bits.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if fill(middle) else (middle, high)
    counts = fill(high)
    assert counts is not None
    return counts


class ParallelAxes:
    """The groups of ranks on a platform, as logical dimensions; a group that reaches over several physical ones is split there."""

    def __init__(self, platform: Platform, parallel: Parallelism) -> None:
        self._platform = platform
        self.dimensions: list[LogicalDimension] = []
        p = parallel
        # Context ranks have the same weights, so gradients are added over them as well.
        replicas = p.data * p.context
        shards, expert_shards = (p.shards, p.expert_shards) if p.zero else (replicas, p.expert_data)
        sizes = {
            "tp": (p.tensor, 1),
            "cp": (p.context, p.tensor),
            "dp": (shards, p.tensor),
            "replicas": (replicas // shards, p.tensor * shards),
            "all_dp": (replicas, p.tensor),
            # Experts number the same ranks in an order of their own, tp-ep-dp (Megatron-core).
            "etp": (p.expert_tensor, 1),
            "ep": (p.expert, p.expert_tensor),
            "edp": (expert_shards, p.expert_tensor * p.expert),
            "expert_replicas": (p.expert_data // expert_shards, p.expert_tensor * p.expert * expert_shards),
            "all_edp": (p.expert_data, p.expert_tensor * p.expert),
        }
        self._axes = {name: self._axis(name, *size) for name, size in sizes.items()}
        inner = [number for number in self._axes["ep"] if self.dimensions[number].physical == 0]
        self._axes["ep_node"] = tuple(inner)
        self._axes["ep_nodes"] = tuple(number for number in self._axes["ep"] if number not in inner)

    def __getitem__(self, name: str) -> tuple[int, ...]:
        """The positions of an axis's dimensions; empty if it has one rank."""
        return self._axes[name]

    @property
    def expert_nodes(self) -> int:
        """Nodes over which the experts of a model are shared: 1 if ranks of one node have them all."""
        return math.prod(self.dimensions[number].size for number in self._axes["ep_nodes"]) if self._axes["ep_node"] else 1

    def _axis(self, name: str, size: int, stride: int) -> tuple[int, ...]:
        result = []
        for dimension in self._platform.parts_of_group(size, stride, name):
            if dimension not in self.dimensions:
                self.dimensions.append(dimension)
            result.append(self.dimensions.index(dimension))
        return tuple(result)
